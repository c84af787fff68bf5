# SPDX-License-Identifier: Apache-2.0
"""Texts that two programs share, without a clock, files or Nova."""

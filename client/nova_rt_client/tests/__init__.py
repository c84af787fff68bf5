# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands, without a cloud."""

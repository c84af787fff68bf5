# SPDX-License-Identifier: Apache-2.0
"""Validators of flavor extra specs."""

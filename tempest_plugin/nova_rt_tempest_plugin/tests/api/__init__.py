# SPDX-License-Identifier: Apache-2.0
"""Tests of what the APIs accept, refuse and report."""

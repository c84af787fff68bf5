# SPDX-License-Identifier: Apache-2.0
"""Tests of files for operators, of pages and of the gate."""

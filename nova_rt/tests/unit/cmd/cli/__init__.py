# SPDX-License-Identifier: Apache-2.0
"""Unit tests of what the programs with commands have in common."""

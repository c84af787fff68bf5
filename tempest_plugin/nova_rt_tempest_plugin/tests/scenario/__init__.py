# SPDX-License-Identifier: Apache-2.0
"""Tests of what users and operators do with real-time servers."""

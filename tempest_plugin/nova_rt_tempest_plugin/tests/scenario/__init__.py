# SPDX-License-Identifier: Apache-2.0
"""Tests of actions of users and operators with real-time servers."""

# SPDX-License-Identifier: Apache-2.0
"""Moves of servers between hosts: two records each, and recovery."""

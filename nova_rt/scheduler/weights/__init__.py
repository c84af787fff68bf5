# SPDX-License-Identifier: Apache-2.0
"""Weighers of nova-scheduler."""

# SPDX-License-Identifier: Apache-2.0
"""Metrics of one compute host for Prometheus, read without privileges."""

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.feedback."""

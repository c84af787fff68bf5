# SPDX-License-Identifier: Apache-2.0
"""Unit tests of nova_rt.cloud."""

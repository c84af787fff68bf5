# SPDX-License-Identifier: Apache-2.0
"""Tests of real-time flavors, as a plug-in of Tempest."""

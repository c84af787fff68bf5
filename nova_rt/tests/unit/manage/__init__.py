# SPDX-License-Identifier: Apache-2.0
"""Unit tests of the commands of nova-rt-manage."""

# SPDX-License-Identifier: Apache-2.0
"""Unit tests of the reservations of one host."""

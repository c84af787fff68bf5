# SPDX-License-Identifier: Apache-2.0
"""The compute hosts, seen from the tests."""

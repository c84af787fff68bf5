# SPDX-License-Identifier: Apache-2.0
"""Unit tests of the host layer, on machines that are directories."""

# SPDX-License-Identifier: Apache-2.0
"""Unit tests of what makes LXC work with Nova."""

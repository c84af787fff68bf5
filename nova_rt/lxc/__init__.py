# SPDX-License-Identifier: Apache-2.0
"""LXC made to work with Nova, for plain servers too."""

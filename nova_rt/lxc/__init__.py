# SPDX-License-Identifier: Apache-2.0
"""Support for LXC containers in Nova, for plain servers, too."""

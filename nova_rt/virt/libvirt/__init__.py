# SPDX-License-Identifier: Apache-2.0
"""Nova's libvirt driver, with reservations for LXC containers."""

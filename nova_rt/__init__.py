# SPDX-License-Identifier: Apache-2.0
"""Guaranteed CPU reservations for Nova's libvirt-LXC containers."""

# SPDX-License-Identifier: Apache-2.0
"""The driver under the name that Nova's loader gives it."""

from nova_rt.virt.libvirt.driver import RTLibvirtDriver

__all__ = ['RTLibvirtDriver']

# SPDX-License-Identifier: Apache-2.0
"""Elements of a container's ``<features>`` that Nova does not know."""

from typing import Any

from nova.virt.libvirt import config


class LibvirtConfigGuestFeatureCapabilities(config.LibvirtConfigGuestFeature):
    """The rights of a container's root within its own user namespace.

    Without CAP_SYS_RESOURCE it cannot raise the limits of the namespace
    (:mod:`nova_rt.privsep.limits`). For all its other purposes, the kernel
    requires the capability in the host's namespace.
    """

    def __init__(self) -> None:
        super().__init__('capabilities')

    def format_dom(self) -> Any:
        """Make the element, as described in libvirt's formatdomain.html.

        :returns: an element for the domain's XML
        """
        root = super().format_dom()
        root.set('policy', 'default')
        dropped = self._new_node('sys_resource')
        dropped.set('state', 'off')
        root.append(dropped)
        return root

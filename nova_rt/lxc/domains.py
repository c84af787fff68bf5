# SPDX-License-Identifier: Apache-2.0
"""Domains of one libvirtd, found by the UUIDs of their servers."""

import libvirt
from nova import exception as nova_exception
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host

#: Errors of libvirt: its answers, and Nova's for a libvirtd that cannot be
#: reached.
ERRORS = (libvirt.libvirtError, nova_exception.HypervisorUnavailable)


class Domains:
    """Any thread may call any method."""

    def __init__(self, hypervisor: libvirt_host.Host) -> None:
        self._hypervisor = hypervisor

    def find(self, uuid: str) -> libvirt_guest.Guest | None:
        """Find the domain of a server.

        Not by Nova's Host.get_guest(): to report an error of libvirt, that
        needs more of the server than its UUID, and fails without.

        :returns: None if it has none
        :raises ERRORS: one of them, if libvirt does not say
        """
        try:
            domain = self._hypervisor.get_connection().lookupByUUIDString(uuid)
        except libvirt.libvirtError as err:
            if err.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise
        return libvirt_guest.Guest(domain)

    def find_running(self, uuid: str) -> libvirt_guest.Guest | None:
        """Find the domain of a server that runs.

        :returns: None if it does not
        :raises ERRORS: one of them, if libvirt does not say
        """
        guest = self.find(uuid)
        return guest if guest is not None and guest.is_active() else None

    def runs(self, uuid: str, pid: int) -> bool:
        """Whether a container was not stopped or started anew meanwhile.

        :param pid: its libvirt_lxc process
        :returns: whether it is the same one
        :raises ERRORS: one of them, if libvirt does not say
        """
        guest = self.find_running(uuid)
        return guest is not None and guest.id == pid

    def list_running(self) -> list[libvirt_guest.Guest]:
        """List the domains that run.

        :returns: all of them, whosever they are
        :raises ERRORS: one of them, if libvirt does not say
        """
        guests: list[libvirt_guest.Guest] = self._hypervisor.list_guests(
            only_running=True
        )
        return guests

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
    """Domains of one libvirtd; all methods are thread-safe."""

    def __init__(self, hypervisor: libvirt_host.Host) -> None:
        self._hypervisor = hypervisor

    def find(self, uuid: str) -> libvirt_guest.Guest | None:
        """Find the domain of a server.

        Nova's Host.get_guest() needs more than a UUID to report an error of
        libvirt, and fails without it.

        :returns: None if it has none
        :raises ERRORS: one of them, if libvirt fails
        """
        try:
            domain = self._hypervisor.get_connection().lookupByUUIDString(uuid)
        except libvirt.libvirtError as err:
            if err.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise
        return libvirt_guest.Guest(domain)

    def find_running(self, uuid: str) -> libvirt_guest.Guest | None:
        """Find the running domain of a server.

        :returns: None if it does not run
        :raises ERRORS: one of them, if libvirt fails
        """
        guest = self.find(uuid)
        return guest if guest is not None and guest.is_active() else None

    def runs(self, uuid: str, pid: int) -> bool:
        """Tell whether a container still runs in the same process.

        :param pid: its libvirt_lxc process
        :returns: False if it was stopped, or started again, meanwhile
        :raises ERRORS: one of them, if libvirt fails
        """
        guest = self.find_running(uuid)
        return guest is not None and guest.id == pid

    def list_running(self) -> list[libvirt_guest.Guest]:
        """List the running domains, not only those of servers.

        :returns: all of them
        :raises ERRORS: one of them, if libvirt fails
        """
        guests: list[libvirt_guest.Guest] = self._hypervisor.list_guests(
            only_running=True
        )
        return guests

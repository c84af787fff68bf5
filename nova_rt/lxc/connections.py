# SPDX-License-Identifier: Apache-2.0
"""Connections of libvirtd to the containers that it starts.

libvirt 9 loses one now and then. The controller of a container, libvirt_lxc,
reports the container's first process as soon as libvirtd connects to it. If
the report arrives before libvirtd expects any (src/lxc/lxc_monitor.c,
virLXCMonitorNew()), libvirtd closes the connection without a word. The
container runs, but libvirtd cannot shut it down, and does not notice its end.

A restarted libvirtd connects to all containers again, and loses some of them.
"""

from collections.abc import Callable, Collection
import os
import time

import libvirt
import libvirt_lxc
from nova.virt.libvirt import guest as libvirt_guest
from oslo_log import log as logging

from nova_rt.host import host as rt_host
from nova_rt.lxc.domains import Domains

LOG = logging.getLogger(__name__)

#: Starts of a container until one with a connection is given up.
STARTS = 4

# The report arrives a few milliseconds after the start, or never.
_REPORTED_S = 3
_POLL_S = 0.02

# Seconds between attempts to stop a container. Under systemd, libvirt 9 may
# report a failed system call for a container that has ended.
_STOPPED_S = (0.2, 1, 5)


class EndedContainers:
    """Containers that have ended unnoticed by libvirtd; thread-safe."""

    def __init__(self, host: rt_host.Host, domains: Domains) -> None:
        self._host = host
        self._domains = domains
        #: Server -> process that the last check of it has missed.
        self._missed: dict[str, int] = {}

    def clean_up(self, uuid: str, pid: int) -> bool:
        """Have libvirtd clean up if a running container has ended.

        At the second check that finds so: libvirtd notices most ends itself, a
        moment later.

        :param uuid: of the server, of which nothing starts meanwhile
        :param pid: its libvirt_lxc process
        :returns: whether that has ended
        :raises domains.ERRORS: one of them, if libvirt fails
        """
        if self._host.has_process(pid):
            self._missed.pop(uuid, None)
            return False
        if self._missed.get(uuid) != pid:
            self._missed[uuid] = pid
            return True
        guest = self._domains.find_running(uuid)
        if guest is not None and guest.id == pid:
            LOG.warning(
                'This container has ended, which libvirtd has not noticed',
                instance_uuid=uuid,
            )
            guest.poweroff()
        # A check of all containers may have forgotten it meanwhile.
        self._missed.pop(uuid, None)
        return True

    def forget_all_but(self, uuids: Collection[str]) -> None:
        """Forget the containers that are not among these."""
        for uuid in self._missed.keys() - set(uuids):
            self._missed.pop(uuid, None)


def ensure(guest: libvirt_guest.Guest, launch: Callable[[], None]) -> None:
    """Start a container again until libvirtd is connected to it.

    A container that stays without is left to run, with a warning.

    :param guest: the domain, just started
    :param launch: starts it
    :raises libvirtError: if it cannot be stopped, or started again
    """
    for _ in range(STARTS - 1):
        if _connected(guest):
            return
        LOG.warning(
            'libvirtd has lost its connection to this container, which it '
            'has just started: starting it again', instance_uuid=guest.uuid,
        )  # fmt: skip
        _stop(guest)
        launch()
    if not _connected(guest):
        LOG.error(
            'libvirtd has lost its connection to this container in %s starts: '
            'it cannot be shut down, only killed', STARTS,
            instance_uuid=guest.uuid,
        )  # fmt: skip


def _connected(guest: libvirt_guest.Guest) -> bool:
    """Wait until libvirtd knows the first process of a container.

    :returns: False if it does not; True for a container that has ended, too
    """
    deadline = time.monotonic() + _REPORTED_S
    while not _knows_process(guest):
        if not guest.is_active():
            # Reported by the caller, with its reason.
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _knows_process(guest: libvirt_guest.Guest) -> bool:
    """Ask libvirtd for the namespaces of a container's first process."""
    try:
        files = libvirt_lxc.lxcOpenNamespace(guest._domain, 0)
    except libvirt.libvirtError as err:
        if err.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID:
            return False
        LOG.warning(
            'Cannot find out whether libvirtd is connected to this '
            'container: %s', err, instance_uuid=guest.uuid,
        )  # fmt: skip
        return True
    for file in files:
        os.close(file)
    return True


def _stop(guest: libvirt_guest.Guest) -> None:
    for wait_s in (*_STOPPED_S, None):
        try:
            if guest.is_active():
                guest.poweroff()
            return
        except libvirt.libvirtError:
            if wait_s is None:
                raise
        time.sleep(wait_s)

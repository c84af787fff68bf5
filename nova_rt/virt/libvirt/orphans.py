# SPDX-License-Identifier: Apache-2.0
"""Removal of orphaned groups, which libvirt has left in the partition.

A group without tasks still holds its reservation, though no server has it: the
kernel then refuses bandwidth that Placement has granted.
"""

from collections.abc import Callable
import errno
import threading
from typing import NoReturn

from nova.virt.libvirt import host as libvirt_host
from oslo_log import log as logging

from nova_rt import exception
from nova_rt.host import host as rt_host
from nova_rt.host.orphans import OrphanedGroup

LOG = logging.getLogger(__name__)

#: Errors of a kernel that refuses a reservation for want of bandwidth.
_NO_ROOM = (errno.EINVAL, errno.EBUSY)


class OrphanedGroups:
    """The orphaned groups of one host; all methods are thread-safe."""

    def __init__(
        self, host: rt_host.Host, hypervisor: libvirt_host.Host
    ) -> None:
        self._host = host
        self._hypervisor = hypervisor
        self._lock = threading.Lock()
        self._removed = 0
        self._told: set[OrphanedGroup] = set()

    def reclaim(self) -> list[OrphanedGroup]:
        """Remove the groups of containers that have ended.

        Errors are only logged: callers go on with their own work.

        :returns: the groups without tasks that hold bandwidth and stay
        """
        self.sweep()
        with self._lock:
            try:
                guests = self._hypervisor.list_guests(only_running=True)
                found = self._host.reclaim({guest.id for guest in guests})
            except Exception as err:
                # Any error: running containers are verified next.
                LOG.warning('Cannot look for orphaned groups: %s', err)
                return []
            for each in found:
                if each.kept is None:
                    self._removed += 1
                    LOG.warning(
                        'Removed orphaned group %s, which held %s: its '
                        'container has ended', each.name,
                        each.held or 'nothing',
                    )  # fmt: skip
            stay = [each for each in found if each.kept and each.held]
            for each in stay:
                if each not in self._told:
                    LOG.warning('Orphaned %s: not removed', describe(each))
            self._told = set(stay)
            return stay

    def sweep(self) -> None:
        """Remove the task limits of containers that have ended.

        An error is only logged: the next check tries again.
        """
        try:
            self._host.sweep_task_limits()
        except OSError as err:
            LOG.warning('Cannot remove task limits: %s', err)

    def make_room(self, write: Callable[[], None]) -> None:
        """Write a reservation, and retry if removed groups make room for it.

        The second try requires that a group was removed meanwhile, here or by
        another thread.

        :param write: makes the kernel hold a reservation
        :raises ReservationNotApplied: if the kernel does not hold it
        """
        before = self._removed
        try:
            write()
            return
        except exception.ReservationNotApplied as err:
            if err.errno not in _NO_ROOM:
                raise
            first = err
        stay = self.reclaim()
        if self._removed == before:
            _raise_naming(first, stay)
        try:
            write()
        except exception.ReservationNotApplied as err:
            _raise_naming(err, stay)


def describe(group: OrphanedGroup) -> str:
    """Describe the bandwidth of an orphaned group, and its reason to stay.

    :returns: a clause
    """
    return (
        f'group {group.name} has no tasks and holds {group.held} '
        f'({group.kept})'
    )


def _raise_naming(
    err: exception.ReservationNotApplied, groups: list[OrphanedGroup]
) -> NoReturn:
    """Raise an error that also names the remaining orphaned groups."""
    if not groups:
        raise err
    more = exception.ReservationNotApplied(
        '; '.join([str(err), *map(describe, groups)]), verdict=err.verdict
    )
    more.errno = err.errno
    raise more from err

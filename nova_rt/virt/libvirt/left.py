# SPDX-License-Identifier: Apache-2.0
"""Takes back the bandwidth of groups that libvirt has left in the partition.

A group without tasks holds its reservation against all servers, though it is
of none: the kernel then refuses what Placement has granted.
"""

from collections.abc import Callable
import errno
import threading
from typing import NoReturn

from nova.virt.libvirt import host as libvirt_host
from oslo_log import log as logging

from nova_rt import exception
from nova_rt.host import host as rt_host
from nova_rt.host.left import Left

LOG = logging.getLogger(__name__)

#: Errors of a kernel that refuses a reservation for want of bandwidth.
_NO_ROOM = (errno.EINVAL, errno.EBUSY)


class LeftGroups:
    """The groups that libvirt has left on one host.

    Any thread may call any method.
    """

    def __init__(
        self, host: rt_host.Host, hypervisor: libvirt_host.Host
    ) -> None:
        self._host = host
        self._hypervisor = hypervisor
        self._lock = threading.Lock()
        self._removed = 0
        self._told: set[Left] = set()

    def reclaim(self) -> list[Left]:
        """Remove the groups of containers that have ended.

        What goes wrong is logged: whoever calls this has something else to do.

        :returns: the groups that hold bandwidth, have no tasks and stay
        """
        self.sweep()
        with self._lock:
            try:
                guests = self._hypervisor.list_guests(only_running=True)
                found = self._host.reclaim({guest.id for guest in guests})
            except Exception as err:
                # Whatever it was: containers that run are verified next.
                LOG.warning(
                    'Cannot look for groups that libvirt has left: %s', err
                )
                return []
            for each in found:
                if each.kept is None:
                    self._removed += 1
                    LOG.warning(
                        'Removed the group %s, which held %s: its container '
                        'has ended, and libvirt had left it', each.name,
                        each.held or 'nothing',
                    )  # fmt: skip
            stay = [each for each in found if each.kept and each.held]
            for each in stay:
                if each not in self._told:
                    LOG.warning('Not removed: %s', describe(each))
            self._told = set(stay)
            return stay

    def sweep(self) -> None:
        """Remove what limited the tasks of containers that have ended.

        An error is logged: the next check tries again.
        """
        try:
            self._host.sweep_task_limits()
        except OSError as err:
            LOG.warning('Cannot remove limits of tasks: %s', err)

    def make_room(self, write: Callable[[], None]) -> None:
        """Write a reservation; if there is no room for it, once more.

        That is, if a group was removed meanwhile, here or by another thread.

        :param write: has the kernel hold a reservation
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


def describe(group: Left) -> str:
    """Describe what a group without tasks holds, and why it stays.

    :returns: a clause
    """
    return (
        f'group {group.name} has no tasks and holds {group.held} '
        f'({group.kept})'
    )


def _raise_naming(
    err: exception.ReservationNotApplied, groups: list[Left]
) -> NoReturn:
    """Raise an error that also names groups which only take up room."""
    if not groups:
        raise err
    more = exception.ReservationNotApplied(
        '; '.join([str(err), *map(describe, groups)]), verdict=err.verdict
    )
    more.errno = err.errno
    raise more from err

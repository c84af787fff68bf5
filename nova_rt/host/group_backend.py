# SPDX-License-Identifier: Apache-2.0
"""The common part of back ends whose kernel reserves for control groups.

They have a hierarchy of groups: libvirt's partition, and a container's groups
in it, with files that say what is reserved. These files must belong to the
host's root; a task has the reservation of its group if it has a real-time
policy; and a group keeps its reservation when its last task has ended.
"""

import abc
from collections.abc import Collection
import os
import pathlib

from nova_rt import exception
from nova_rt.host import left, ownership, tasks
from nova_rt.host.capability import Capability
from nova_rt.host.cgroup import Container, Hierarchy
from nova_rt.host.files import Files
from nova_rt.host.interface import Interface, Share
from nova_rt.host.left import Left
from nova_rt.host.protocol import Backend
import nova_rt.privsep.kernel
from nova_rt.reservation.record import Record


class GroupBackend(Backend[Container]):
    """Reservations of control groups.

    :cvar interface: the properties of this kind of kernel
    :cvar FILES: the files of a group that say what it holds
    :cvar INSIDE: whether the tasks of the groups in a container's group live
        on its reservation
    :ivar hierarchy: the groups that these files are in
    """

    interface: Interface
    FILES: tuple[str, ...]
    INSIDE: bool
    hierarchy: Hierarchy

    def __init__(self, files: Files, hierarchy: Hierarchy) -> None:
        self._files = files
        self.hierarchy = hierarchy

    # By the kind of kernel

    @abc.abstractmethod
    def look_at(self, partition: pathlib.Path) -> Capability:
        """Read what the kernel can promise to a partition.

        :returns: the capability, prepared or not
        :raises HostNotPrepared: if the host's settings leave nothing
        """

    @abc.abstractmethod
    def has_room(self, found: Capability) -> bool:
        """Tell whether the partition has room for the smallest reservation.

        :returns: False if what is in it leaves none
        """

    @abc.abstractmethod
    def self_test_in(self, group: pathlib.Path) -> str | None:
        """Make the kernel hold the smallest reservation for a moment.

        :param group: an empty one in the partition, for this alone
        :returns: None if it held it, else what differs
        """

    @abc.abstractmethod
    def reserve(
        self,
        found: Capability,
        container: Container,
        rec: Record,
    ) -> None:
        """Do what :meth:`hold` does, without a look at who owns the files."""

    @abc.abstractmethod
    def read_share(self, group: pathlib.Path) -> Share:
        """Read what a group holds.

        :returns: the share, of this group alone
        """

    # The host

    def look(self, partition: str | None) -> Capability:
        """Find the partition, and read what it can be promised."""
        name = partition or nova_rt.privsep.kernel.default_partition(
            str(self._files.cgroup)
        )
        path = self.hierarchy.resolve_partition(name)
        if path is None:
            raise exception.HostNotPrepared(
                f'[nova_rt] partition = {name!r} is not a group below '
                f'{self.hierarchy.root}'
            )
        return self.look_at(path)

    def self_test(self, found: Capability) -> str | None:
        """Try it in a group of its own in the partition, which is removed."""
        if not self.has_room(found):
            return None
        group = found.partition / f'nova-rt-probe-{os.getpid()}'
        self._files.make_group(group)
        try:
            return self.self_test_in(group)
        finally:
            self._files.remove_probe(group)

    # Containers

    def find_container(self, found: Capability, pid: int) -> Container:
        """Find its groups, which are in the partition."""
        return self.hierarchy.find_container(pid, found.partition)

    def find_outside(self, found: Capability, pid: int) -> pathlib.Path | None:
        """Look whether it is somewhere else than in the partition."""
        group = self.hierarchy.find_group(pid)
        return None if found.partition in group.parents else group

    def hold(
        self,
        found: Capability,
        container: Container,
        rec: Record,
    ) -> None:
        """Make the files the host's root's, and write what differs."""
        # First, so that nothing writes between us; then again, for files
        # that were not there before.
        self.protect(container)
        self.reserve(found, container, rec)
        self.protect(container)

    def protect(self, container: Container) -> None:
        """See :func:`.ownership.take`."""
        ownership.take(self.hierarchy, container)

    def find_exposed(self, container: Container) -> str | None:
        """See :func:`.ownership.find_difference`."""
        return ownership.find_difference(self.hierarchy, container)

    def read_tasks(self, container: Container) -> set[int]:
        """Read which tasks live on a container's reservation.

        :returns: their numbers, the libvirt_lxc process included
        """
        if self.INSIDE:
            return self.hierarchy.read_tasks_inside(container.group)
        return self.hierarchy.read_tasks(container.group)

    def serve_tasks(self, container: Container, rec: Record) -> None:
        """Give them the real-time policy, except libvirt_lxc."""
        tasks.give_policy(self._files, container, rec.request, self.INSIDE)

    def find_unserved(self, container: Container, rec: Record) -> str | None:
        """Look whether one of them has a real-time policy."""
        return tasks.find_missing_policy(
            self._files, container, rec.request, self.read_tasks
        )

    def limit_tasks(self, container: Container, most: int) -> None:
        """Limit them in the outermost of its groups."""
        self._files.limit_tasks(container.levels[0], most)

    # Containers that have ended

    def reclaim(
        self, found: Capability, running: Collection[int]
    ) -> list[Left]:
        """Remove the groups that libvirt has left."""
        return left.reclaim(
            self.hierarchy, self.read_share, found.partition, running
        )

    def sweep_task_limits(self, found: Capability) -> None:
        """Remove the groups that were made for limits."""
        left.sweep_task_limits(self._files, found.partition)

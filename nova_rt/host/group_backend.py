# SPDX-License-Identifier: Apache-2.0
"""The common part of back ends for kernels with reservations of cgroups.

They have a hierarchy of groups: libvirt's partition, and a container's groups
in it, with files that hold the reservations. These files must belong to the
host's root; a task uses the reservation of its group if it has a real-time
policy; and a group keeps its reservation when its last task has ended.
"""

import abc
from collections.abc import Collection
import os
import pathlib

from nova_rt import exception
from nova_rt.host import orphans, ownership, tasks
from nova_rt.host.capability import Capability
from nova_rt.host.cgroup import Container, Hierarchy
from nova_rt.host.files import Files
from nova_rt.host.interface import Interface, Share
from nova_rt.host.orphans import OrphanedGroup
from nova_rt.host.protocol import Backend
import nova_rt.privsep.kernel
from nova_rt.reservation.record import Record


class GroupBackend(Backend[Container]):
    """Reservations of control groups.

    :cvar interface: the properties of this kind of kernel
    :cvar FILES: the files of a group with its reservation
    :cvar INSIDE: whether tasks of the groups in a container's group use its
        reservation
    :ivar hierarchy: the groups with these files
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
        """Read the bandwidth that the kernel can promise to a partition.

        :returns: the capability, prepared or not
        :raises HostNotPrepared: if the host's settings leave nothing
        """

    @abc.abstractmethod
    def has_room(self, found: Capability) -> bool:
        """Tell whether the partition has room for the smallest reservation.

        :returns: False if the reservations in it leave none
        """

    @abc.abstractmethod
    def self_test_in(self, group: pathlib.Path) -> str | None:
        """Make the kernel hold the smallest reservation for a moment.

        :param group: an empty one in the partition, for this alone
        :returns: None if the kernel held it, else the difference
        """

    @abc.abstractmethod
    def reserve(
        self,
        found: Capability,
        container: Container,
        rec: Record,
    ) -> None:
        """Write the reservation; the owners of the files stay unchecked."""

    @abc.abstractmethod
    def read_share(self, group: pathlib.Path) -> Share:
        """Read the share of a group.

        :returns: the share, of this group alone
        """

    # The host

    def look(self, partition: str | None) -> Capability:
        """Find the partition, and read its bandwidth."""
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
        """Test a temporary group in the partition."""
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
        """Find the groups of a container in the partition."""
        return self.hierarchy.find_container(pid, found.partition)

    def find_outside(self, found: Capability, pid: int) -> pathlib.Path | None:
        """Find the group of a container outside the partition."""
        group = self.hierarchy.find_group(pid)
        return None if found.partition in group.parents else group

    def hold(
        self,
        found: Capability,
        container: Container,
        rec: Record,
    ) -> None:
        """Give the files to the host's root, and write the differences."""
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
        """List the tasks that use a container's reservation.

        :returns: their numbers, the libvirt_lxc process included
        """
        if self.INSIDE:
            return self.hierarchy.read_tasks_inside(container.group)
        return self.hierarchy.read_tasks(container.group)

    def set_policy(self, container: Container, rec: Record) -> None:
        """Give all tasks except libvirt_lxc the real-time policy."""
        tasks.give_policy(self._files, container, rec.request, self.INSIDE)

    def check_policy(self, container: Container, rec: Record) -> str | None:
        """Tell whether any task has a real-time policy."""
        return tasks.find_missing_policy(
            self._files, container, rec.request, self.read_tasks
        )

    def limit_tasks(self, container: Container, most: int) -> None:
        """Limit the tasks in the container's outermost group."""
        self._files.limit_tasks(container.levels[0], most)

    # Containers that have ended

    def reclaim(
        self, found: Capability, running: Collection[int]
    ) -> list[OrphanedGroup]:
        """Remove groups of ended containers."""
        return orphans.reclaim(
            self.hierarchy, self.read_share, found.partition, running
        )

    def sweep_task_limits(self, found: Capability) -> None:
        """Remove groups that were made for task limits."""
        orphans.sweep_task_limits(self._files, found.partition)

# SPDX-License-Identifier: Apache-2.0
"""The operations of a kernel's back end, for any mechanism of reservation.

A back end implements them for one kind of kernel and is the only module that
knows this kind. :mod:`nova_rt.host.probe` finds the one that fits a host.
:mod:`nova_rt.host.group_backend` has the common part of back ends that reserve
for control groups.
"""

import abc
from collections.abc import Collection, Mapping
import pathlib
from typing import Generic, Self, TypeVar

from nova_rt import exception
from nova_rt.host.capability import Capability
from nova_rt.host.files import Files
from nova_rt.host.interface import Share, Usage, UsageSource
from nova_rt.host.orphans import OrphanedGroup
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import Reservation

#: A container as a back end finds it; nobody else looks into it.
ContainerT = TypeVar('ContainerT')


class Backend(abc.ABC, Generic[ContainerT]):
    """Reservations on one kind of kernel.

    Errors of the kernel are OSError with its errno, :class:`.Refusal` where
    the kernel itself refuses, except where another error is named. A back end
    keeps no state: it reads the kernel at each call.

    The methods that are not abstract suit a kernel without the feature.

    :ivar reserved_ppm: bandwidth to keep back from servers. A back end with a
        share for its partition leaves this part to the host
    :ivar pool: the pool of spare bandwidth that the operator wants on each
        CPU, for servers that have used up their own
    """

    reserved_ppm: int = 0
    pool: Reservation | None = None

    @classmethod
    @abc.abstractmethod
    def detect(cls, files: Files) -> Self | None:
        """Detect whether the kernel of a host is of this kind.

        :returns: None if it is not
        :raises NoRTInterface: if it has the files, and they cannot be read or
            have an unknown format
        """

    # The host

    @abc.abstractmethod
    def look(self, partition: str | None) -> Capability:
        """Read the bandwidth that the kernel can promise to containers.

        :param partition: the group that libvirt puts them in, as the operator
            writes it; None for libvirt's default
        :returns: the capability, prepared or not
        :raises HostNotPrepared: if the host's settings leave nothing, or
            there cannot be such a partition
        """

    def prepare(self, found: Capability) -> Capability:
        """Prepare the host so that its full capacity can be reserved.

        Needed after every boot.

        :returns: the capability as it is then
        :raises HostNotPrepared: with the numbers, if the kernel refuses
        """
        return found

    def set_pool(self, found: Capability) -> None:
        """Make the kernel hold :attr:`pool` on each CPU, once for all.

        The capability that is read next lacks its bandwidth.

        :raises HostNotPrepared: with the numbers, if the kernel has no pools
            or no room
        """
        if self.pool is not None:
            raise exception.HostNotPrepared(
                f'[nova_rt] spare_pool = {self.pool}: this host, with '
                f'{found.name}, has no pools of spare bandwidth; boot the '
                'kernel of this project, or remove the option'
            )

    def keep_pool(self, found: Capability) -> Capability:
        """Make the kernel hold :attr:`pool` again if it is gone.

        This never waits.

        :returns: the capability with the pool; if it cannot be had now, with
            neither the pool nor its bandwidth
        """
        return found

    def read_pool_usage(self, found: Capability) -> Mapping[int, Usage]:
        """Read the use of the pool of spare bandwidth.

        :returns: CPU -> usage, by all servers; empty where there is no pool
        """
        return {}

    @abc.abstractmethod
    def self_test(self, found: Capability) -> str | None:
        """Verify that the kernel holds the smallest reservation.

        Skipped where there is no room for it: the reservations held are
        evidence enough.

        :returns: None if the kernel held it, else the difference
        """

    @abc.abstractmethod
    def refresh(self, found: Capability) -> Capability:
        """Read the ceiling and the free bandwidth again.

        :returns: the capability as it is now
        """

    def read_allowed(self, found: Capability) -> tuple[int, ...] | None:
        """Read the CPUs to which the operator confines all containers.

        :returns: CPU numbers, ascending; None if containers may use every CPU
            that is online
        :raises OSError: with the kernel's errno
        """
        return None

    @abc.abstractmethod
    def describe(self, found: Capability, cpus: tuple[int, ...]) -> str:
        """Describe the bandwidth held now, for a refusal.

        :param cpus: the CPUs of the refused reservation
        :returns: numbers, for a message
        """

    # Containers

    @abc.abstractmethod
    def find_container(self, found: Capability, pid: int) -> ContainerT:
        """Find a container.

        :param pid: its libvirt_lxc process
        :returns: the container, for the methods below
        :raises OSError: ENOENT if there is no such process, or if its group
            cannot be given a reservation
        """

    def find_outside(self, found: Capability, pid: int) -> pathlib.Path | None:
        """Find a container in a group that cannot be given a reservation.

        :returns: that group; None if the container can be given one
        """
        return None

    @abc.abstractmethod
    def hold(
        self,
        found: Capability,
        container: ContainerT,
        rec: Record,
    ) -> None:
        """Make the kernel hold a container's reservation on its CPUs.

        Nothing is written if the kernel holds it already. Only the host's
        root can change it then.

        :raises ReservationNotApplied: if the container or the partition is
            not as it should be
        """

    @abc.abstractmethod
    def find_difference(
        self,
        container: ContainerT,
        rec: Record,
    ) -> str | None:
        """Compare the kernel's reservation of a container with its record.

        :returns: None if they agree, else the difference as a sentence
        """

    def find_unserved(self, container: ContainerT, rec: Record) -> str | None:
        """Find a container that lacks its use of the pool.

        Its reservation is not affected.

        :returns: None if there is nothing, else a sentence
        """
        return None

    def protect(self, container: ContainerT) -> None:
        """Deny a container without reservation the means to take one."""

    def find_exposed(self, container: ContainerT) -> str | None:
        """Find files of a reservation that others than root can write to.

        :returns: None if there is nothing, else a sentence
        """
        return None

    def set_policy(self, container: ContainerT, rec: Record) -> None:
        """Let a container's tasks use the reservation, by their policy.

        For kernels on which a task needs a real-time policy to use the
        reservation of its container.
        """

    def check_policy(self, container: ContainerT, rec: Record) -> str | None:
        """Find a container that lacks :meth:`set_policy`.

        :returns: None if its tasks were served, else a sentence
        """
        return None

    @abc.abstractmethod
    def limit_tasks(self, container: ContainerT, most: int) -> None:
        """Limit the number of tasks of a container.

        :param most: tasks, the libvirt_lxc process included
        """

    # Usage

    @abc.abstractmethod
    def read_usage(self, container: ContainerT) -> Mapping[int, Usage] | None:
        """Read the use of a container's reservation.

        :returns: CPU -> usage, with the CPUs that it had before; empty for a
            container without a reservation; None where the kernel does not
            count it
        """

    def find_usage(self, container: ContainerT) -> UsageSource | None:
        """Find the source of :meth:`read_usage`.

        :returns: None where the kernel does not count
        """
        return None

    def read_held(self, container: ContainerT) -> Share | None:
        """Read the share that a container's tasks use.

        :returns: None if it has none of its own
        """
        return None

    def read_usages(
        self, found: Capability
    ) -> list[tuple[str, Share, Mapping[int, Usage]]] | None:
        """Read the use of every reservation.

        :returns: a name for people to read, the share, and CPU -> usage; None
            where the kernel does not count it
        """
        return None

    # Containers that have ended

    def reclaim(
        self, found: Capability, running: Collection[int]
    ) -> list[OrphanedGroup]:
        """Release the reservations of containers that have ended.

        :param running: the libvirt_lxc processes of containers that run
        :returns: all such reservations, released or not
        """
        return []

    def sweep_task_limits(self, found: Capability) -> None:
        """Remove the groups that :meth:`limit_tasks` made for them."""

# SPDX-License-Identifier: Apache-2.0
"""The operations of a kernel's back end, whatever it reserves CPU time with.

A back end does them for one kind of kernel and is the only module that knows
this kind. :mod:`nova_rt.host.probe` finds the one that fits a host. Those that
reserve for control groups have most of it in common, in
:mod:`nova_rt.host.group_backend`.
"""

import abc
from collections.abc import Collection, Mapping
import pathlib
from typing import Generic, Self, TypeVar

from nova_rt.host.capability import Capability
from nova_rt.host.files import Files
from nova_rt.host.interface import Share, Usage
from nova_rt.host.left import Left
from nova_rt.reservation.record import Record

#: A container as a back end finds it; nobody else looks into it.
ContainerT = TypeVar('ContainerT')


class Backend(abc.ABC, Generic[ContainerT]):
    """Reservations on one kind of kernel.

    Errors of the kernel are OSError with its errno, :class:`.Refusal` where
    the kernel itself says no, except where another error is named. A back end
    keeps no state: what it says was read when asked.

    A method that is not abstract suits a kernel that has nothing of the sort.

    :ivar reserved_ppm: bandwidth that is kept back from servers. Where a group
        holds what they may have, it leaves that to the host
    """

    reserved_ppm: int = 0

    @classmethod
    @abc.abstractmethod
    def detect(cls, files: Files) -> Self | None:
        """Look whether the kernel of a host is of this kind.

        :returns: None if it is not
        :raises NoRTInterface: if it has the files, and they cannot be read or
            say what nobody knows
        """

    # The host

    @abc.abstractmethod
    def look(self, partition: str | None) -> Capability:
        """Read what the kernel can promise to containers.

        :param partition: the group that libvirt puts them in, as the operator
            writes it; None for libvirt's default
        :returns: the capability, prepared or not
        :raises HostNotPrepared: if the host's settings leave nothing, or
            there cannot be such a partition
        """

    def prepare(self, found: Capability) -> Capability:
        """See that containers can be given all of it.

        A host forgets this when it boots.

        :returns: the capability as it is then
        :raises HostNotPrepared: with the numbers, if the kernel refuses
        """
        return found

    @abc.abstractmethod
    def self_test(self, found: Capability) -> str | None:
        """Make the kernel hold the smallest reservation for a moment.

        Where there is no room for it, what is held is evidence enough.

        :returns: None if it held it, else what differs
        """

    @abc.abstractmethod
    def refresh(self, found: Capability) -> Capability:
        """Read again what can be promised, and what is left of it.

        :returns: the capability as it is now
        """

    @abc.abstractmethod
    def describe(self, found: Capability, cpus: tuple[int, ...]) -> str:
        """Say what is held now, for a refusal.

        :param cpus: the CPUs that a reservation was wanted on
        :returns: numbers, for a message
        """

    # Containers

    @abc.abstractmethod
    def find_container(self, found: Capability, pid: int) -> ContainerT:
        """Find a container.

        :param pid: its libvirt_lxc process
        :returns: whatever the methods below need to know of it
        :raises OSError: ENOENT if there is no such process, or if it cannot
            be given a reservation where it is
        """

    def find_outside(self, found: Capability, pid: int) -> pathlib.Path | None:
        """Look whether a container is where it cannot be given a reservation.

        :returns: the group that it is in; None if it can be given one
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

        Nothing is written if it holds it already. Nobody but the host's root
        can change it then.

        :raises ReservationNotApplied: if the container or the partition is
            not as it should be
        """

    @abc.abstractmethod
    def find_difference(
        self,
        container: ContainerT,
        rec: Record,
    ) -> str | None:
        """Compare what the kernel holds for a container with what it should.

        :returns: None if it is the same, else what differs, as a sentence
        """

    def protect(self, container: ContainerT) -> None:
        """See that a container without reservation cannot give itself one."""

    def find_exposed(self, container: ContainerT) -> str | None:
        """Find what others than the host's root could change by themselves.

        :returns: None if there is nothing, else a sentence
        """
        return None

    def serve_tasks(self, container: ContainerT, rec: Record) -> None:
        """Let a container's tasks have the reservation, as was asked for.

        For kernels on which a task has it by its policy, and not just by the
        container that it is in.
        """

    def find_unserved(self, container: ContainerT, rec: Record) -> str | None:
        """Find out whether :meth:`serve_tasks` was never done.

        :returns: None if it was, else a sentence
        """
        return None

    @abc.abstractmethod
    def limit_tasks(self, container: ContainerT, most: int) -> None:
        """Limit how many tasks a container has.

        :param most: its libvirt_lxc process included
        """

    # Usage

    @abc.abstractmethod
    def read_usage(self, container: ContainerT) -> Mapping[int, Usage] | None:
        """Read what a container did with its reservation.

        :returns: CPU -> usage, not only of those that it has now; nothing for
            a container without a reservation; None where the kernel does not
            count it
        """

    def read_usages(
        self, found: Capability
    ) -> list[tuple[str, Share, Mapping[int, Usage]]] | None:
        """Read what is used of each reservation.

        :returns: a name for people to read, what is held by it, and CPU ->
            usage; None where the kernel does not count it
        """
        return None

    # Containers that have ended

    def reclaim(
        self, found: Capability, running: Collection[int]
    ) -> list[Left]:
        """Take back what is held for containers that have ended.

        :param running: the libvirt_lxc processes of containers that run
        :returns: all that was held so, taken back or not
        """
        return []

    def sweep_task_limits(self, found: Capability) -> None:
        """Remove what :meth:`limit_tasks` made for such containers."""

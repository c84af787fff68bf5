# SPDX-License-Identifier: Apache-2.0
"""The operations of a kernel's back end, whatever the kernel's files are.

A back end does them for one kind of kernel and is the only module that knows
this kind. :mod:`nova_rt.host.probe` finds the one that fits a host.
"""

from collections.abc import Mapping
import pathlib
from typing import Protocol, Self

from nova_rt.host.capability import Capability
from nova_rt.host.cgroup import Container, Hierarchy
from nova_rt.host.files import Files
from nova_rt.host.interface import Interface, Share, Usage
from nova_rt.reservation import Reservation


class Backend(Protocol):
    """Reservations on one kind of kernel.

    Errors of the kernel are OSError with its errno, except where another one
    is named. A back end keeps no state: what it says was read when asked.
    """

    @property
    def interface(self) -> Interface:
        """The properties of this kind of kernel."""
        ...

    @property
    def hierarchy(self) -> Hierarchy:
        """The groups that its files are in."""
        ...

    @classmethod
    def detect(cls, files: Files) -> Self | None:
        """Look whether the kernel of a host is of this kind.

        :returns: None if it is not
        :raises NoRTInterface: if it has the files, and they cannot be read or
            say what nobody knows
        """
        ...

    # The host

    def look(self, partition: pathlib.Path) -> Capability:
        """Read what the kernel can promise to a partition.

        :returns: the capability, prepared or not
        :raises HostNotPrepared: if the host's settings leave nothing
        """
        ...

    def prepare(self, found: Capability) -> Capability:
        """See that containers in the partition can be given all of it.

        A host forgets this when it boots.

        :returns: the capability as it is then
        :raises HostNotPrepared: with the numbers, if the kernel refuses
        """
        ...

    def has_room(self, found: Capability) -> bool:
        """Tell whether the partition has room for the smallest reservation.

        :returns: False if what is in it leaves none
        """
        ...

    def try_out(self, group: pathlib.Path) -> str | None:
        """Make the kernel hold the smallest reservation for a moment.

        :param group: an empty one in the partition, for this alone
        :returns: None if it held it, else what differs
        """
        ...

    def refresh(self, found: Capability) -> Capability:
        """Read again what can be promised, and what is left of it.

        :returns: the capability as it is now
        """
        ...

    def describe(self, found: Capability, cpus: tuple[int, ...]) -> str:
        """Say what is held now, for a refusal.

        :param cpus: the CPUs that a reservation was wanted on
        :returns: numbers, for a message
        """
        ...

    # Containers

    def hold(
        self,
        found: Capability,
        container: Container,
        reservation: Reservation,
        cpus: tuple[int, ...],
    ) -> None:
        """Make the kernel hold a container's reservation, on its CPUs.

        Nothing is written if it holds it already.

        :raises ReservationNotApplied: if the container or the partition is
            not as it should be
        """
        ...

    def find_difference(
        self,
        container: Container,
        reservation: Reservation,
        cpus: tuple[int, ...],
    ) -> str | None:
        """Compare what the kernel holds for a container with what it should.

        :returns: None if it is the same, else what differs, as a sentence
        """
        ...

    def read_share(self, container: Container) -> Share:
        """Read what the group of a container's tasks holds.

        :returns: the share, of this group alone
        """
        ...

    def read_tasks(self, container: Container) -> set[int]:
        """Read which tasks live on a container's reservation.

        :returns: their numbers, the libvirt_lxc process included
        """
        ...

    def set_policy(
        self, container: Container, policy: int, priority: int
    ) -> None:
        """Give these tasks, except libvirt_lxc, a real-time policy.

        :param policy: the kernel's number
        """
        ...

    # Usage

    def read_usage(self, container: Container) -> Mapping[int, Usage] | None:
        """Read what a container did with its reservation.

        :returns: CPU -> usage, nothing for a container without a reservation;
            None where the kernel does not count it
        """
        ...

    def read_usages(
        self, partition: pathlib.Path
    ) -> list[tuple[str, Share, Mapping[int, Usage]]] | None:
        """Read what is used of each reservation in the partition.

        :returns: the name of a group in the partition, what it holds, and CPU
            -> usage; None where the kernel does not count it
        """
        ...

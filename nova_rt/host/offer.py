# SPDX-License-Identifier: Apache-2.0
"""The part of a host's capability that is offered to servers."""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Self

from nova_rt import exception
from nova_rt.host import cpus
from nova_rt.host.capability import Capability
from nova_rt.host.files import Files
from nova_rt.reservation import admission
from nova_rt.reservation.admission import Capacity, Placement
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request


@dataclasses.dataclass(frozen=True)
class Offer:
    """The operator's choice of CPUs and bandwidth for servers.

    :ivar cpus: CPUs that servers may use
    :ivar left_out: CPUs withheld because of another thread of their core, for
        people to read; '' if there are none
    :ivar reserved_ppm: bandwidth to keep back: on each CPU, or once where the
        kernel sums over the host
    :ivar placement: the strategy that chooses a server's CPUs
    :ivar nodes: NUMA node -> its CPUs among these; empty if all are on one
        node
    """

    cpus: tuple[int, ...]
    left_out: str
    reserved_ppm: int
    placement: Placement
    nodes: Mapping[int, tuple[int, ...]]

    @classmethod
    def choose(
        cls,
        files: Files,
        cpu_set: str | None,
        smt: bool,
        others: Mapping[str, str],
        reserved_ppm: int,
        placement: str,
    ) -> Self:
        """Read the CPUs of the host, and apply the operator's choice.

        :param cpu_set: a list of ranges; None for all that are online
        :param smt: whether all hardware threads of a core are offered
        :param others: see :func:`.cpus.choose`
        :returns: the offer
        :raises HostNotPrepared: if the choice names CPUs that are not online
            or are given to other servers, or if none is left
        """
        choice = cpus.choose(files, cpu_set, smt, others)
        nodes = cpus.read_nodes(files, choice.offered)
        return cls(
            choice.offered, choice.describe_beside(), reserved_ppm,
            Placement(placement), nodes,
        )  # fmt: skip

    def capacity(self, ceiling: Capacity) -> Capacity:
        """Compute the servers' part of a ceiling.

        :param ceiling: the total bandwidth for groups
        :returns: ppm of each offered CPU, and of the host
        """
        offered = {
            cpu: max(0, ceiling.cpus.get(cpu, 0) - self.reserved_ppm)
            for cpu in self.cpus
        }
        host = ceiling.host_ppm
        if host is not None:
            host = max(0, host - self.reserved_ppm)
        return dataclasses.replace(
            ceiling,
            cpus=offered,
            host_ppm=host,
            nodes=self.nodes,
            placement=self.placement,
        )

    def free(self, found: Capability, claims: Iterable[Record]) -> Capacity:
        """Compute the capacity that is free of claims.

        It is limited by the kernel's own report of free bandwidth, if any.

        :returns: ppm of each CPU, and of the host
        """
        free = self.capacity(found.ceiling).free(claims)
        if found.left is None:
            return free
        least = self.capacity(Capacity(found.left)).cpus
        return dataclasses.replace(
            free,
            cpus={cpu: min(ppm, least[cpu]) for cpu, ppm in free.cpus.items()},
        )

    def may_fit(
        self,
        found: Capability,
        claims: Iterable[Record],
        request: Request,
        held: Record | None = None,
    ) -> bool:
        """Tell whether a wait for bandwidth without a group can help.

        :returns: whether a server would fit with it
        """
        try:
            then = self.free(found.with_unowned(), claims)
            admission.place(then, request, held)
        except exception.InsufficientBandwidth:
            return False
        return True

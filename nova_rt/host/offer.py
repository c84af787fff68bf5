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
    """The operator's choice.

    :ivar cpus: that servers may use
    :ivar left_out: which they may not use because of another thread of the
        core, for people to read; '' if there are none
    :ivar reserved_ppm: bandwidth to keep back: on each CPU, or once where the
        kernel sums over the host
    :ivar placement: how CPUs are chosen
    :ivar nodes: NUMA node -> those of the CPUs that it has; empty if all are
        on one node
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
        """Read the CPUs of the host, and take the operator's choice of them.

        :param cpu_set: a list of ranges; None for all that are online
        :param smt: whether all hardware threads of a core are offered
        :param others: see :func:`.cpus.choose`
        :returns: what is offered
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
        """Tell what servers can have of a ceiling.

        :param ceiling: what groups can hold in all
        :returns: ppm of each CPU that is offered, and of the host
        """
        offered = {
            cpu: max(0, ceiling.cpus.get(cpu, 0) - self.reserved_ppm)
            for cpu in self.cpus
        }
        host = ceiling.host_ppm
        if host is not None:
            host = max(0, host - self.reserved_ppm)
        return Capacity(offered, host, self.nodes, self.placement)

    def free(self, found: Capability, claims: Iterable[Record]) -> Capacity:
        """Tell what is left beside claims.

        Where the kernel reports what it has left, not more than that.

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
    ) -> bool:
        """Tell whether it is worth waiting for bandwidth that has no group.

        :returns: whether there is some, and a server would fit with it
        """
        if not found.unowned:
            return False
        try:
            then = self.free(found.with_unowned(), claims)
            admission.place(then, request)
        except exception.InsufficientBandwidth:
            return False
        return True

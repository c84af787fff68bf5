# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of admission, and the choice of CPUs.

All bandwidths are integers in ppm of a CPU: requests are rounded up, capacity
is rounded down. Sources: one CPU's sum is the EDF bound of constant bandwidth
servers, sum(Q/P) <= 1 less the reserve of the kernel (Linux
kernel/sched/deadline.c, __dl_overflow()); the sum over a whole host is the
rule of RT group throttling, which ignores cpusets (kernel/sched/rt.c,
tg_rt_schedulable()).
"""

import collections
from collections.abc import Callable, Iterable, Mapping
import dataclasses
import enum
import functools

from nova_rt import exception
from nova_rt.reservation import extra_specs, spare
from nova_rt.reservation.extra_specs import Numa
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import PPM, Reservation

#: A refusal names no more nodes: a fault holds 255 characters.
_NODES_SHOWN = 4


class Scope(enum.StrEnum):
    """The range over which a kernel sums reservations."""

    #: Each CPU has a sum of its own.
    CPU = 'cpu'
    #: One sum for the whole host, regardless of CPUs.
    HOST = 'host'


class Placement(enum.StrEnum):
    """The strategy that chooses a server's CPUs among the sufficient ones."""

    #: The emptiest: each server keeps the most slack on its CPUs.
    WORST_FIT = 'worst_fit'
    #: Those with the lowest numbers.
    FIRST_FIT = 'first_fit'
    #: The fullest: empty CPUs stay whole for large reservations.
    BEST_FIT = 'best_fit'


@dataclasses.dataclass(frozen=True)
class Capacity:
    """The bandwidth that a host can promise, and its choice of CPUs.

    :ivar cpus: CPU number -> ppm that can be promised on it
    :ivar host_ppm: total ppm that can be promised; None where the kernel sums
        per CPU, so that the total is the sum over the CPUs
    :ivar nodes: NUMA node -> its CPUs among these, distinct; empty where all
        are on one node
    :ivar placement: the host's heuristic
    :ivar overhead_us: time that each reservation takes of each of its CPUs
        beside its runtime, in every period; 0 where the runtime pays for it
    :ivar spare: the pool of spare bandwidth on each CPU, not part of the
        numbers above; None if there is none
    """

    cpus: Mapping[int, int]
    host_ppm: int | None = None
    nodes: Mapping[int, tuple[int, ...]] = dataclasses.field(
        default_factory=dict
    )
    placement: Placement = Placement.WORST_FIT
    overhead_us: int = 0
    spare: Reservation | None = None

    @functools.cached_property
    def total_ppm(self) -> int:
        """The inventory: bandwidth of the host, in ppm."""
        total = sum(self.cpus.values())
        return total if self.host_ppm is None else min(total, self.host_ppm)

    @functools.cached_property
    def emptiest_first(self) -> tuple[int, ...]:
        """The CPUs, those with the most bandwidth first, then by number."""
        return self._sort(self.cpus)

    @functools.cached_property
    def nodes_emptiest_first(self) -> Mapping[int, tuple[int, ...]]:
        """Node -> its CPUs, in the order of :attr:`emptiest_first`."""
        return {node: self._sort(cpus) for node, cpus in self.nodes.items()}

    def _sort(self, cpus: Iterable[int]) -> tuple[int, ...]:
        # A stable sort by C code: the scheduler does it for every host.
        return tuple(
            sorted(sorted(cpus), key=self.cpus.__getitem__, reverse=True)
        )

    def count(self, reservation: Reservation) -> int:
        """Count what a reservation takes of a CPU here.

        :returns: ppm, rounded up
        """
        taken_us = reservation.runtime_us + self.overhead_us
        return -(-taken_us * PPM // reservation.period_us)

    def describe_overhead(self) -> str:
        """Describe the part of the numbers that nobody asked for.

        :returns: the end of a sentence; '' if there is no overhead
        """
        if not self.overhead_us:
            return ''
        return f'; {self.overhead_us} us of each period are overhead'

    def without_bandwidth(self) -> 'Capacity':
        """Return a copy with no bandwidth."""
        return dataclasses.replace(
            self,
            cpus=dict.fromkeys(self.cpus, 0),
            host_ppm=None if self.host_ppm is None else 0,
        )

    def free(self, claims: Iterable[Record]) -> 'Capacity':
        """Subtract claims from this capacity; the result is never below 0.

        A claim on a CPU that is not offered (any more) counts towards the
        host's sum only: it holds bandwidth, though none that we can offer.
        """
        cpus = dict(self.cpus)
        used = 0
        for claim in claims:
            ppm = self.count(claim.request.reservation)
            used += ppm * len(claim.cpus)
            for cpu in claim.cpus:
                if cpu in cpus:
                    cpus[cpu] = max(0, cpus[cpu] - ppm)
        host = self.host_ppm
        return dataclasses.replace(
            self,
            cpus=cpus,
            host_ppm=None if host is None else max(0, host - used),
        )

    def without(self, claim: Record) -> 'Capacity':
        """Add what a claim would return, on the CPUs that are offered."""
        host = self.host_ppm
        returned = self.count(claim.request.reservation)
        return dataclasses.replace(
            self,
            cpus={
                cpu: ppm + (returned if cpu in claim.cpus else 0)
                for cpu, ppm in self.cpus.items()
            },
            host_ppm=(
                None if host is None else host + returned * len(claim.cpus)
            ),
        )

    def sum_by_cpu(self, claims: Iterable[Record]) -> collections.Counter[int]:
        """Add up what claims take of each CPU here.

        :returns: CPU -> ppm; 0 for a CPU without claims
        """
        total: collections.Counter[int] = collections.Counter()
        for claim in claims:
            for cpu in claim.cpus:
                total[cpu] += self.count(claim.request.reservation)
        return total


def sum_by_cpu(claims: Iterable[Record]) -> collections.Counter[int]:
    """Add up the bandwidth of claims on each CPU.

    :returns: CPU -> ppm; 0 for a CPU without claims
    """
    return Capacity({}).sum_by_cpu(claims)


# The heuristics. Each computes the cost of a CPU from the ppm that are free
# there. Among the CPUs with enough bandwidth, those with the lowest costs are
# chosen, the lowest number first among equals. Several such choices are
# compared by their costliest CPU, then by the second costliest, and so on:
# the cheaper choice is better; among equals, that with the lowest numbers.


HEURISTICS: Mapping[Placement, Callable[[int], int]] = {
    Placement.WORST_FIT: lambda free_ppm: -free_ppm,
    # The number of the CPU decides.
    Placement.FIRST_FIT: lambda free_ppm: 0,
    Placement.BEST_FIT: lambda free_ppm: free_ppm,
}


def place(
    free: Capacity, request: Request, held: Record | None = None
) -> tuple[int, ...]:
    """Choose distinct CPUs for a request, by the host's heuristic.

    The heuristic does not decide whether the request fits.

    :param free: the free capacity
    :param held: a claim that the request replaces: its CPUs are kept if they
        have room
    :returns: CPU numbers in ascending order
    :raises InsufficientBandwidth: if it does not fit
    """
    vcpus, ppm = request.vcpus, free.count(request.reservation)
    _check_pool(free, request, held)
    chosen = None
    if held is not None:
        free = free.without(held)
        if all(free.cpus.get(cpu, 0) >= ppm for cpu in held.cpus):
            chosen = held.cpus
    if (
        chosen is None
        and vcpus > 1
        and free.nodes
        and request.numa is not Numa.ANY
    ):
        chosen = _choose_on_a_node(free, vcpus, ppm)
        if chosen is None and request.numa is Numa.SAME:
            raise _no_node(free, vcpus, ppm)
    if chosen is None:
        chosen = _choose(free, free.emptiest_first, vcpus, ppm)
    if chosen is None:
        order = free.emptiest_first
        raise exception.InsufficientBandwidth(
            ppm,
            vcpus,
            tuple(free.cpus[cpu] for cpu in order[:vcpus]),
            f'each vCPU needs a CPU of its own ({len(order)} offered) with '
            f'that much free{free.describe_overhead()}',
        )
    if free.host_ppm is not None and free.host_ppm < vcpus * ppm:
        raise exception.InsufficientBandwidth(
            ppm,
            vcpus,
            (free.host_ppm,),
            'this kernel sums over the whole host, and all vCPUs together '
            f'need {vcpus * ppm} ppm{free.describe_overhead()}',
        )
    return tuple(sorted(chosen))


def _check_pool(free: Capacity, request: Request, held: Record | None) -> None:
    """Require the pool of spare bandwidth that a new request needs.

    :raises InsufficientBandwidth: if the host has none, or a smaller one
    """
    wish = request.spare
    if wish is None or (held is not None and held.request.spare == wish):
        return
    if not spare.covers(free.spare, wish):
        raise exception.InsufficientBandwidth(
            wish.ppm,
            request.vcpus,
            () if free.spare is None else (free.spare.ppm,),
            spare.describe_missing(free.spare, wish),
        )


def _choose(
    free: Capacity, order: tuple[int, ...], vcpus: int, ppm: int
) -> tuple[int, ...] | None:
    """Choose the cheapest CPUs among several.

    :param order: these CPUs, the emptiest first
    :returns: those with the lowest costs; None if too few have enough
    """
    emptiest = order[:vcpus]
    if len(emptiest) < vcpus or free.cpus[emptiest[-1]] < ppm:
        return None
    if free.placement is Placement.WORST_FIT:
        # The order by cost is the given order.
        return emptiest
    cost = HEURISTICS[free.placement]
    fitting = [cpu for cpu in order if free.cpus[cpu] >= ppm]
    fitting.sort(key=lambda cpu: (cost(free.cpus[cpu]), cpu))
    return tuple(fitting[:vcpus])


def _choose_on_a_node(
    free: Capacity, vcpus: int, ppm: int
) -> tuple[int, ...] | None:
    """Choose CPUs on one node.

    :returns: the best choice of all nodes; None if no node has enough
    """
    cost = HEURISTICS[free.placement]

    def rank(cpus: tuple[int, ...]) -> tuple[list[int], list[int]]:
        costs = (cost(free.cpus[cpu]) for cpu in cpus)
        return sorted(costs, reverse=True), sorted(cpus)

    choices = (
        _choose(free, order, vcpus, ppm)
        for order in free.nodes_emptiest_first.values()
    )
    return min(filter(None, choices), key=rank, default=None)


def _no_node(
    free: Capacity, vcpus: int, ppm: int
) -> exception.InsufficientBandwidth:
    """Describe the free bandwidth of each node, the best first."""
    nodes = []
    for node, order in free.nodes_emptiest_first.items():
        emptiest = tuple(free.cpus[cpu] for cpu in order[:vcpus])
        least = emptiest[-1] if len(emptiest) == vcpus else 0
        nodes.append((len(emptiest), least, -node, emptiest))
    nodes.sort(reverse=True)
    shown = [f'node {-node} {least}' for _, least, node, _ in nodes]
    shown[_NODES_SHOWN:] = ['...'] if len(shown) > _NODES_SHOWN else []
    return exception.InsufficientBandwidth(
        ppm,
        vcpus,
        nodes[0][-1],
        f'{extra_specs.NUMA}={Numa.SAME}; free on as many of one node: '
        + ', '.join(shown)
        + free.describe_overhead(),
    )


def place_many(free: Capacity, request: Request, count: int) -> Capacity:
    """Place a request ``count`` times, one after the other.

    The number that fits depends on the heuristic if each takes several CPUs:
    ``free`` must have that of the host that will place them.

    :returns: the capacity that is free afterwards
    :raises InsufficientBandwidth: at the first that does not fit
    """
    for _ in range(count):
        free = free.free([Record(request, place(free, request))])
    return free

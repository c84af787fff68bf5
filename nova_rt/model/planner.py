# SPDX-License-Identifier: Apache-2.0
"""Placement of servers on hosts and CPUs, and the number of hosts it takes.

Hosts choose CPUs by :mod:`nova_rt.reservation.admission`, one server after
the other, so a plan is an order of servers and a host for each: servers that
are created in that order get the CPUs of the plan. Packing is NP-hard, so each
plan is compared with a bound that no plan can beat.
"""

from collections.abc import Iterator, Sequence
import dataclasses
import functools
import random

from nova_rt import exception
from nova_rt.reservation import admission
from nova_rt.reservation.admission import Capacity, Placement
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

# Servers that the search for a better order places, in all.
_EFFORT = 15_000
# Orders that it tries at most, for each heuristic.
_ROUNDS = 1_500


@dataclasses.dataclass(frozen=True)
class PlannedServer:
    """A server to be placed.

    :ivar name: for the report
    :ivar vcpus: number of CPUs, distinct ones of one host
    :ivar reservation: on each of them
    """

    name: str
    vcpus: int
    reservation: Reservation

    @functools.cached_property
    def request(self) -> Request:
        """The same, as admission asks for it."""
        return Request(self.reservation, self.vcpus)

    @property
    def total_ppm(self) -> int:
        """Bandwidth on all its CPUs."""
        return self.request.total_ppm


@dataclasses.dataclass(frozen=True)
class CandidateHost:
    """A host for servers.

    :ivar name: for the report
    :ivar capacity: free bandwidth; its heuristic is that of the plan
    """

    name: str
    capacity: Capacity


@dataclasses.dataclass(frozen=True)
class Placed:
    """A server and its place.

    :ivar host: index of the host
    :ivar cpus: its CPUs, in ascending order
    """

    server: PlannedServer
    host: int
    cpus: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Places for servers.

    :ivar placement: the heuristic, of the hosts and between them
    :ivar placed: places, in the order in which to create the servers
    :ivar refused: those without a place
    """

    placement: Placement
    placed: tuple[Placed, ...]
    refused: tuple[PlannedServer, ...]

    @property
    def admitted_ppm(self) -> int:
        """Bandwidth of the servers that have a place."""
        return sum(each.server.total_ppm for each in self.placed)

    @property
    def hosts_used(self) -> int:
        """Number of hosts that have a server."""
        return len({each.host for each in self.placed})

    @property
    def merit(self) -> tuple[int, int]:
        """Rank of the plan: bandwidth first, then hosts left empty."""
        return self.admitted_ppm, -self.hosts_used


def place(
    servers: Sequence[PlannedServer],
    hosts: Sequence[CandidateHost],
    placement: Placement,
) -> Plan:
    """Place servers one after the other, as a cloud does.

    The heuristic chooses hosts as it chooses CPUs: the host with the most
    free bandwidth, the first one, or the fullest one that will do.

    :param servers: servers in the order in which they are created
    :returns: their places; a server that finds none is refused, and later
        ones are still tried
    """
    free = [
        dataclasses.replace(host.capacity, placement=placement)
        for host in hosts
    ]
    placed: list[Placed] = []
    refused: list[PlannedServer] = []
    for server in servers:
        found = _find(server, free, placement)
        if found is None:
            refused.append(server)
            continue
        placed.append(found)
        claimed = Record(server.request, found.cpus)
        free[found.host] = free[found.host].free([claimed])
    return Plan(placement, tuple(placed), tuple(refused))


def _find(
    server: PlannedServer, free: list[Capacity], placement: Placement
) -> Placed | None:
    order: Sequence[int] = range(len(free))
    if placement is not Placement.FIRST_FIT:
        cost = admission.HEURISTICS[placement]
        order = sorted(order, key=lambda host: cost(free[host].total_ppm))
    for host in order:
        if not _may_fit(server, free[host]):
            continue
        try:
            cpus = admission.place(free[host], server.request)
        except exception.InsufficientBandwidth:
            continue
        return Placed(server, host, cpus)
    return None


def _may_fit(server: PlannedServer, free: Capacity) -> bool:
    """Whether to try: a refusal has a text for people, and takes long."""
    order = free.emptiest_first
    return (
        len(order) >= server.vcpus
        and free.cpus[order[server.vcpus - 1]] >= server.reservation.ppm
    )


def largest_first(servers: Sequence[PlannedServer]) -> list[PlannedServer]:
    """The order in which packing usually succeeds.

    :returns: servers by bandwidth on each CPU, then by number of CPUs
    """
    return sorted(
        servers,
        key=lambda server: (server.reservation.ppm, server.vcpus),
        reverse=True,
    )


def plan(
    servers: Sequence[PlannedServer],
    hosts: Sequence[CandidateHost],
    placements: Sequence[Placement] = tuple(Placement),
    keep_order: bool = False,
    seed: int = 1,
) -> list[Plan]:
    """Look for the best plan with each heuristic.

    Beside the order of the list and the largest first, it tries orders that
    differ a little from the best one so far, with a bounded effort, the same
    for the same seed.

    :param placements: the heuristics to compare
    :param keep_order: servers are created in this order and no other
    :returns: one plan for each heuristic, the best first
    """
    found = []
    for placement in placements:
        best = place(servers, hosts, placement)
        if not keep_order:
            for order in (largest_first(servers), _by_total(servers)):
                best = _better(place(order, hosts, placement), best)
        found.append(best)
    if not keep_order:
        effort = min(
            _ROUNDS, _EFFORT // max(1, len(servers)) // max(1, len(found))
        )
        generator = random.Random(seed)  # noqa: S311 - no secret
        most, fewest = bound_ppm(servers, hosts), least_hosts(servers, hosts)
        found = [
            _search(each, hosts, effort, generator, (most, -fewest))
            for each in found
        ]
    return sorted(found, key=lambda each: each.merit, reverse=True)


def _by_total(servers: Sequence[PlannedServer]) -> list[PlannedServer]:
    return sorted(servers, key=lambda server: server.total_ppm, reverse=True)


def _better(one: Plan, other: Plan) -> Plan:
    """The better one, or the other one if they are equal."""
    return one if one.merit > other.merit else other


def _search(
    start: Plan,
    hosts: Sequence[CandidateHost],
    rounds: int,
    generator: random.Random,
    enough: tuple[int, int],
) -> Plan:
    """Move servers to the front, those without a place more often."""
    best = start
    order = [each.server for each in start.placed] + list(start.refused)
    merit = start.merit
    for _ in range(rounds if len(order) > 1 else 0):
        if best.merit >= enough:
            break
        tried = list(order)
        low = 0
        if best.refused and generator.random() < 0.5:
            low = len(order) - len(best.refused)
        moved = tried.pop(generator.randrange(low, len(tried)))
        tried.insert(generator.randrange(len(tried)), moved)
        plan = place(tried, hosts, start.placement)
        # Sideways steps lead out of places where no step leads up.
        if plan.merit >= merit:
            order, merit = tried, plan.merit
            best = _better(plan, best)
    return best


def bound_ppm(
    servers: Sequence[PlannedServer], hosts: Sequence[CandidateHost]
) -> int:
    """Bandwidth that no plan exceeds.

    :returns: ppm, on all hosts together
    """
    return min(
        sum(server.total_ppm for server in servers),
        sum(host.capacity.total_ppm for host in hosts),
    )


def least_hosts(
    servers: Sequence[PlannedServer], hosts: Sequence[CandidateHost]
) -> int:
    """Hosts that any plan takes that has a place for all servers.

    :returns: a lower bound, at most the number of hosts
    """
    total = sum(server.total_ppm for server in servers)
    # Of two that need more than half a CPU, each needs its own.
    largest = max(
        (max(host.capacity.cpus.values(), default=0) for host in hosts),
        default=0,
    )
    alone = sum(
        server.vcpus
        for server in servers
        if 2 * server.reservation.ppm > largest
    )
    return max(
        _count(total, [host.capacity.total_ppm for host in hosts]),
        _count(alone, [len(host.capacity.cpus) for host in hosts]),
    )


def _count(needed: int, each: list[int]) -> int:
    """Number of the largest ones that are enough together."""
    for number, size in enumerate(sorted(each, reverse=True)):
        if needed <= 0:
            return number
        needed -= size
    return len(each)


def hosts_needed(
    servers: Sequence[PlannedServer],
    hosts: Sequence[CandidateHost],
    fewest: int | None = None,
    seed: int = 1,
) -> int | None:
    """Number of hosts with which all servers fit, the last kind repeated.

    Two orders say how many are enough. Then it searches for plans with one
    less, as long as it finds them.

    :param hosts: at least one
    :param fewest: a number that is known to be enough
    :returns: the least number that was found; None if some server fits on
        none of them however many there are
    """
    last = hosts[-1]
    if any(
        not any(_may_fit(server, host.capacity) for host in hosts)
        for server in servers
    ):
        return None
    packing = (Placement.FIRST_FIT, Placement.BEST_FIT)
    best: Plan | None = None
    more = max(1, len(servers) // 16)
    while best is None:
        there = [*hosts, *[last] * more]
        found = [
            place(order, there, placement)
            for order in (largest_first(servers), _by_total(servers))
            for placement in packing
        ]
        enough = [each for each in found if not each.refused]
        best = min(enough, key=lambda each: each.hosts_used, default=None)
        if best is None and more >= len(servers):
            # Some servers fit on one of the other kinds only, not on these.
            return fewest
        more *= 2
    number = min(best.hosts_used, fewest or best.hosts_used)
    least = least_hosts(servers, there)
    generator = random.Random(seed)  # noqa: S311 - no secret
    effort = min(_ROUNDS, _EFFORT // max(1, len(servers)))
    # The roomiest ones: with as many of these, a plan needs no other.
    roomy = sorted(there, key=lambda each: -each.capacity.total_ppm)
    while number > least:
        some = roomy[: number - 1]
        most = bound_ppm(servers, some)
        found = [
            _search(
                place(largest_first(servers), some, placement), some, effort,
                generator, (most, -len(some)),
            )
            for placement in packing
        ]  # fmt: skip
        if all(each.refused for each in found):
            break
        number -= 1
    return number


def by_host(plan: Plan) -> Iterator[tuple[int, list[Placed]]]:
    """The servers of each host that has any.

    :returns: pairs of a host's index and its servers, in the order of hosts
    """
    found: dict[int, list[Placed]] = {}
    for each in plan.placed:
        found.setdefault(each.host, []).append(each)
    yield from sorted(found.items())

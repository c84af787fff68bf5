# SPDX-License-Identifier: Apache-2.0
"""Compares the published free bandwidth with the records of servers."""

from collections.abc import Iterator

from nova_rt.cloud.snapshot import (
    Finding,
    Holder,
    HostSnapshot,
    Source,
)
from nova_rt.reservation import cpulist
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import MAX_PERIOD_US

_BY_THE_UPDATE = (
    'nova-rt-compute counts anew at its next update of resources ([DEFAULT] '
    'update_resources_interval), or when it is restarted'
)


def compare(snapshot: HostSnapshot) -> Iterator[Finding]:
    """Find differences in the published bandwidth of a node.

    :returns: findings, about the host or a server
    """
    if snapshot.free is None:
        if snapshot.servers or snapshot.inventory_ppm:
            yield _of_tracker(
                snapshot,
                'the compute node publishes no free bandwidth',
                'start nova-rt-compute there, instead of nova-compute',
            )
        return
    if isinstance(snapshot.free, str):
        yield _of_tracker(
            snapshot,
            'the statistics of the compute node cannot be read: '
            f'{snapshot.free}',
            _BY_THE_UPDATE,
        )
        return
    yield from _compare_cpus(snapshot, snapshot.free)
    # A record that cannot be read counts until nova-rt-compute reads it.
    if any(
        server.busy or isinstance(server.record, str)
        for server in snapshot.servers.values()
    ) or any(isinstance(move.record, str) for move in snapshot.moves.values()):
        return
    if Holder.BUSY in snapshot.holders.values():
        return
    claims = [rec for _, rec in snapshot.list_records()]
    claims += [
        move.record
        for move in snapshot.moves.values()
        if isinstance(move.record, Record)
    ]
    yield from _compare_free(snapshot, snapshot.free, claims)


def _of_tracker(
    snapshot: HostSnapshot, difference: str, remedy: str
) -> Finding:
    return Finding(snapshot.host, '', Source.TRACKER, difference, remedy)


def _compare_cpus(snapshot: HostSnapshot, free: Capacity) -> Iterator[Finding]:
    for uuid, rec in snapshot.list_records():
        missing = set(rec.cpus) - free.cpus.keys()
        if missing:
            yield Finding(
                snapshot.host, uuid, Source.TRACKER,
                f'it reserves on CPUs {cpulist.render(missing)}, which the '
                'host does not offer any more',
                'offer them again ([nova_rt] cpu_set, smt), or create the '
                'server again',
            )  # fmt: skip


def _find_growth(claim: Record) -> int:
    """Find the bandwidth that a server may hold beyond its record, in ppm."""
    request = claim.request
    if not request.follows_load:
        return 0
    largest = claim.with_runtime(request.clamp(MAX_PERIOD_US))
    return largest.total_ppm - claim.total_ppm


def _compare_free(
    snapshot: HostSnapshot, free: Capacity, claims: list[Record]
) -> Iterator[Finding]:
    if snapshot.inventory_ppm is None:
        yield _of_tracker(
            snapshot,
            'the host publishes free bandwidth, and Placement has no '
            'inventory of it',
            _BY_THE_UPDATE,
        )
        return
    over = 0
    if free.host_ppm is None:
        published = sum(free.cpus.values())
        held_on = free.sum_by_cpu(claims)
        held = sum(held_on[cpu] for cpu in free.cpus)
        # A CPU whose capacity has shrunk below its claims publishes 0.
        over = sum(held_on[cpu] for cpu, ppm in free.cpus.items() if not ppm)
    else:
        published = free.host_ppm
        held = sum(claim.total_ppm for claim in claims)
    left = max(0, snapshot.inventory_ppm - held)
    # Between two records, servers may hold more, within their bounds.
    adapting = sum(_find_growth(claim) for claim in claims)
    if published > max(0, snapshot.inventory_ppm - held + over):
        yield _of_tracker(
            snapshot,
            f'{published} ppm are published as free; of '
            f'{snapshot.inventory_ppm} in all, servers leave {left}',
            _BY_THE_UPDATE,
        )
    elif published < left - adapting:
        yield _of_tracker(
            snapshot,
            f'{published} ppm are published as free; of '
            f'{snapshot.inventory_ppm} in all, servers leave {left}: '
            'something else holds the rest',
            f'{_BY_THE_UPDATE}; if that does not help, "nova-rt-status host '
            'usage" on the host lists who holds bandwidth there',
        )

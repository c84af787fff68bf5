# SPDX-License-Identifier: Apache-2.0
"""Finds what differs in a picture of a host, and what would mend it.

A server's record is the truth about it. Placement's allocations and rows of
the database can be mended from outside; what a container has is the business
of nova-rt-compute alone, which verifies it against the record.
"""

from collections.abc import Iterator

from nova_rt import cpulist
from nova_rt.admission import Capacity, Claim
from nova_rt.cmd.manage.audit.picture import (
    Container,
    Finding,
    Holder,
    Picture,
    ReleaseRow,
    RemoveAllocation,
    Repair,
    Server,
    SetAllocation,
    Source,
)
from nova_rt.record import Record
from nova_rt.request import Request

_BY_THE_CHECK = (
    'nova-rt-compute corrects it at its next check ([nova_rt] '
    'verify_interval); nothing else may'
)
_BY_THE_UPDATE = (
    'nova-rt-compute counts anew at its next update of resources ([DEFAULT] '
    'update_resources_interval), or when it is restarted'
)
_BY_THE_REPORT = (
    'nova-rt-compute reports all that it has every minute, with [nova_rt] '
    'report and while a nova-rt-conductor runs'
)
_RECREATE = (
    'the server does not start without a readable record: delete it and '
    'create it again'
)


def compare(picture: Picture) -> list[Finding]:
    """Find what differs on a host.

    Servers to which something is being done are left out.

    :returns: findings, by source and server
    """
    return [
        *_compare_records(picture),
        *_compare_allocations(picture),
        *_compare_holders(picture),
        *_compare_tracker(picture),
        *_compare_containers(picture),
        *_compare_rows(picture),
    ]


def _settled(picture: Picture) -> Iterator[tuple[str, Server]]:
    for uuid, server in sorted(picture.servers.items()):
        if not server.busy:
            yield uuid, server


def _records(picture: Picture) -> Iterator[tuple[str, Record]]:
    """Records of servers to which nothing is being done."""
    for uuid, server in _settled(picture):
        if isinstance(server.record, Record):
            yield uuid, server.record


# Record


def _compare_records(picture: Picture) -> Iterator[Finding]:
    for uuid, server in _settled(picture):
        if isinstance(server.record, str):
            yield Finding(
                picture.host, uuid, Source.RECORD, server.record, _RECREATE
            )
        elif isinstance(server.asked, str):
            yield Finding(
                picture.host, uuid, Source.RECORD,
                f'its flavor and hint cannot be read: {server.asked}',
                'the server goes on by its record; create it again from a '
                'flavor that can be read',
            )  # fmt: skip
        elif server.asked not in (None, server.record.request):
            yield Finding(
                picture.host, uuid, Source.RECORD,
                f'its record {server.record.encode()} is not what its flavor '
                f'and hint ask for: {_describe(server.asked)}',
                'nobody but an administrator can say which is right: correct '
                'the record in instance_system_metadata, or create the '
                'server again',
            )  # fmt: skip


def _describe(request: Request) -> str:
    return (
        f'{request.reservation} us on {request.vcpus} CPU(s), '
        f'{request.enforcement}, {request.policy} {request.priority}'
    )


# Placement


def _agreed(server: Server) -> Request | None:
    """What a server is to have, if all who can say it agree."""
    asked = server.asked if isinstance(server.asked, Request) else None
    if isinstance(server.record, str):
        return asked
    if asked is None or asked == server.record.request:
        return server.record.request
    return None


def _compare_allocations(picture: Picture) -> Iterator[Finding]:
    for uuid, server in _settled(picture):
        held = picture.allocations.get(uuid, 0)
        agreed = _agreed(server)
        if agreed is not None:
            wanted = agreed.total_ppm
            repair = SetAllocation(uuid, picture.provider, held, wanted)
            remedy = f'--repair sets the allocation to {wanted} ppm'
        elif isinstance(server.record, Record):
            wanted = server.record.request.total_ppm
            repair = None
            remedy = (
                'settle first whether the record or the flavor is right: the '
                'allocation follows'
            )
        else:
            continue
        if held != wanted:
            yield Finding(
                picture.host, uuid, Source.PLACEMENT,
                f'Placement holds {held} ppm for it, it reserves {wanted}',
                remedy, repair,
            )  # fmt: skip


def _compare_holders(picture: Picture) -> Iterator[Finding]:
    for uuid, holder in sorted(picture.holders.items()):
        held = picture.allocations.get(uuid, 0)
        if not held or holder is Holder.BUSY:
            continue
        repair: Repair | None = None
        if holder in (Holder.GONE, Holder.UNPLACED):
            repair = RemoveAllocation(uuid, picture.provider, held)
        what, remedy = _HOLDERS[holder]
        yield Finding(
            picture.host, uuid, Source.PLACEMENT,
            f'Placement holds {held} ppm for {what}', remedy, repair,
        )  # fmt: skip


_HOLDERS = {
    Holder.GONE: (
        'a server that is gone',
        '--repair removes all that it holds on this host',
    ),
    Holder.UNPLACED: (
        'a server that is on no host',
        '--repair removes all that it holds on this host',
    ),
    Holder.ELSEWHERE: (
        'a server of another host',
        'the compute service of this host removes it when it starts; if it '
        'never will, delete the service and its resource provider',
    ),
    Holder.PLAIN: (
        'a server whose flavor is not real-time',
        'remove resources:CUSTOM_RT_BANDWIDTH from the flavor, and create '
        'the server again',
    ),
}


# Tracker


def _compare_tracker(picture: Picture) -> Iterator[Finding]:
    if not picture.provider:
        return
    if picture.free is None:
        if picture.servers or picture.inventory_ppm:
            yield _of_tracker(
                picture,
                'the compute node publishes no free bandwidth',
                'start nova-rt-compute there, instead of nova-compute',
            )
        return
    if isinstance(picture.free, str):
        yield _of_tracker(
            picture,
            f'what the compute node publishes cannot be read: {picture.free}',
            _BY_THE_UPDATE,
        )
        return
    yield from _compare_cpus(picture, picture.free)
    # A record that cannot be read counts until nova-rt-compute reads it.
    if any(
        server.busy or isinstance(server.record, str)
        for server in picture.servers.values()
    ):
        return
    if Holder.BUSY in picture.holders.values():
        return
    claims = [rec.claim for _, rec in _records(picture)]
    yield from _compare_free(picture, picture.free, claims)


def _of_tracker(picture: Picture, difference: str, remedy: str) -> Finding:
    return Finding(picture.host, '', Source.TRACKER, difference, remedy)


def _compare_cpus(picture: Picture, free: Capacity) -> Iterator[Finding]:
    for uuid, rec in _records(picture):
        missing = set(rec.cpus) - free.cpus.keys()
        if missing:
            yield Finding(
                picture.host, uuid, Source.TRACKER,
                f'it reserves on CPUs {cpulist.render(missing)}, which the '
                'host does not offer any more',
                'offer them again ([nova_rt] cpu_set, smt), or create the '
                'server again',
            )  # fmt: skip


def _compare_free(
    picture: Picture, free: Capacity, claims: list[Claim]
) -> Iterator[Finding]:
    if picture.capacity is not None:
        expected = picture.capacity.free(claims)
        differing = [
            f'CPU {cpu}: {free.cpus.get(cpu, 0)} instead of {ppm}'
            for cpu, ppm in sorted(expected.cpus.items())
            if free.cpus.get(cpu, 0) != ppm
        ]
        if free.host_ppm != expected.host_ppm:
            differing.append(
                f'host: {free.host_ppm} instead of {expected.host_ppm}'
            )
        if differing:
            yield _of_tracker(
                picture,
                f'free ppm published are not what servers leave: '
                f'{", ".join(differing)}',
                _BY_THE_UPDATE,
            )
        return
    if picture.inventory_ppm is None:
        yield _of_tracker(
            picture,
            'the host publishes free bandwidth, and Placement has no '
            'inventory of it',
            _BY_THE_UPDATE,
        )
        return
    if free.host_ppm is None:
        published = sum(free.cpus.values())
        held = sum(
            claim.ppm
            for claim in claims
            for cpu in claim.cpus
            if cpu in free.cpus
        )
    else:
        published = free.host_ppm
        held = sum(claim.total_ppm for claim in claims)
    left = max(0, picture.inventory_ppm - held)
    if published > left:
        yield _of_tracker(
            picture,
            f'{published} ppm are published as free; of '
            f'{picture.inventory_ppm} in all, servers leave {left}',
            _BY_THE_UPDATE,
        )
    elif published < left:
        yield _of_tracker(
            picture,
            f'{published} ppm are published as free; of '
            f'{picture.inventory_ppm} in all, servers leave {left}: '
            'something else holds the rest',
            f'{_BY_THE_UPDATE}; if that does not help, "nova-rt-status host '
            'usage" on the host lists who holds bandwidth there',
        )


# Domain and kernel


def _compare_containers(picture: Picture) -> Iterator[Finding]:
    for uuid, found in sorted((picture.containers or {}).items()):
        server = picture.servers.get(uuid)
        if server is None:
            if found.carried is not None:
                yield Finding(
                    picture.host, uuid, Source.DOMAIN,
                    'its domain carries a reservation, and it is no '
                    'real-time server of this host',
                    'Nova removes it ([DEFAULT] '
                    'running_deleted_instance_action); if it does not, '
                    'undefine the domain',
                )  # fmt: skip
        elif not server.busy and isinstance(server.record, Record):
            yield from _compare_container(
                picture.host, uuid, found, server.record
            )


def _compare_container(
    host: str, uuid: str, found: Container, rec: Record
) -> Iterator[Finding]:
    if found.carried != rec:
        carried = found.carried
        text = carried.encode() if isinstance(carried, Record) else carried
        yield Finding(
            host, uuid, Source.DOMAIN,
            f'its domain carries {text or "no record"} instead of '
            f'{rec.encode()}',
            _BY_THE_CHECK,
        )  # fmt: skip
    if found.difference is not None:
        yield Finding(
            host, uuid, Source.KERNEL, found.difference, _BY_THE_CHECK
        )


# Database


def _compare_rows(picture: Picture) -> Iterator[Finding]:
    if picture.rows is None:
        return
    for uuid, rec in _records(picture):
        row = picture.rows.get(uuid)
        if row is None:
            difference = 'the database does not have it on this host'
        elif (row.reservation, row.cpus) != (
            rec.request.reservation,
            rec.cpus,
        ):
            difference = (
                f'the database has {row.reservation} us on CPUs '
                f'{cpulist.render(row.cpus)}, its record '
                f'{rec.request.reservation} us on CPUs '
                f'{cpulist.render(rec.cpus)}'
            )
        else:
            continue
        yield Finding(
            picture.host, uuid, Source.DATABASE, difference, _BY_THE_REPORT
        )
    for uuid in sorted(picture.rows.keys() - picture.servers.keys()):
        if picture.holders.get(uuid) is Holder.BUSY:
            continue
        yield Finding(
            picture.host, uuid, Source.DATABASE,
            'the database has a reservation of it, and it is no real-time '
            'server of this host',
            '--repair marks it as released',
            ReleaseRow(uuid, picture.host),
        )  # fmt: skip

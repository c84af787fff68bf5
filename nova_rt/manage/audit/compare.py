# SPDX-License-Identifier: Apache-2.0
"""Finds differences in a snapshot of a host, and their remedies.

A server's record is the truth about it. Placement's allocations can be mended
from outside. nova-rt-compute alone verifies domain and kernel against the
record.
"""

from collections.abc import Iterator, Mapping

from nova_rt.cloud.snapshot import (
    Finding,
    Holder,
    HostSnapshot,
    NovaServer,
    RemoveAllocation,
    Repair,
    SetAllocation,
    Source,
)
from nova_rt.manage.audit import published
from nova_rt.reservation import extra_specs
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request

_RECREATE = (
    'the server does not start without a readable record: delete it and '
    'create it again'
)


def compare(snapshot: HostSnapshot) -> list[Finding]:
    """Find the differences on a host.

    Servers to which something is being done are left out.

    :returns: findings, by source and server
    """
    return [
        *_compare_records(snapshot),
        # What is removed makes room for what is set.
        *_compare_holders(snapshot),
        *_compare_allocations(snapshot),
        *_compare_moves(snapshot),
        *published.compare(snapshot),
    ]


# Record


def _compare_records(snapshot: HostSnapshot) -> Iterator[Finding]:
    for uuid, server in snapshot.list_settled():
        if server.lost:
            yield Finding(
                snapshot.host, uuid, Source.RECORD,
                'its move to this host was not finished',
                'start it by a hard reboot, which ends the move',
            )  # fmt: skip
        elif isinstance(server.record, str):
            yield Finding(
                snapshot.host, uuid, Source.RECORD, server.record, _RECREATE
            )
        elif isinstance(server.asked, str):
            yield Finding(
                snapshot.host, uuid, Source.RECORD,
                f'its flavor and hint cannot be read: {server.asked}',
                'the server goes on by its record; create it again from a '
                'flavor that can be read',
            )  # fmt: skip
        elif server.asked not in (None, server.record.request):
            yield Finding(
                snapshot.host, uuid, Source.RECORD,
                f'its record {server.record.encode()} is not what its flavor '
                f'and hint ask for: {_describe(server.asked)}',
                'nobody but an administrator can say which is right: correct '
                'the record in instance_system_metadata, or create the '
                'server again',
            )  # fmt: skip


def _describe(request: Request) -> str:
    """Put a request into a part of a sentence."""
    specs = request.plain()
    words = [f'{specs["reservation"]} us on {request.vcpus} CPU(s)']
    for name in extra_specs.SPECS:
        if name != 'reservation':
            value = specs[name]
            words.append(f'{name} {"none" if value is None else value}')
    return ', '.join(words)


# Placement


def _agreed(server: NovaServer) -> Request | None:
    """Return the request of a server, if record and flavor agree."""
    asked = server.asked if isinstance(server.asked, Request) else None
    if isinstance(server.record, str):
        return asked
    if server.lost:
        # Its flavor is still that of its old host.
        return server.record.request
    if asked is None or asked == server.record.request:
        return server.record.request
    return None


def _compare_allocations(snapshot: HostSnapshot) -> Iterator[Finding]:
    for uuid, server in snapshot.list_settled():
        held = snapshot.allocations.get(uuid, 0)
        agreed = _agreed(server)
        if agreed is not None:
            wanted = agreed.total_ppm
            repair = SetAllocation(uuid, snapshot.provider, held, wanted)
            remedy = (
                f'--repair sets the allocation to {wanted} ppm, and all else '
                'to what its flavor asks for'
            )
        elif isinstance(server.record, Record):
            wanted = server.record.request.total_ppm
            repair = None
            remedy = (
                'settle first whether the record or the flavor is right: the '
                'allocation follows'
            )
        else:
            continue
        difference = _compare_others(server, snapshot.others.get(uuid, {}))
        if held != wanted:
            difference = (
                f'Placement holds {held} ppm for it, it reserves {wanted}'
            )
        if difference is not None:
            yield Finding(
                snapshot.host, uuid, Source.PLACEMENT, difference, remedy,
                repair,
            )  # fmt: skip


#: What a real-time server holds none of, unless its flavor asks for some.
CPU_CLASSES = ('VCPU', 'PCPU')


def _compare_others(server: NovaServer, held: Mapping[str, int]) -> str | None:
    """Compare a server's other resources in Placement."""
    # The flavor of one whose move is not finished is that of its old host.
    if server.others is None or server.lost:
        return None
    wanted = dict.fromkeys(CPU_CLASSES, 0) | dict(server.others)
    wrong = [name for name in wanted if held.get(name, 0) != wanted[name]]
    if not wrong:
        return None
    return (
        'Placement holds '
        + ', '.join(f'{name} {held.get(name, 0)}' for name in wrong)
        + ' for it, its flavor asks for '
        + ', '.join(f'{name} {wanted[name]}' for name in wrong)
    )


def _compare_moves(snapshot: HostSnapshot) -> Iterator[Finding]:
    for uuid, move in sorted(snapshot.moves.items()):
        if isinstance(move.record, str):
            yield Finding(
                snapshot.host, move.server, Source.RECORD,
                'its record for the case that its resize is reverted: '
                f'{move.record}',
                'confirm the resize: reverted, the server would not start',
            )  # fmt: skip
            continue
        held = snapshot.allocations.get(uuid, 0)
        wanted = move.record.request.total_ppm
        if held != wanted:
            yield Finding(
                snapshot.host, move.server, Source.PLACEMENT,
                f'Placement holds {held} ppm for its migration {uuid}, it '
                f'reserves {wanted} in case its resize is reverted',
                'confirm or revert the resize, and audit again',
            )  # fmt: skip


def _compare_holders(snapshot: HostSnapshot) -> Iterator[Finding]:
    for uuid, holder in sorted(snapshot.holders.items()):
        held = snapshot.allocations.get(uuid, 0)
        if not held or holder is Holder.BUSY:
            continue
        repair: Repair | None = None
        if holder in REMOVABLE:
            repair = RemoveAllocation(uuid, snapshot.provider, held)
        what, remedy = _HOLDERS[holder]
        yield Finding(
            snapshot.host, uuid, Source.PLACEMENT,
            f'Placement holds {held} ppm for {what}', remedy, repair,
        )  # fmt: skip


#: Holders of bandwidth that is for nobody.
REMOVABLE = frozenset(
    {Holder.GONE, Holder.LOST, Holder.UNPLACED, Holder.ELSEWHERE}
)
_REMOVE = '--repair removes all that it holds on this host'
_HOLDERS = {
    Holder.GONE: ('a server that is gone', _REMOVE),
    Holder.UNPLACED: ('a server that is on no host', _REMOVE),
    Holder.LOST: ('a move that was not finished', _REMOVE),
    Holder.ELSEWHERE: ('a server of another host', _REMOVE),
    Holder.EVACUATED: (
        'a server that was evacuated from this host',
        'the compute service of this host removes it when it starts; if it '
        'never will, delete the service and its resource provider',
    ),
    Holder.PLAIN: (
        'a server whose flavor is not real-time',
        'remove resources:CUSTOM_RT_BANDWIDTH from the flavor, and create '
        'the server again',
    ),
}

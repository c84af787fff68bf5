# SPDX-License-Identifier: Apache-2.0
"""The answers of the calls, as plain JSON types."""

import datetime
from typing import Any

from nova_rt import exception
from nova_rt.cloud.records import HostRecord, ServerRecord
from nova_rt.formats.changes import Change, Condition
from nova_rt.formats.history import Boost, HistoryEvent
from nova_rt.reservation import cpulist
from nova_rt.reservation.extra_specs import SPECS
from nova_rt.reservation.reservation import Reservation

_OTHERS = [field for field in SPECS if field != 'reservation']

#: Reasons for users who may not know how full hosts are.
_MODEST = {
    Condition.APPLIED: '',
    Condition.IN_PROGRESS: '',
    Condition.DEFERRED: 'the host has no room now',
    Condition.INFEASIBLE: 'the host does not take the change',
}
#: The same for a change that was to move its server.
_MODEST_MOVE = _MODEST | {
    Condition.IN_PROGRESS: 'the server is being migrated',
    Condition.INFEASIBLE: 'the server was not migrated to a host with room',
}


def render_time(time: datetime.datetime | None) -> str | None:
    """Render a time.

    :returns: as in ``2026-02-03T04:05:06.000007Z``
    """
    if time is None:
        return None
    return time.astimezone(datetime.UTC).isoformat().replace('+00:00', 'Z')


def _read_actual(change: Change | None) -> Reservation | None:
    """Read the reservation that a host has read back, if it is one."""
    if change is None:
        return None
    try:
        return Reservation.parse(change.answer.actual)
    except exception.InvalidReservation:
        # Nothing was changed, or an older conductor stored anything.
        return None


def _render_runtime(reservation: Reservation | None) -> Any:
    if reservation is None:
        return None
    return {
        'runtime_us': reservation.runtime_us,
        'period_us': reservation.period_us,
    }


def render_state(
    server: ServerRecord,
    change: Change | None,
    boost: Boost | None,
    hosts: bool,
    reasons: bool,
) -> dict[str, Any]:
    """Render the reservation of a server.

    :param change: its last one; None if there was none
    :param boost: None if it has none
    :param hosts: whether to show its host and CPUs
    :param reasons: whether to show reasons with the numbers of hosts
    :returns: an object of the schema
    """
    rec = server.record
    present = None if rec is None else rec.request.reservation
    generation = 0 if change is None else change.generation
    if change is not None and server.has_ended(change):
        change = None
    specs = {} if rec is None else rec.request.plain()
    return {
        'server_id': server.uuid,
        'project_id': server.project,
        'state': server.state,
        'host': server.host or None if hosts else None,
        'cpus': cpulist.render(rec.cpus) if rec and hosts else None,
        'vcpus': None if rec is None else rec.request.vcpus,
        'generation': generation,
        'desired': _render_runtime(change.desired if change else present),
        'allocated': _render_runtime(present if server.host else None),
        'actual': _render_runtime(_read_actual(change)),
        'boost': _render_boost(boost),
        'on_no_room': str(change.on_no_room) if change else None,
        'condition': _render_condition(change, hosts or reasons),
        **{field: specs.get(field) for field in _OTHERS},
    }


def _render_boost(boost: Boost | None) -> Any:
    if boost is None:
        return None
    until = {'until': render_time(boost.until)}
    return _render_runtime(boost.reservation) | until


def _render_condition(change: Change | None, full: bool) -> dict[str, Any]:
    if change is None:
        return {
            'type': str(Condition.APPLIED), 'since': None, 'reason': '',
            'asked_ppm': None, 'free_ppm': None, 'rule': None,
        }  # fmt: skip
    answer = change.answer
    refused = bool(answer.asked_ppm)
    modest = _MODEST if change.moved_after is None else _MODEST_MOVE
    return {
        'type': str(answer.condition),
        'since': render_time(change.since),
        'reason': answer.reason if full else modest[answer.condition],
        'asked_ppm': answer.asked_ppm if refused else None,
        'free_ppm': answer.free_ppm if refused and full else None,
        'rule': answer.rule if refused and full else None,
    }


def render_event(event: HistoryEvent, hosts: bool) -> dict[str, Any]:
    """Render an event of a history.

    :param hosts: whether to show host, CPUs and details
    :returns: an object of the schema
    """
    cpus = None if event.cpus is None else cpulist.render(event.cpus)
    return {
        'at': render_time(event.at),
        'event': event.kind,
        'runtime_us': event.runtime_us,
        'period_us': event.period_us,
        'host': event.host if hosts else None,
        'cpus': cpus if hosts else None,
        'details': event.details if hosts else None,
        **vars(event.origin),
    }


def render_host(host: HostRecord) -> dict[str, Any]:
    """Render a host in short.

    :returns: an object of the schema
    """
    return {
        'name': host.name,
        'interface': host.stats.get('rt_interface'),
        'enforcement': host.stats.get('rt_enforcement'),
        'capacity_ppm': host.capacity_ppm,
        'reserved_ppm': host.used_ppm,
        'free_ppm': None if host.free is None else host.free.total_ppm,
        'servers': len({each.server for each in host.holdings}),
        'seen_at': render_time(host.seen_at),
    }


def render_cpus(host: HostRecord) -> list[dict[str, Any]]:
    """Render the CPUs of a host, with the servers on each.

    :returns: objects of the schema
    """
    free = {} if host.free is None else host.free.cpus
    reserved = host.reserved
    found = []
    for cpu in sorted(free.keys() | reserved.keys()):
        there, taken = free.get(cpu), reserved.get(cpu, 0)
        found.append(
            {
                'cpu': cpu,
                'capacity_ppm': None if there is None else there + taken,
                'reserved_ppm': taken,
                'free_ppm': there,
                'servers': sorted(
                    {
                        each.server
                        for each in host.holdings
                        if each.record is not None and cpu in each.record.cpus
                    }
                ),
            }
        )
    return found

# SPDX-License-Identifier: Apache-2.0
"""The form of reports on the message bus: plain JSON types, version 1.

Each message has a ``v``. A reader refuses one above its own, and ignores
fields that it does not know. Everything is checked for its type and size
before it goes any further: whoever can write to the bus is no friend of the
database's. Times are microseconds since 1970.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import re
from typing import Any

from nova_rt import exception
from nova_rt.formats import checks
from nova_rt.formats.reports import (
    HeldReservation,
    HostCPU,
    HostState,
    NewEvent,
    Origin,
    ServerHour,
    ServerState,
)
from nova_rt.formats.times import from_us, to_us
from nova_rt.reservation.record import Record

VERSION = 1
#: A message of events has at most so many.
MAX_EVENTS = 500
#: A message of usage has at most so many.
MAX_ACCOUNTS = 500
#: Details of an event are cut behind so many characters.
MAX_DETAILS = 1000

_MAX_CPUS = 8192
# Characters of the ID of a request, user or project.
_MAX_ID = 64
_MAX_SERVERS = 8192
# Times until the year 2286.
_MAX_TIME_US = 10**16
_MAX_HOUR = _MAX_TIME_US // 3_600_000_000
# A week on _MAX_CPUS CPUs, in microseconds.
_MAX_AMOUNT = 10**16
_UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_WORD = re.compile('[ -~]{0,64}')
_KIND = re.compile('[a-z_]{1,32}')
_HOST = re.compile('[!-~]{1,255}')
_CPU = re.compile('[0-9]{1,6}')


# Writing


def write_state(state: HostState) -> dict[str, Any]:
    """Write a state, without its epoch and number."""
    return {
        'v': VERSION,
        'event_seq': state.event_seq,
        'version': state.version,
        'interface': state.interface,
        'enforcement': state.enforcement,
        'scope': state.scope,
        'cpus': {
            str(cpu): _write_cpu(held) for cpu, held in state.cpus.items()
        },
        'host': state.host_cpu and _write_cpu(state.host_cpu),
        'servers': [
            {
                'uuid': held.uuid,
                'record': held.record.encode(),
                'state': held.state.value,
                'since': to_us(held.since),
            }
            for held in state.servers
        ],
    }


def _write_cpu(cpu: HostCPU) -> list[int]:
    return [cpu.capacity_ppm, cpu.reserved_ppm]


def write_events(
    events: Iterable[NewEvent], dropped_seq: int = 0
) -> dict[str, Any]:
    """Write events of one epoch, at most MAX_EVENTS.

    :param dropped_seq: events up to this one are no longer available
    :returns: the message
    """
    return {
        'v': VERSION,
        'dropped': dropped_seq,
        'events': [
            {
                'seq': event.seq,
                'at': to_us(event.at),
                'uuid': event.uuid,
                'kind': event.kind,
                'details': event.details[:MAX_DETAILS],
                'state': event.state and event.state.value,
                'record': event.record and event.record.encode(),
                'origin': [
                    clean(each)[:_MAX_ID]
                    for each in dataclasses.astuple(event.origin)
                ],
            }
            for event in events
        ],
    }


def write_usage(accounts: Iterable[ServerHour]) -> dict[str, Any]:
    """Write accounts, at most MAX_ACCOUNTS, in the order of their fields."""
    return {
        'v': VERSION,
        'hours': [list(dataclasses.astuple(each)) for each in accounts],
    }


# Reading


def read_host(host: Any) -> str:
    """Check the name of a host.

    :returns: the name
    :raises InvalidReport: if it is none
    """
    return checks.text('host', host, _HOST)


def read_number(name: str, number: Any) -> int:
    """Check an epoch or the number of a report.

    :param name: what it is, for the message
    :returns: the number
    :raises InvalidReport: if it is none from 1
    """
    return checks.integer(name, number, low=1)


def read_state(message: Any, epoch: int, seq: int) -> HostState:
    """Read what :func:`write_state` wrote.

    :returns: the state
    :raises InvalidReport: if it is anything else
    """
    message = _open(message)
    cpus = checks.kind('cpus', message.get('cpus'), dict, _MAX_CPUS)
    host = message.get('host')
    servers = checks.kind(
        'servers', message.get('servers'), list, _MAX_SERVERS
    )
    held = tuple(map(_read_held, servers))
    if len({each.uuid for each in held}) < len(held):
        raise exception.InvalidReport('a server is listed twice')
    return HostState(
        epoch=epoch,
        seq=seq,
        event_seq=checks.integer('event_seq', message.get('event_seq')),
        version=checks.text('version', message.get('version'), _WORD),
        interface=checks.text('interface', message.get('interface'), _WORD),
        enforcement=checks.text(
            'enforcement', message.get('enforcement'), _WORD
        )[:16],
        scope=checks.text('scope', message.get('scope'), _WORD)[:16],
        cpus={
            int(checks.text('CPU', cpu, _CPU)): _read_cpu(pair)
            for cpu, pair in cpus.items()
        },
        host_cpu=None if host is None else _read_cpu(host),
        servers=held,
    )


def _read_cpu(pair: Any) -> HostCPU:
    return HostCPU(*checks.integers('bandwidth', pair, 2))


def _read_held(held: Any) -> HeldReservation:
    held = checks.kind('server', held, dict, 64)
    state = _read_server_state(held.get('state'))
    if state is ServerState.RELEASED:
        raise exception.InvalidReport('a server of a picture is released')
    return HeldReservation(
        checks.text('uuid', held.get('uuid'), _UUID),
        _read_record(held.get('record')),
        state,
        from_us(checks.integer('since', held.get('since'), high=_MAX_TIME_US)),
    )


def _read_server_state(state: Any) -> ServerState:
    try:
        return ServerState(state)
    except ValueError as err:
        raise exception.InvalidReport('state is not one we know') from err


def _read_record(text: Any) -> Record:
    if not isinstance(text, str):
        raise exception.InvalidReport('record is no text')
    try:
        return Record.decode(text)
    except exception.InvalidRecord as err:
        raise exception.InvalidReport(str(err)) from err


def read_events(message: Any) -> tuple[list[NewEvent], int]:
    """Read what :func:`write_events` wrote.

    :returns: the events, and the number up to which some were dropped
    :raises InvalidReport: if it is anything else
    """
    message = _open(message)
    events = checks.kind('events', message.get('events'), list, MAX_EVENTS)
    return (
        [_read_event(checks.kind('event', each, dict, 64)) for each in events],
        checks.integer('dropped', message.get('dropped')),
    )


def _read_event(event: Mapping[str, Any]) -> NewEvent:
    details = event.get('details')
    if not isinstance(details, str):
        raise exception.InvalidReport('details is no text')
    state = event.get('state')
    record = event.get('record')
    return NewEvent(
        checks.integer('seq', event.get('seq'), low=1),
        from_us(checks.integer('at', event.get('at'), high=_MAX_TIME_US)),
        checks.text('uuid', event.get('uuid'), _UUID),
        checks.text('kind', event.get('kind'), _KIND),
        clean(details),
        None if state is None else _read_server_state(state),
        None if record is None else _read_record(record),
        _read_origin(event.get('origin')),
    )


def _read_origin(origin: Any) -> Origin:
    """Read who has asked; nothing of it keeps an event from its history."""
    if not isinstance(origin, list):
        return Origin()
    ids = [clean(each)[:_MAX_ID] for each in origin if isinstance(each, str)]
    return Origin(*ids[:3])


def clean(details: str) -> str:
    """Make a text one line that any database and terminal takes.

    :returns: at most MAX_DETAILS characters
    """
    return ''.join(
        each if each.isprintable() else ' ' for each in details[:MAX_DETAILS]
    )


def read_usage(message: Any) -> list[ServerHour]:
    """Read what :func:`write_usage` wrote.

    :returns: the accounts
    :raises InvalidReport: if it is anything else
    """
    message = _open(message)
    rows = checks.kind('hours', message.get('hours'), list, MAX_ACCOUNTS)
    return [_read_account(row) for row in rows]


def _read_account(row: Any) -> ServerHour:
    # Later versions may add fields.
    row = checks.kind('account', row, list, 64)
    if len(row) < 7:
        raise exception.InvalidReport('account has less than 7 fields')
    meter, uuid, *numbers = row[:7]
    hour, *amounts = checks.integers('account', numbers, 5, may_lack=(2, 3, 4))
    for amount in amounts:
        # Or sums of them would overflow.
        checks.integer('amount', amount or 0, high=_MAX_AMOUNT)
    return ServerHour(
        checks.integer('meter', meter, high=_MAX_TIME_US),
        checks.text('uuid', uuid, _UUID),
        checks.integer('hour', hour, high=_MAX_HOUR),
        *amounts,
    )


def _open(message: Any) -> dict[str, Any]:
    opened: dict[str, Any] = checks.kind('report', message, dict, 64)
    version = checks.integer('v', opened.get('v'), low=1)
    if version > VERSION:
        raise exception.InvalidReport(
            f'it needs a conductor that reads version {version}, this one '
            f'reads up to version {VERSION}'
        )
    return opened

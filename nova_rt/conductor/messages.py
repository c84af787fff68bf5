# SPDX-License-Identifier: Apache-2.0
"""The form of reports on the message bus: plain JSON types, version 1.

Each message has a ``v``. A reader refuses one above its own, and ignores
fields that it does not know. Everything is checked for its type and size
before it goes any further: whoever can write to the bus is no friend of the
database's. Times are microseconds since 1970.
"""

from collections.abc import Iterable, Mapping, Sequence
import re
from typing import Any

from nova_rt import exception
from nova_rt.conductor import checks
from nova_rt.db.models import from_us, to_us
from nova_rt.db.objects import (
    Held,
    HostCPU,
    HostSample,
    NewEvent,
    Sample,
    ServerState,
    State,
)
from nova_rt.record import Record

VERSION = 1
#: A message of events has at most so many.
MAX_EVENTS = 500
#: Details of an event are cut behind so many characters.
MAX_DETAILS = 1000

_MAX_CPUS = 8192
_MAX_SERVERS = 8192
_MAX_SAMPLES = 100_000
# Times until the year 2286.
_MAX_TIME_US = 10**16
_MAX_CPU = 10**6
# A day on ten CPUs, in microseconds.
_MAX_SAMPLE = 10**12
_UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_WORD = re.compile('[ -~]{0,64}')
_KIND = re.compile('[a-z_]{1,32}')
_HOST = re.compile('[!-~]{1,255}')
_CPU = re.compile('[0-9]{1,6}')


# Writing


def write_state(state: State) -> dict[str, Any]:
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

    :param dropped_seq: events up to this one cannot be had any more
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
            }
            for event in events
        ],
    }


def write_samples(
    of_servers: Mapping[str, Iterable[Sample]],
    of_host: Iterable[HostSample] = (),
) -> dict[str, Any]:
    """Write samples as rows, in the order of their fields."""
    return {
        'v': VERSION,
        'servers': {
            uuid: [
                [
                    to_us(each.at), each.cpu, each.span_us, each.reserved_us,
                    each.used_us, each.periods, each.throttled,
                ]
                for each in samples
            ]
            for uuid, samples in of_servers.items()
        },
        'host': [
            [
                to_us(each.at), each.cpu, each.span_us, each.capacity_us,
                each.reserved_us, each.used_us,
            ]
            for each in of_host
        ],
    }  # fmt: skip


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


def read_state(message: Any, epoch: int, seq: int) -> State:
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
        raise exception.InvalidReport('a server stands there twice')
    return State(
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


def _read_held(held: Any) -> Held:
    held = checks.kind('server', held, dict, 64)
    state = _read_server_state(held.get('state'))
    if state is ServerState.RELEASED:
        raise exception.InvalidReport('a server of a picture is released')
    return Held(
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
    )


def clean(details: str) -> str:
    """Make a text one line that any database and terminal takes.

    :returns: at most MAX_DETAILS characters
    """
    return ''.join(
        each if each.isprintable() else ' ' for each in details[:MAX_DETAILS]
    )


def read_samples(
    message: Any,
) -> tuple[dict[str, list[Sample]], list[HostSample]]:
    """Read what :func:`write_samples` wrote.

    :returns: the UUID of each server -> its samples, and those of the host
    :raises InvalidReport: if it is anything else
    """
    message = _open(message)
    servers = checks.kind(
        'servers', message.get('servers'), dict, _MAX_SERVERS
    )
    host = checks.kind('host', message.get('host'), list, _MAX_SAMPLES)
    found = {
        checks.text('uuid', uuid, _UUID): [
            _read_sample(row)
            for row in checks.kind('samples', rows, list, _MAX_SAMPLES)
        ]
        for uuid, rows in servers.items()
    }
    if sum(map(len, found.values())) > _MAX_SAMPLES:
        raise exception.InvalidReport('too many samples')
    return found, [_read_host_sample(row) for row in host]


def _read_sample(row: Any) -> Sample:
    at_us, cpu, *values = _read_row(row, 7, may_lack=(4, 5, 6))
    return Sample(from_us(at_us), cpu, *values)


def _read_host_sample(row: Any) -> HostSample:
    at_us, cpu, *values = _read_row(row, 6, may_lack=(5,))
    return HostSample(from_us(at_us), cpu, *values)


def _read_row(row: Any, count: int, may_lack: Sequence[int]) -> list[Any]:
    at_us, cpu, *values = checks.integers('sample', row, count, may_lack)
    checks.integer('at', at_us, high=_MAX_TIME_US)
    checks.integer('CPU', cpu, high=_MAX_CPU)
    for value in values:
        # Or sums of them would overflow.
        checks.integer('sample', value or 0, high=_MAX_SAMPLE)
    return [at_us, cpu, *values]


def _open(message: Any) -> dict[str, Any]:
    opened: dict[str, Any] = checks.kind('report', message, dict, 64)
    version = checks.integer('v', opened.get('v'), low=1)
    if version > VERSION:
        raise exception.InvalidReport(
            f'it needs a conductor that reads version {version}, this one '
            f'reads up to version {VERSION}'
        )
    return opened

# SPDX-License-Identifier: Apache-2.0
"""The events of a reservation's history, read from their notifications.

A notification is untrusted input: each field is checked for its type and size
before it goes any further. Unknown fields are ignored.
"""

from collections.abc import Iterable, Mapping
import contextlib
import dataclasses
import datetime
import re
from typing import Any

from nova_rt import exception
from nova_rt.formats import checks
from nova_rt.formats.times import from_us
from nova_rt.reservation import cpulist
from nova_rt.reservation.reservation import Reservation

#: The type of a notification begins with this; the kind of event follows.
PREFIX = 'nova_rt.reservation.'
#: Details of an event are cut behind so many characters.
MAX_DETAILS = 1000

_MAJOR = '1'
_MAX_CPUS = 8192
# Characters of the ID of a request, user or project.
_MAX_ID = 64
# Times until the year 2286.
_MAX_TIME_US = 10**16
_UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_TYPE = re.compile(re.escape(PREFIX) + '[a-z_]{1,32}')


@dataclasses.dataclass(frozen=True)
class Origin:
    """The request in which something happened; '' for unknown values.

    :ivar user_id: its sender; '' for Nova's own periodic tasks
    """

    request_id: str = ''
    user_id: str = ''
    project_id: str = ''


@dataclasses.dataclass(frozen=True)
class HistoryEvent:
    """One event of a server's reservation.

    :ivar id: of its notification, the same however often that is delivered
    :ivar at: by the clock of the host, on which no two events of a start of
        its service have the same time
    :ivar kind: name of the event in lower case, such as ``claimed``
    :ivar details: a sentence, or nothing
    :ivar runtime_us: of the reservation; None if the event names none, as the
        next two
    """

    id: str
    at: datetime.datetime
    host: str
    server: str
    kind: str
    details: str
    runtime_us: int | None = None
    period_us: int | None = None
    cpus: tuple[int, ...] | None = None
    origin: Origin = Origin()

    @property
    def reservation(self) -> str:
        """Runtime and period as flavors have them; '' without."""
        if self.runtime_us is None:
            return ''
        return f'{self.runtime_us}/{self.period_us}'


def read(message_id: Any, event_type: Any, payload: Any) -> HistoryEvent:
    """Read a notification of nova-rt-compute.

    :param payload: the primitive of a versioned object
    :returns: the event
    :raises InvalidReport: if it is anything else
    """
    payload = checks.kind('payload', payload, dict, 64)
    version = payload.get('nova_object.version')
    if not isinstance(version, str) or version.split('.')[0] != _MAJOR:
        raise exception.InvalidReport(
            f'its version is not {_MAJOR}.x: is the compute service newer?'
        )
    data = checks.kind('data', payload.get('nova_object.data'), dict, 256)
    kind = checks.text('event_type', event_type, _TYPE).removeprefix(PREFIX)
    runtime_us, period_us, cpus = _read_reservation(data)
    return HistoryEvent(
        checks.text('message_id', message_id, _UUID),
        from_us(checks.integer('at_us', data.get('at_us'), 0, _MAX_TIME_US)),
        checks.text('host', data.get('host'), checks.HOST),
        checks.text('uuid', data.get('uuid'), _UUID),
        kind,
        _read_details(data),
        runtime_us,
        period_us,
        cpus,
        Origin(
            *(
                _read_id(data.get(name))
                for name in ('request_id', 'user_id', 'project_id')
            )
        ),
    )


def _read_reservation(
    data: Mapping[str, Any],
) -> tuple[int | None, int | None, tuple[int, ...] | None]:
    if data.get('runtime_us') is None:
        return None, None, None
    cpus = checks.kind('cpus', data.get('cpus'), list, _MAX_CPUS)
    return (
        checks.integer('runtime_us', data['runtime_us']),
        checks.integer('period_us', data.get('period_us')),
        tuple(checks.integer('CPU', cpu, 0, cpulist.MAX_CPU) for cpu in cpus),
    )


def _read_details(data: Mapping[str, Any]) -> str:
    """Read the sentence of an event; that of a refusal names the action."""
    parts = []
    for name in ('action', 'details'):
        text = data.get(name)
        if text is None:
            continue
        if not isinstance(text, str):
            raise exception.InvalidReport(f'{name} is no text')
        parts.append(text)
    return clean(': '.join(parts))


def _read_id(value: Any) -> str:
    """Read an ID; nothing about it keeps an event from its history."""
    return clean(value)[:_MAX_ID] if isinstance(value, str) else ''


def clean(details: str) -> str:
    """Make a text one line that any database and terminal takes.

    oslo.db talks to MariaDB in its "utf8", which ends at U+FFFF.

    :returns: at most MAX_DETAILS characters
    """
    return ''.join(
        each if each.isprintable() and each <= '\uffff' else ' '
        for each in details[:MAX_DETAILS]
    )


@dataclasses.dataclass(frozen=True)
class Interval:
    """A reservation that a server held on a host, from one time to another.

    :ivar reservation: runtime and period in microseconds
    :ivar until: None while no event says that it is over
    """

    host: str
    reservation: str
    cpus: tuple[int, ...]
    since: datetime.datetime
    until: datetime.datetime | None = None

    def describe_cpus(self) -> str:
        """Write the CPUs as a list such as 1-2,7."""
        return cpulist.render(self.cpus)


@dataclasses.dataclass(frozen=True)
class Boost:
    """The reservation of a server while it starts.

    :ivar until: its end
    """

    reservation: Reservation
    until: datetime.datetime


#: Kinds of events after which a boost is over.
_ENDING = ('applied', 'unboosted', 'changed', 'stopped', 'released')
#: Kinds of events that say something about a boost.
BOOST_KINDS = ('boosted', *_ENDING)


def find_boost(
    events: Iterable[HistoryEvent],
    host: str,
    span: datetime.timedelta,
    now: datetime.datetime,
) -> Boost | None:
    """Find the boost that a server has by its last events.

    No event says that a host has died, or that its service was killed: a
    boost is over then at its time.

    :param events: those of one server in the order of their times, at least
        those of BOOST_KINDS
    :param host: the server's
    :param span: of a boost, from the start of its server
    :returns: None if it has none
    """
    since = boost = None
    for event in events:
        if event.host != host:
            continue
        if event.kind == 'applied':
            since = event.at
        if event.kind in _ENDING:
            boost = None
        elif event.kind == 'boosted':
            # A host may report anything.
            with contextlib.suppress(exception.InvalidReservation):
                boost = Boost(
                    Reservation.parse(event.reservation),
                    (since or event.at) + span,
                )
    return boost if boost is not None and boost.until > now else None


#: Kinds of events with which one reservation replaces another.
_REPLACING = ('changed', 'adapted')


def find_intervals(events: list[HistoryEvent]) -> list[Interval]:
    """Find the intervals in which a server held reservations.

    During a move it holds something on two hosts, during a resize on its host
    two reservations there.

    :param events: those of one server, in the order of their times
    :returns: in the order in which they began
    """
    found: list[Interval] = []
    for event in events:
        held = [
            number
            for number, each in enumerate(found)
            if each.until is None and each.host == event.host
        ]
        new = None
        if event.cpus is not None:
            new = Interval(event.host, event.reservation, event.cpus, event.at)
        for number in _choose_ended(event, found, held):
            found[number] = dataclasses.replace(found[number], until=event.at)
        # An event of what nobody has claimed: the history began later.
        missing = not held and event.kind in ('applied', 'drifted', 'repaired')
        begins = event.kind in ('claimed', 'added', *_REPLACING)
        if new is not None and (begins or missing):
            found.append(new)
    return found


def _choose_ended(
    event: HistoryEvent, found: list[Interval], held: list[int]
) -> list[int]:
    """Choose those of the open intervals of a host that an event ends."""
    if event.kind in ('claimed', 'released', *_REPLACING):
        return held
    if event.kind != 'dropped':
        return []
    same = [
        number
        for number in held
        if (found[number].reservation, found[number].cpus)
        == (event.reservation, event.cpus)
    ]
    return same[:1]

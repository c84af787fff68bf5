# SPDX-License-Identifier: Apache-2.0
"""The history of reservations: one writer, and the queries of programs.

The table is a log: events are added once, in any order, and
read in the order of their times. Errors of the database itself are in
:data:`ERRORS`.
"""

from collections.abc import Collection
import datetime

import sqlalchemy as sa

from nova_rt import exception
from nova_rt.db import models, session
from nova_rt.db.retention import purge
from nova_rt.db.session import (
    ERRORS,
    NO_DATABASE,
    configure,
    describe,
    is_of_value,
    retried,
)
from nova_rt.formats.history import (
    HistoryEvent,
    Interval,
    Origin,
    find_intervals,
)
from nova_rt.reservation import cpulist

__all__ = [
    'ERRORS',
    'NO_DATABASE',
    'add_event',
    'configure',
    'describe',
    'get_history',
    'get_intervals',
    'get_latest',
    'is_of_value',
    'ping',
    'purge',
]

_ROW = models.EventRow


@retried
def add_event(event: HistoryEvent, now: datetime.datetime) -> None:
    """Add an event to the history, unless it is there.

    :param now: by the clock of the conductor
    """
    table = _ROW.__table__
    assert isinstance(table, sa.Table)
    row = {
        'message_id': event.id,
        'server': event.server,
        'host': event.host,
        'at': event.at,
        'received_at': now,
        'kind': event.kind,
        'details': event.details,
        'runtime_us': event.runtime_us,
        'period_us': event.period_us,
        'cpus': None if event.cpus is None else cpulist.render(event.cpus),
        **vars(event.origin),
    }
    with session.writer() as writer:
        session.insert_once(writer, table, row, 'message_id')


def get_history(server: str, limit: int | None = None) -> list[HistoryEvent]:
    """Read the events of a server's reservation, the latest first.

    :param server: UUID
    :param limit: at most so many events
    :returns: the events
    :raises ServerNotFound: if there is none, or all were purged
    """
    query = (
        sa.select(_ROW)
        .where(_ROW.server == server)
        .order_by(_ROW.at.desc(), _ROW.id.desc())
        .limit(limit)
    )
    with session.reader() as reader:
        found = [_read(row) for row in reader.scalars(query)]
    if not found:
        raise exception.ServerNotFound(
            f'the history has nothing of server {server!r}'
        )
    return found


def get_latest(
    uuids: Collection[str], since: datetime.datetime, kinds: Collection[str]
) -> dict[str, list[HistoryEvent]]:
    """Read the events of servers since a time.

    :param kinds: names of the kinds of events
    :returns: by UUID, of those that have any, in the order of their times
    """
    query = (
        sa.select(_ROW)
        .where(_ROW.server.in_(uuids), _ROW.at >= since, _ROW.kind.in_(kinds))
        .order_by(_ROW.at, _ROW.id)
    )
    found: dict[str, list[HistoryEvent]] = {}
    with session.reader() as reader:
        for row in reader.scalars(query):
            found.setdefault(row.server, []).append(_read(row))
    return found


def _read(row: models.EventRow) -> HistoryEvent:
    return HistoryEvent(
        row.message_id,
        row.at,
        row.host,
        row.server,
        row.kind,
        row.details,
        row.runtime_us,
        row.period_us,
        _read_cpus(row.cpus),
        Origin(row.request_id, row.user_id, row.project_id),
    )


def _read_cpus(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else cpulist.parse(text)
    except ValueError:
        # Stored by an older conductor. The rest of the history is still good.
        return None


def get_intervals(server: str) -> list[Interval]:
    """Read the intervals in which a server held reservations.

    :param server: UUID
    :returns: in the order in which they began
    :raises ServerNotFound: if its history is empty
    """
    return find_intervals(get_history(server)[::-1])


def ping() -> None:
    """Ask the database for an answer."""
    with session.reader() as reader:
        reader.execute(sa.text('SELECT 1'))

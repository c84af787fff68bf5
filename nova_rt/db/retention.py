# SPDX-License-Identifier: Apache-2.0
"""Deletes events that are too old, a little at a time.

Every step is a short transaction of its own. A purge that is killed has
deleted less; the next one goes on.
"""

from collections.abc import Iterator
import datetime
from typing import Any

import sqlalchemy as sa

from nova_rt.db import models
from nova_rt.db.session import reader, retried, writer
from nova_rt.formats.times import from_us

# Microseconds since 1970.
_CLOCKS = {
    'mysql': 'SELECT UNIX_TIMESTAMP() * 1000000',
    'postgresql': 'SELECT FLOOR(EXTRACT(EPOCH FROM NOW()) * 1000000)',
    'sqlite': "SELECT STRFTIME('%s', 'now') * 1000000",
}
_ROW = models.EventRow

#: Rows that one transaction deletes.
STEP = 2000


def from_options(conf: Any) -> datetime.timedelta:
    """Read from ``[nova_rt_database]`` how long events are kept.

    :returns: the span
    """
    return datetime.timedelta(days=conf.nova_rt_database.keep_history_days)


def purge(now: datetime.datetime, keep: datetime.timedelta) -> Iterator[int]:
    """Delete expired events.

    One clock that is wrong deletes nothing: the time is that of the caller,
    of the database or of the newest event, whichever is earliest, and an
    event is as old as its receipt.

    :param now: the time
    :param keep: age of events that stay
    :returns: after each transaction, how many rows it has deleted
    """
    oldest = _choose_now(now) - keep
    while deleted := _delete_rows(oldest):
        yield deleted


def _choose_now(now: datetime.datetime) -> datetime.datetime:
    """Return the time that no clock contradicts."""
    with reader() as session:
        clock = sa.text(_CLOCKS[session.get_bind().dialect.name])
        times = [now, from_us(int(session.execute(clock).scalar_one()))]
        newest = session.scalar(sa.select(sa.func.max(_ROW.received_at)))
    if newest is not None:
        times.append(newest)
    return min(times)


@retried
def _delete_rows(oldest: datetime.datetime) -> int:
    query = (
        sa.select(_ROW.id)
        .where(_ROW.received_at < oldest)
        .order_by(_ROW.received_at)
        .limit(STEP)
    )
    with writer() as session:
        found = list(session.scalars(query))
        if found:
            # By key, not by age: no lock on rows that stay.
            session.execute(sa.delete(_ROW).where(_ROW.id.in_(found)))
        return len(found)

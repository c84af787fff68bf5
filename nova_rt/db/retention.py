# SPDX-License-Identifier: Apache-2.0
"""Deletes what is too old, a little at a time.

Every step is a short transaction of its own. A purge that is killed has
deleted less; the next one goes on.
"""

from collections.abc import Iterator, Sequence
import datetime
from typing import Any

import sqlalchemy as sa

from nova_rt.db import models, usage
from nova_rt.db.objects import Retention
from nova_rt.db.session import reader, retried, writer
from nova_rt.formats.reports import ServerState
from nova_rt.formats.times import from_us

# Microseconds since 1970.
_CLOCKS = {
    'mysql': 'SELECT UNIX_TIMESTAMP() * 1000000',
    'postgresql': 'SELECT FLOOR(EXTRACT(EPOCH FROM NOW()) * 1000000)',
    'sqlite': "SELECT STRFTIME('%s', 'now') * 1000000",
}
_REPORTED = models.HostRow.last_report_at

#: Rows that one transaction deletes, about.
STEP = 2000


def from_options(conf: Any) -> Retention:
    """Read how long to keep what from ``[nova_rt_database]``.

    :returns: the spans
    """
    options = conf.nova_rt_database
    days = datetime.timedelta(days=1)
    return Retention(
        usage=days * options.keep_usage_days,
        history=days * options.keep_history_days,
    )


def purge(
    now: datetime.datetime, retention: Retention, servers: bool = True
) -> Iterator[int]:
    """Delete what is too old.

    One clock that is wrong deletes nothing: the time is that of the caller,
    of the database or of the newest report, whichever is earliest, and what a
    host has reported is as old as its receipt.

    :param now: the time
    :param servers: look at each server, too, whether anything is left of it
    :returns: after each transaction, how many rows it has deleted
    """
    now = _choose_now(now)
    hour = models.ServerHourRow.hour
    yield from _purge_rows(
        models.ServerHourRow, hour < usage.to_hour(now - retention.usage), hour
    )
    oldest = now - retention.history
    received_at = models.HistoryRow.received_at
    yield from _purge_rows(
        models.HistoryRow, received_at < oldest, received_at
    )
    yield from _purge_rows(
        models.HistoryRow,
        sa.and_(received_at.is_(None), models.HistoryRow.at < oldest),
        models.HistoryRow.at,
    )
    yield from _purge_rows(
        models.ReservationRow,
        sa.and_(
            models.ReservationRow.state == ServerState.RELEASED,
            models.ReservationRow.since < oldest,
        ),
    )
    # No usage is newer than the last report.
    gone = now - max(retention.history, retention.usage)
    yield from _purge_rows(models.HostRow, _REPORTED < gone)
    # Anyone on the message bus can report in the name of a host that never
    # was.
    yield from _purge_rows(
        models.HostRow,
        sa.and_(
            _REPORTED.is_(None),
            _nothing(models.HistoryRow.host_id, models.HostRow.id),
            _nothing(models.ServerHourRow.host_id, models.HostRow.id),
        ),
    )
    if servers:
        yield from _purge_servers()


def _choose_now(now: datetime.datetime) -> datetime.datetime:
    """Return the time that no clock contradicts."""
    with reader() as session:
        clock = sa.text(_CLOCKS[session.get_bind().dialect.name])
        times = [now, from_us(int(session.execute(clock).scalar_one()))]
        newest = session.scalar(sa.select(sa.func.max(_REPORTED)))
    if newest is not None:
        times.append(newest)
    return min(times)


def _purge_rows(
    model: type[models.Base],
    old: sa.ColumnElement[bool],
    order: Any = None,
) -> Iterator[int]:
    while True:
        deleted = _delete_rows(model, old, order)
        if not deleted:
            return
        yield deleted


@retried
def _delete_rows(
    model: type[models.Base], old: sa.ColumnElement[bool], order: Any
) -> int:
    keys = list(model.__table__.primary_key)
    query = sa.select(*keys).where(old).limit(STEP)
    if order is not None:
        query = query.order_by(order)
    with writer() as session:
        found = [tuple(row) for row in session.execute(query)]
        if found:
            # By key, not by age: no lock on rows that stay.
            session.execute(
                sa.delete(model).where(sa.tuple_(*keys).in_(found), old)
            )
        return len(found)


def _purge_servers() -> Iterator[int]:
    """Delete servers of which nothing is left."""
    last = 0
    while True:
        query = (
            sa.select(models.ServerRow.id)
            .where(models.ServerRow.id > last)
            .order_by(models.ServerRow.id)
            .limit(STEP)
        )
        with reader() as session:
            found = list(session.scalars(query))
        if not found:
            return
        last = found[-1]
        deleted = _delete_servers(found)
        if deleted:
            yield deleted


def _nothing(reference: Any, number: Any) -> sa.ColumnElement[bool]:
    return ~sa.select(sa.literal(1)).where(reference == number).exists()


@retried
def _delete_servers(owners: Sequence[int]) -> int:
    with writer() as session:
        result: Any = session.execute(
            sa.delete(models.ServerRow)
            .where(
                models.ServerRow.id.in_(owners),
                _nothing(models.ReservationRow.server_id, models.ServerRow.id),
                _nothing(models.HistoryRow.server_id, models.ServerRow.id),
                _nothing(models.ServerHourRow.server_id, models.ServerRow.id),
            )
            .execution_options(synchronize_session=False)
        )
        return int(result.rowcount)

# SPDX-License-Identifier: Apache-2.0
"""Deletes what is too old, a little at a time.

Every step is a short transaction of its own. A purge that is killed has
deleted less; the next one goes on.
"""

from collections.abc import Iterator, Sequence
import datetime
from typing import Any

import sqlalchemy as sa

from nova_rt.db import models, sums
from nova_rt.db.models import to_us
from nova_rt.db.objects import Resolution, Retention, ServerState
from nova_rt.db.series import HOSTS, SERVERS, Series
from nova_rt.db.session import reader, retried, writer

#: Rows that one transaction deletes, about.
STEP = 2000


def from_options(conf: Any) -> Retention:
    """Read how long to keep what from ``[nova_rt_database]``.

    :returns: the spans
    """
    options = conf.nova_rt_database
    days = datetime.timedelta(days=1)
    return Retention(
        samples={
            Resolution.RAW: datetime.timedelta(hours=options.keep_raw_hours),
            Resolution.FIVE_MINUTES: days * options.keep_5min_days,
            Resolution.HOUR: days * options.keep_hour_days,
        },
        history=days * options.keep_history_days,
    )


def purge(now: datetime.datetime, retention: Retention) -> Iterator[int]:
    """Delete what is too old.

    Samples that were not summed up yet stay, whatever their age.

    :param now: the time
    :returns: after each transaction, how many rows it has deleted
    """
    for series in (SERVERS, HOSTS):
        for resolution, keep in retention.samples.items():
            yield from _purge_samples(series, resolution, to_us(now - keep))
    oldest = now - retention.history
    yield from _purge_rows(
        models.History, models.History.at < oldest, models.History.at
    )
    yield from _purge_rows(
        models.Reservation,
        sa.and_(
            models.Reservation.state == ServerState.RELEASED,
            models.Reservation.since < oldest,
        ),
    )
    yield from _purge_rows(
        models.Host,
        sa.and_(
            models.Host.last_report_at < oldest,
            _nothing(models.HostSample.host_id, models.Host.id),
        ),
    )
    yield from _purge_servers()


def _purge_samples(
    series: Series, resolution: Resolution, before_us: int
) -> Iterator[int]:
    coarser = {
        Resolution.RAW: Resolution.FIVE_MINUTES,
        Resolution.FIVE_MINUTES: Resolution.HOUR,
    }
    if resolution in coarser:
        done_us = sums.read_done(series, coarser[resolution])
        before_us = min(before_us, done_us)
    for owners in series.iterate_owners():
        while True:
            share = _choose_samples(series, owners, resolution, before_us)
            if share is None:
                break
            yield _delete_samples(series, resolution, *share)


def _choose_samples(
    series: Series,
    owners: Sequence[int],
    resolution: Resolution,
    before_us: int,
) -> tuple[Sequence[int], int] | None:
    """Choose about STEP samples to delete: of whom, and before when.

    :returns: None if there are none
    """
    at_us = series.table.c.at_us
    # In the order of the key, so that no more than these are read.
    query = (
        sa.select(series.owner, at_us)
        .where(series.of(owners, resolution, 0, before_us))
        .order_by(series.owner, at_us, series.table.c.cpu)
        .limit(STEP)
    )
    with reader() as session:
        found = list(session.execute(query).all())
    if not found:
        return None
    last, last_us = found[-1]
    whole = sorted({owner for owner, _ in found if owner != last})
    if len(found) < STEP:
        return [*whole, last], before_us
    if whole:
        # The last one may have more: its turn comes.
        return whole, before_us
    return [last], last_us + 1


@retried
def _delete_samples(
    series: Series,
    resolution: Resolution,
    owners: Sequence[int],
    before_us: int,
) -> int:
    with writer() as session:
        result: Any = session.execute(
            sa.delete(series.table).where(
                series.of(owners, resolution, 0, before_us)
            )
        )
        return int(result.rowcount)


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
    for owners in SERVERS.iterate_owners():
        deleted = _delete_servers(owners)
        if deleted:
            yield deleted


def _nothing(reference: Any, number: Any) -> sa.ColumnElement[bool]:
    return ~sa.select(sa.literal(1)).where(reference == number).exists()


@retried
def _delete_servers(owners: Sequence[int]) -> int:
    with writer() as session:
        result: Any = session.execute(
            sa.delete(models.Server)
            .where(
                models.Server.id.in_(owners),
                _nothing(models.Reservation.server_id, models.Server.id),
                _nothing(models.History.server_id, models.Server.id),
                _nothing(models.Sample.server_id, models.Server.id),
            )
            .execution_options(synchronize_session=False)
        )
        return int(result.rowcount)

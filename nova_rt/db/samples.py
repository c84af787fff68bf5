# SPDX-License-Identifier: Apache-2.0
"""Samples of servers and of hosts: write, read, sum up.

Samples come as they were taken (raw) and are summed to buckets of five
minutes, and these to hours. Only complete buckets are made, and each is made
whole: to sum up twice, or in two conductors at once, changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt.db import models
from nova_rt.db.models import from_us, to_us
from nova_rt.db.objects import HostSample, Resolution, Sample
from nova_rt.db.reports import find_servers
from nova_rt.db.session import (
    CHUNK,
    reader,
    retried,
    upsert,
    upsert_from,
    writer,
)

#: How late a sample may come to be in its buckets.
GRACE = datetime.timedelta(minutes=2)
#: Servers or hosts of one statement.
OWNERS = 50
#: Seconds that one transaction sums up, by the length of the buckets: some
#: hundred rows for each CPU of a server.
_STRIDES_S = {300: 3600, 3600: 24 * 3600}
_SUMS = ((Resolution.RAW, Resolution.FIVE_MINUTES),
         (Resolution.FIVE_MINUTES, Resolution.HOUR))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Series:
    """A table of samples.

    :ivar owners: the table of what the samples are of
    """

    table: sa.Table
    owners: sa.Table

    @property
    def owner(self) -> sa.Column[Any]:
        """The column that says what a sample is of."""
        return self.table.c[0]

    @property
    def values(self) -> list[sa.Column[Any]]:
        """The columns that are summed up."""
        keys = list(self.table.primary_key)
        return [each for each in self.table.c if each not in keys]

    def of(
        self, owners: Any, resolution: Resolution, begin_us: int, end_us: int
    ) -> sa.ColumnElement[bool]:
        """Build the condition for one range of the primary key for each."""
        return sa.and_(
            self.owner.in_(owners),
            self.table.c.resolution_s == resolution.seconds,
            self.table.c.at_us >= begin_us,
            self.table.c.at_us < end_us,
        )

    def job(self, resolution: Resolution) -> str:
        """The name under which progress is kept."""
        return f'{self.table.name} {resolution}'

    def iterate_owners(self) -> Iterator[list[int]]:
        """All numbers of servers or hosts, some at a time."""
        last = 0
        while True:
            query = (
                sa.select(self.owners.c.id)
                .where(self.owners.c.id > last)
                .order_by(self.owners.c.id)
                .limit(OWNERS)
            )
            with reader() as session:
                found = list(session.scalars(query))
            if not found:
                return
            yield found
            last = found[-1]


def _table(model: type[models.Base]) -> sa.Table:
    table = model.__table__
    assert isinstance(table, sa.Table)
    return table


SERVERS = Series(_table(models.Sample), _table(models.Server))
HOSTS = Series(_table(models.HostSample), _table(models.Host))


# Writing


@retried
def record_samples(
    host: str,
    of_servers: Mapping[str, Iterable[Sample]],
    of_host: Iterable[HostSample] = (),
) -> None:
    """Take samples of a host; those that are there already stay.

    :param host: the host's name; without a report of its state yet, its own
        samples are dropped
    :param of_servers: the UUID of each server -> its samples
    """
    with writer() as session:
        ids = find_servers(session, of_servers.keys())
        rows = [
            _make_row(SERVERS, ids[uuid], sample)
            for uuid, samples in of_servers.items()
            for sample in samples
        ]
        number = session.scalar(
            sa.select(models.Host.id).where(models.Host.name == host)
        )
        own = [
            _make_row(HOSTS, number, sample)
            for sample in of_host
            if number is not None
        ]
        for series, new in ((SERVERS, rows), (HOSTS, own)):
            # In the order of the key, so that two transactions do not lock
            # each other out.
            new.sort(key=lambda row: tuple(row.values())[:4])
            for start in range(0, len(new), CHUNK):
                upsert(session, series.table, new[start : start + CHUNK])


def _make_row(
    series: Series, owner: int, sample: Sample | HostSample
) -> dict[str, Any]:
    values = dict(vars(sample))
    return {
        series.owner.name: owner,
        'resolution_s': 0,
        'at_us': to_us(values.pop('at')),
        'cpu': values.pop('cpu'),
        **values,
    }


# Reading


def read_samples(
    uuid: str,
    since: datetime.datetime,
    until: datetime.datetime,
    resolution: Resolution | str | None = None,
) -> list[Sample]:
    """Read the samples of a server.

    :param since: of spans that begin then or later
    :param until: of spans that begin before
    :param resolution: None for what suits the span: raw up to 6 hours, hours
        beyond 14 days, with finer samples where it was not summed up yet
    :returns: by time and CPU; none of a server that is not known
    """
    owner = sa.select(models.Server.id).where(models.Server.uuid == uuid)
    return [
        Sample(from_us(row[0]), *row[1:])
        for row in _read(SERVERS, owner, since, until, resolution)
    ]


def read_host_samples(
    host: str,
    since: datetime.datetime,
    until: datetime.datetime,
    resolution: Resolution | str | None = None,
) -> list[HostSample]:
    """Read the samples of a host; see :func:`read_samples`.

    :returns: by time and CPU; none of a host that is not known
    """
    owner = sa.select(models.Host.id).where(models.Host.name == host)
    return [
        HostSample(from_us(row[0]), *row[1:])
        for row in _read(HOSTS, owner, since, until, resolution)
    ]


def _read(
    series: Series,
    owner: sa.Select[tuple[int]],
    since: datetime.datetime,
    until: datetime.datetime,
    resolution: Resolution | str | None,
) -> list[Any]:
    begin_us, end_us = to_us(since), to_us(until)
    with reader() as session:
        number = session.scalar(owner)
        if number is None:
            return []
        if resolution is None:
            levels = _choose(until - since)
        else:
            levels = [Resolution(resolution)]
        rows: list[Any] = []
        for index, level in enumerate(levels):
            stop_us = end_us
            if index < len(levels) - 1:
                stop_us = min(end_us, _read_done(session, series, level))
            if stop_us > begin_us:
                rows += _read_range(
                    session, series, number, level, begin_us, stop_us
                )
                begin_us = stop_us
        return rows


def _choose(span: datetime.timedelta) -> list[Resolution]:
    """The resolution that suits a span, then finer ones for its end."""
    if span <= datetime.timedelta(hours=6):
        return [Resolution.RAW]
    if span <= datetime.timedelta(days=14):
        return [Resolution.FIVE_MINUTES, Resolution.RAW]
    return [Resolution.HOUR, Resolution.FIVE_MINUTES, Resolution.RAW]


def _read_range(
    session: orm.Session,
    series: Series,
    number: int,
    level: Resolution,
    begin_us: int,
    end_us: int,
) -> list[Any]:
    columns = [series.table.c.at_us, series.table.c.cpu, *series.values]
    query = (
        sa.select(*columns)
        .where(series.of([number], level, begin_us, end_us))
        .order_by(series.table.c.at_us, series.table.c.cpu)
    )
    return list(session.execute(query).all())


# Summing up


def _read_done(
    session: orm.Session, series: Series, resolution: Resolution
) -> int:
    """All buckets of a resolution that end until then are made: a time, us."""
    done = session.scalar(
        sa.select(models.Progress.done_us).where(
            models.Progress.job == series.job(resolution)
        )
    )
    return done or 0


def read_done(series: Series, resolution: Resolution) -> int:
    """Say how far samples are summed up to a resolution.

    :returns: microseconds since 1970; 0 if nothing is
    """
    with reader() as session:
        return _read_done(session, series, resolution)


def sum_up(
    now: datetime.datetime, keep: Mapping[Resolution, datetime.timedelta]
) -> None:
    """Make all buckets that are complete.

    :param now: the time
    :param keep: how long samples are kept: a bucket whose parts may have
        been purged is not made again
    """
    for series in (SERVERS, HOSTS):
        for source, target in _SUMS:
            width_us = target.seconds * 1_000_000
            end_us = to_us(now - GRACE)
            if source is not Resolution.RAW:
                end_us = min(end_us, read_done(series, source))
            end_us -= end_us % width_us
            done_us = read_done(series, target)
            if done_us > to_us(now):
                done_us = 0  # By a clock that was ahead.
            # At first there is nothing older than the samples themselves.
            oldest_us = to_us(
                now - keep[source if done_us else Resolution.RAW]
            )
            oldest_us += -oldest_us % width_us
            begin_us = max(done_us, oldest_us)
            while begin_us < end_us:
                stride_us = _STRIDES_S[target.seconds] * 1_000_000
                stop_us = min(begin_us + stride_us, end_us)
                for owners in series.iterate_owners():
                    _sum(series, owners, source, target, begin_us, stop_us)
                _set_done(series.job(target), stop_us, to_us(now))
                begin_us = stop_us


@retried
def _sum(
    series: Series,
    owners: Sequence[int],
    source: Resolution,
    target: Resolution,
    begin_us: int,
    end_us: int,
) -> None:
    table = series.table
    # A literal: PostgreSQL would take two parameters for two values.
    width: sa.ColumnClause[int] = sa.literal_column(
        str(target.seconds * 1_000_000)
    )
    bucket = (table.c.at_us - table.c.at_us % width).label('bucket')
    select = (
        sa.select(
            series.owner,
            sa.literal_column(str(target.seconds)),
            bucket,
            table.c.cpu,
            *(sa.func.sum(each) for each in series.values),
        )
        .where(series.of(owners, source, begin_us, end_us))
        .group_by(series.owner, bucket, table.c.cpu)
    )
    replace = [each.name for each in series.values]
    with writer() as session:
        session.execute(upsert_from(session, table, replace, select=select))


@retried
def _set_done(job: str, done_us: int, now_us: int) -> None:
    with writer() as session:
        row = lock_progress(session, job)
        if not done_us <= row.done_us <= now_us:
            row.done_us = done_us


def lock_progress(session: orm.Session, job: str) -> models.Progress:
    """Find or make the row of a job, ours until the transaction ends.

    :returns: the row
    """
    query = (
        sa.select(models.Progress)
        .where(models.Progress.job == job)
        .with_for_update()
    )
    row = session.scalar(query)
    if row is None:
        new = {'job': job, 'done_us': 0, 'leased_until': from_us(0)}
        upsert(session, _table(models.Progress), [new])
        row = session.scalar(query)
        assert row is not None
    return row

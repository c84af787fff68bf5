# SPDX-License-Identifier: Apache-2.0
"""Sums up samples.

Samples come as they were taken (raw) and are summed to buckets of five
minutes, and these to hours. Only complete buckets are made, and each is made
whole: to sum up twice, or in two conductors at once, changes nothing.
"""

from collections.abc import Mapping, Sequence
import datetime

import sqlalchemy as sa

from nova_rt.db import progress
from nova_rt.db.models import to_us
from nova_rt.db.objects import Resolution
from nova_rt.db.series import HOSTS, SERVERS, Series
from nova_rt.db.session import reader, retried, upsert_from, writer

#: The delay up to which a late sample still gets into its buckets.
GRACE = datetime.timedelta(minutes=2)
#: Seconds that one transaction sums up, by the length of the buckets: some
#: hundred rows for each CPU of a server.
_STRIDES_S = {300: 3600, 3600: 24 * 3600}
_SUMS = ((Resolution.RAW, Resolution.FIVE_MINUTES),
         (Resolution.FIVE_MINUTES, Resolution.HOUR))  # fmt: skip


def read_done(series: Series, resolution: Resolution) -> int:
    """Say how far samples are summed up to a resolution.

    :returns: microseconds since 1970; 0 if nothing is
    """
    with reader() as session:
        return progress.read_done(session, series.job(resolution))


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
        row = progress.lock_progress(session, job)
        if not done_us <= row.done_us <= now_us:
            row.done_us = done_us

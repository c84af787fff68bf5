# SPDX-License-Identifier: Apache-2.0
"""Samples of servers and of hosts: write and read.

They are summed up in :mod:`nova_rt.db.sums`.
"""

from collections.abc import Iterable, Mapping
import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt.db import models
from nova_rt.db.models import from_us, to_us
from nova_rt.db.objects import HostSample, Resolution, Sample
from nova_rt.db.progress import read_done
from nova_rt.db.series import HOSTS, SERVERS, Series
from nova_rt.db.servers import find_servers
from nova_rt.db.session import CHUNK, reader, retried, upsert, writer

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
                stop_us = min(end_us, read_done(session, series.job(level)))
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

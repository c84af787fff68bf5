# SPDX-License-Identifier: Apache-2.0
"""CPU time that servers held and used, hour by hour: write and read."""

from collections.abc import Iterator, Sequence
import datetime
from typing import Any

import sqlalchemy as sa

from nova_rt.db import hosts, models
from nova_rt.db.objects import HourUsage, Usage
from nova_rt.db.servers import find_servers
from nova_rt.db.session import reader, retried, writer
from nova_rt.formats.reports import ServerHour
from nova_rt.formats.times import from_us, to_us

_HOUR = datetime.timedelta(hours=1)
_AMOUNTS = ('reserved_us', 'used_us', 'periods', 'throttled')


def to_hour(when: datetime.datetime) -> int:
    """Convert a time to hours.

    :param when: with a time zone
    :returns: hours since 1970, rounded up
    """
    return -(-to_us(when) // to_us(from_hour(1)))


def from_hour(hour: int) -> datetime.datetime:
    """Convert hours to a time.

    :param hour: hours since 1970
    :returns: the begin of the hour
    """
    return from_us(0) + hour * _HOUR


# Writing


@retried
def record_usage(host: str, accounts: Sequence[ServerHour]) -> None:
    """Take accounts of a host; one that is less than what is there does
    nothing.

    They may come twice and in any order.

    :param host: the host's name
    """
    with writer() as session:
        host_id = hosts.lock_host(session, host).id
        ids = find_servers(session, {each.uuid for each in accounts})
        table = models.ServerHourRow
        found = session.scalars(
            sa.select(table).where(
                table.host_id == host_id,
                table.server_id.in_(ids.values()),
                table.hour.in_({each.hour for each in accounts}),
            )
        )
        there = {(row.server_id, row.hour, row.meter): row for row in found}
        for each in accounts:
            key = ids[each.uuid], each.hour, each.meter
            row = there.get(key)
            if row is None:
                row = there[key] = table(
                    server_id=key[0],
                    hour=each.hour,
                    host_id=host_id,
                    meter=each.meter,
                    reserved_us=0,
                )
                session.add(row)
            for name in _AMOUNTS:
                old, new = getattr(row, name), getattr(each, name)
                if new is not None and (old is None or new > old):
                    setattr(row, name, new)


# Reading


def list_usage(
    since: datetime.datetime,
    until: datetime.datetime,
    host: str | None = None,
    server: str | None = None,
) -> list[Usage]:
    """Add up what servers held and used on each host.

    :param since: of hours that begin then or later
    :param until: of hours that begin before
    :param host: on this host alone
    :param server: of this server alone
    :returns: by UUID and host
    """
    columns = [models.ServerRow.uuid, models.HostRow.name]
    query = _select(columns, since, until, host, server).group_by(*columns)
    with reader() as session:
        return [Usage(*_plain(row)) for row in session.execute(query)]


def iterate_hours(
    since: datetime.datetime,
    until: datetime.datetime,
    host: str | None = None,
    server: str | None = None,
) -> Iterator[HourUsage]:
    """Read what servers held and used on each host, hour by hour.

    A day is read at once, of a server; an hour of all.

    :returns: by hour, UUID and host
    """
    step = 24 if server is not None else 1
    first, last = to_hour(since), to_hour(until)
    if server is None:
        first, last = _clip(first, last)
    columns = [
        models.ServerHourRow.hour,
        models.ServerRow.uuid,
        models.HostRow.name,
    ]
    for begin in range(first, last, step):
        span = from_hour(begin), from_hour(min(begin + step, last))
        query = _select(columns, *span, host, server).group_by(*columns)
        with reader() as session:
            rows = list(session.execute(query))
        for hour, *row in rows:
            yield HourUsage(*[*_plain(row), from_hour(hour)])


def _clip(first: int, last: int) -> tuple[int, int]:
    """Leave out hours before the first and behind the last that is there."""
    hour = models.ServerHourRow.hour
    with reader() as session:
        low, high = session.execute(
            sa.select(sa.func.min(hour), sa.func.max(hour))
        ).one()
    if low is None:
        return first, first
    return max(first, low), min(last, high + 1)


def _select(
    columns: Sequence[Any],
    since: datetime.datetime,
    until: datetime.datetime,
    host: str | None,
    server: str | None,
) -> sa.Select[Any]:
    table = models.ServerHourRow
    query = (
        sa.select(
            *columns,
            sa.func.count(sa.distinct(table.hour)),
            *(sa.func.sum(getattr(table, name)) for name in _AMOUNTS),
        )
        .join(models.ServerRow, models.ServerRow.id == table.server_id)
        .join(models.HostRow, models.HostRow.id == table.host_id)
        .where(table.hour >= to_hour(since), table.hour < to_hour(until))
        .order_by(*columns)
    )
    if host is not None:
        query = query.where(models.HostRow.name == host)
    if server is not None:
        query = query.where(models.ServerRow.uuid == server)
    return query


def _plain(row: Sequence[Any]) -> list[Any]:
    """Return a row with the sums as whole numbers.

    MariaDB and PostgreSQL return sums of BIGINT as decimals.
    """
    uuid, host, *numbers = row
    return [uuid, host, *(None if n is None else int(n) for n in numbers)]

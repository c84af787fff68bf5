# SPDX-License-Identifier: Apache-2.0
"""The interface of the database: queries of programs, writes of conductors.

Values go in and out (:mod:`nova_rt.db.objects`), never rows of the ORM. What
the database itself raises is one of :data:`ERRORS`.
"""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt import exception
from nova_rt.db import models, reservations, session
from nova_rt.db.hosts import delete_host, reset_host
from nova_rt.db.objects import (
    HistoryEntry,
    HourUsage,
    ReportedHost,
    ReportedServer,
    Retention,
    Usage,
)
from nova_rt.db.reports import get_position, record_events, record_state
from nova_rt.db.retention import purge
from nova_rt.db.session import ERRORS, NO_DATABASE, configure, describe
from nova_rt.db.usage import (
    iterate_hours,
    list_usage,
    record_usage,
    to_hour,
)
from nova_rt.formats.reports import (
    HostCPU,
    Origin,
    ServerState,
)
from nova_rt.reservation import cpulist

__all__ = [
    'ERRORS',
    'NO_DATABASE',
    'HistoryEntry',
    'HourUsage',
    'ReportedHost',
    'ReportedServer',
    'Retention',
    'Usage',
    'configure',
    'delete_host',
    'describe',
    'get_history',
    'get_host',
    'get_position',
    'get_server',
    'iterate_hours',
    'list_hosts',
    'list_reports',
    'list_servers',
    'list_usage',
    'purge',
    'record_events',
    'record_state',
    'record_usage',
    'reset_host',
    'to_hour',
]


def list_hosts() -> list[ReportedHost]:
    """List the hosts that have reported, by name.

    :returns: each as it was last reported
    """
    return _read_hosts()


def list_reports() -> list[tuple[str, datetime.datetime]]:
    """List when each host has reported last.

    :returns: names and times
    """
    query = sa.select(
        models.HostRow.name, models.HostRow.last_report_at
    ).where(models.HostRow.last_report_at.is_not(None))
    with session.reader() as reader:
        return [(name, at) for name, at in reader.execute(query)]


def get_host(name: str) -> ReportedHost:
    """Look up one host.

    :returns: the host as it was last reported
    :raises HostNotFound: if it has not reported
    """
    for host in _read_hosts(name):
        return host
    raise exception.HostNotFound(f'host {name!r} has not reported')


def _read_hosts(name: str | None = None) -> list[ReportedHost]:
    hosts = sa.select(models.HostRow).where(
        models.HostRow.last_report_at.is_not(None)
    )
    cpus = sa.select(models.HostCPURow).order_by(models.HostCPURow.cpu)
    if name is not None:
        hosts = hosts.where(models.HostRow.name == name)
        cpus = cpus.join(
            models.HostRow, models.HostRow.id == models.HostCPURow.host_id
        ).where(models.HostRow.name == name)
    with session.reader() as reader:
        by_host: dict[int, dict[int, HostCPU]] = {}
        for cpu in reader.scalars(cpus):
            by_host.setdefault(cpu.host_id, {})[cpu.cpu] = HostCPU(
                cpu.capacity_ppm, cpu.reserved_ppm
            )
        return [
            _make_host(row, by_host.get(row.id, {}))
            for row in reader.scalars(hosts.order_by(models.HostRow.name))
        ]


def _make_host(row: models.HostRow, cpus: dict[int, HostCPU]) -> ReportedHost:
    assert row.last_report_at is not None
    return ReportedHost(
        name=row.name,
        interface=row.interface or '',
        enforcement=row.enforcement or '',
        scope=row.scope or '',
        cpus=cpus,
        host_ppm=row.host_ppm,
        host_reserved_ppm=row.host_reserved_ppm,
        epoch=row.epoch,
        last_report_at=row.last_report_at,
        repairs=row.repairs,
        refusals=row.refusals,
        lost_events=row.lost_events,
        version=row.version or '',
    )


def list_servers(
    host: str | None = None, include_released: bool = False
) -> list[ReportedServer]:
    """List what servers hold, by host and UUID.

    During a move a server holds bandwidth on two hosts and is listed twice.

    :param host: this host alone; none if it is not known
    :param include_released: also what servers held last
    :returns: one entry for each server and host
    """
    query = _servers().order_by(models.HostRow.name, models.ServerRow.uuid)
    if host is not None:
        query = query.where(models.HostRow.name == host)
    if not include_released:
        query = query.where(
            models.ReservationRow.state != ServerState.RELEASED
        )
    with session.reader() as reader:
        return [_make_server(*row) for row in reader.execute(query)]


def get_server(uuid: str) -> ReportedServer:
    """Look up what a server holds, or held last.

    :returns: of several hosts the one where it holds something, the latest
        first
    :raises ServerNotFound: if it never held anything, or was purged
    """
    with session.reader() as reader:
        rows = reader.execute(_servers().where(models.ServerRow.uuid == uuid))
        found = [_make_server(*row) for row in rows]
    if not found:
        raise exception.ServerNotFound(
            f'no reservation of server {uuid!r} was reported'
        )
    return max(found, key=lambda each: (each.state != 'released', each.since))


def _servers() -> sa.Select[tuple[models.ReservationRow, str, str]]:
    return (
        sa.select(
            models.ReservationRow, models.ServerRow.uuid, models.HostRow.name
        )
        .join(
            models.ServerRow,
            models.ServerRow.id == models.ReservationRow.server_id,
        )
        .join(
            models.HostRow, models.HostRow.id == models.ReservationRow.host_id
        )
    )


def _make_server(
    row: models.ReservationRow, uuid: str, host: str
) -> ReportedServer:
    return ReportedServer(
        uuid=uuid,
        host=host,
        specs=reservations.read_specs(row),
        ppm=row.ppm,
        vcpus=row.vcpus,
        cpus=cpulist.parse(row.cpus),
        state=row.state,
        since=row.since,
    )


def get_history(
    uuid: str, limit: int | None = None, marker: int | None = None
) -> list[HistoryEntry]:
    """Read what happened to a server's reservation, the latest first.

    :param limit: at most so many entries
    :param marker: ``id`` of the entry behind which to read on
    :returns: the entries, in the reverse order of their reports
    :raises ServerNotFound: if nothing was reported of it, or it was purged
    """
    query = (
        sa.select(models.HistoryRow, models.HostRow.name)
        .join(models.HostRow, models.HostRow.id == models.HistoryRow.host_id)
        .order_by(models.HistoryRow.id.desc())
        .limit(limit)
    )
    if marker is not None:
        query = query.where(models.HistoryRow.id < marker)
    with session.reader() as reader:
        number = _find_server(reader, uuid)
        if number is None:
            raise exception.ServerNotFound(
                f'nothing was reported of server {uuid!r}'
            )
        rows = reader.execute(
            query.where(models.HistoryRow.server_id == number)
        )
        return [
            HistoryEntry(
                row.id,
                row.at,
                host,
                row.kind,
                row.details,
                row.by,
                Origin(
                    row.request_id or '',
                    row.user_id or '',
                    row.project_id or '',
                ),
            )
            for row, host in rows
        ]


def _find_server(reader: orm.Session, uuid: str) -> int | None:
    return reader.scalar(
        sa.select(models.ServerRow.id).where(models.ServerRow.uuid == uuid)
    )

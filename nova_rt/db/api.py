# SPDX-License-Identifier: Apache-2.0
"""The interface of the database: queries of programs, writes of conductors.

Values go in and out (:mod:`nova_rt.db.objects`), never rows of the ORM. What
the database itself raises is one of :data:`ERRORS`.
"""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt import cpulist, exception
from nova_rt.db import models, reservations, session
from nova_rt.db.hosts import delete_host, reset_host
from nova_rt.db.objects import (
    HistoryEntry,
    Host,
    HourUsage,
    Retention,
    Server,
    Usage,
)
from nova_rt.db.reports import get_position, record_events, record_state
from nova_rt.db.retention import purge
from nova_rt.db.session import ERRORS, NO_DATABASE, configure
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

__all__ = [
    'ERRORS',
    'NO_DATABASE',
    'HistoryEntry',
    'Host',
    'HourUsage',
    'Retention',
    'Server',
    'Usage',
    'configure',
    'delete_host',
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


def list_hosts() -> list[Host]:
    """List the hosts that have reported, by name.

    :returns: each as it was last reported
    """
    return _read_hosts()


def list_reports() -> list[tuple[str, datetime.datetime]]:
    """List when each host has reported last.

    :returns: names and times
    """
    query = sa.select(models.Host.name, models.Host.last_report_at).where(
        models.Host.last_report_at.is_not(None)
    )
    with session.reader() as reader:
        return [(name, at) for name, at in reader.execute(query)]


def get_host(name: str) -> Host:
    """Look up one host.

    :returns: the host as it was last reported
    :raises HostNotFound: if it has not reported
    """
    for host in _read_hosts(name):
        return host
    raise exception.HostNotFound(f'host {name!r} has not reported')


def _read_hosts(name: str | None = None) -> list[Host]:
    hosts = sa.select(models.Host).where(
        models.Host.last_report_at.is_not(None)
    )
    cpus = sa.select(models.HostCPU).order_by(models.HostCPU.cpu)
    if name is not None:
        hosts = hosts.where(models.Host.name == name)
        cpus = cpus.join(
            models.Host, models.Host.id == models.HostCPU.host_id
        ).where(models.Host.name == name)
    with session.reader() as reader:
        by_host: dict[int, dict[int, HostCPU]] = {}
        for cpu in reader.scalars(cpus):
            by_host.setdefault(cpu.host_id, {})[cpu.cpu] = HostCPU(
                cpu.capacity_ppm, cpu.reserved_ppm
            )
        return [
            _make_host(row, by_host.get(row.id, {}))
            for row in reader.scalars(hosts.order_by(models.Host.name))
        ]


def _make_host(row: models.Host, cpus: dict[int, HostCPU]) -> Host:
    assert row.last_report_at is not None
    return Host(
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
) -> list[Server]:
    """List what servers hold, by host and UUID.

    During a move a server holds bandwidth on two hosts and is listed twice.

    :param host: this host alone; none if it is not known
    :param include_released: also what servers held last
    :returns: one entry for each server and host
    """
    query = _servers().order_by(models.Host.name, models.Server.uuid)
    if host is not None:
        query = query.where(models.Host.name == host)
    if not include_released:
        query = query.where(models.Reservation.state != ServerState.RELEASED)
    with session.reader() as reader:
        return [_make_server(*row) for row in reader.execute(query)]


def get_server(uuid: str) -> Server:
    """Look up what a server holds, or held last.

    :returns: of several hosts the one where it holds something, the latest
        first
    :raises ServerNotFound: if it never held anything, or was purged
    """
    with session.reader() as reader:
        rows = reader.execute(_servers().where(models.Server.uuid == uuid))
        found = [_make_server(*row) for row in rows]
    if not found:
        raise exception.ServerNotFound(
            f'no reservation of server {uuid!r} was reported'
        )
    return max(found, key=lambda each: (each.state != 'released', each.since))


def _servers() -> sa.Select[tuple[models.Reservation, str, str]]:
    return (
        sa.select(models.Reservation, models.Server.uuid, models.Host.name)
        .join(models.Server, models.Server.id == models.Reservation.server_id)
        .join(models.Host, models.Host.id == models.Reservation.host_id)
    )


def _make_server(row: models.Reservation, uuid: str, host: str) -> Server:
    return Server(
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
        sa.select(models.History, models.Host.name)
        .join(models.Host, models.Host.id == models.History.host_id)
        .order_by(models.History.id.desc())
        .limit(limit)
    )
    if marker is not None:
        query = query.where(models.History.id < marker)
    with session.reader() as reader:
        number = _find_server(reader, uuid)
        if number is None:
            raise exception.ServerNotFound(
                f'nothing was reported of server {uuid!r}'
            )
        rows = reader.execute(query.where(models.History.server_id == number))
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
        sa.select(models.Server.id).where(models.Server.uuid == uuid)
    )

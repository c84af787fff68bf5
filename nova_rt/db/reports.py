# SPDX-License-Identifier: Apache-2.0
"""Takes reports of computes into the database, in whatever order they come.

No clock has a say in what is newer. Each start of a compute service is an
epoch, higher than all before, and numbers its states and its events:

- A state counts if its epoch and number are above those of the last one.
- Events count in the order of their numbers. One that is there already does
  nothing; one behind a gap is left to be sent again. Those of an epoch that is
  over are history: they change no reservation.
- A state that lacks an event which is here already says how the host is, not
  what servers hold: the next one, a minute later, has it.

Each report is one transaction, which locks the row of its host first: two
conductors never work on the reports of one host at once.
"""

from collections.abc import Collection, Iterable, Sequence
import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt.db import hosts, models, reservations
from nova_rt.db.servers import find_servers
from nova_rt.db.session import reader, retried, writer
from nova_rt.formats.reports import (
    HeldReservation,
    HostState,
    NewEvent,
    Position,
    ServerState,
)
from nova_rt.reservation.record import Record

#: The author of the events that come from a compute service.
COMPUTE = 'nova-rt-compute'


def get_position(host: str, epoch: int) -> Position:
    """Look up what has come of a host's reports.

    :param epoch: the one whose events are asked for
    :returns: zeros if nothing has
    """
    with reader() as session:
        row = session.scalar(
            sa.select(models.HostRow).where(models.HostRow.name == host)
        )
        if row is None:
            return Position(0, 0)
        return Position(
            max(row.epoch, row.event_epoch),
            row.event_seq if row.event_epoch == epoch else 0,
        )


@retried
def record_state(host: str, state: HostState, now: datetime.datetime) -> bool:
    """Take the whole picture of a host.

    :param host: the host's name
    :param now: by the clock of the conductor
    :returns: whether it was news
    """
    with writer() as session:
        row = hosts.lock_host(session, host)
        if (state.epoch, state.seq) <= (row.epoch, row.state_seq):
            return False
        row.epoch, row.state_seq = state.epoch, state.seq
        row.state_event_seq = state.event_seq
        row.version = state.version
        row.interface = state.interface
        row.enforcement = state.enforcement
        row.scope = state.scope
        whole = state.host_cpu
        row.host_ppm = whole.capacity_ppm if whole else None
        row.host_reserved_ppm = whole.reserved_ppm if whole else None
        row.last_report_at = now
        _put_cpus(session, row.id, state)
        # Within an epoch: the events of another have other numbers.
        last = row.event_epoch, row.event_seq
        if (state.epoch, state.event_seq) >= last:
            _put_picture(session, row.id, state.servers, now)
        return True


def _put_cpus(session: orm.Session, host_id: int, state: HostState) -> None:
    rows = session.scalars(
        sa.select(models.HostCPURow).where(
            models.HostCPURow.host_id == host_id
        )
    )
    known = {row.cpu: row for row in rows}
    for cpu in known.keys() - state.cpus.keys():
        session.delete(known[cpu])
    for cpu, now in state.cpus.items():
        row = known.get(cpu)
        if row is None:
            row = models.HostCPURow(host_id=host_id, cpu=cpu)
            session.add(row)
        # Written only if they change.
        row.capacity_ppm = now.capacity_ppm
        row.reserved_ppm = now.reserved_ppm


def _put_picture(
    session: orm.Session,
    host_id: int,
    servers: Sequence[HeldReservation],
    now: datetime.datetime,
) -> None:
    """Make the reservations of a host those of a picture."""
    ids = find_servers(session, {held.uuid for held in servers})
    rows = _read_reservations(session, host_id, ids.values(), held=True)
    for held in servers:
        _put(
            session,
            rows.get(ids[held.uuid]),
            (ids[held.uuid], host_id),
            held.record,
            held.state,
            min(held.since, now),
        )
    here = {ids[held.uuid] for held in servers}
    for server_id, row in rows.items():
        if server_id not in here:
            _change_state(row, ServerState.RELEASED, now)


def _read_reservations(
    session: orm.Session,
    host_id: int,
    servers: Collection[int],
    held: bool = False,
) -> dict[int, models.ReservationRow]:
    """Read what these servers hold on a host, or held there last.

    :param held: also all others that hold something
    """
    table = models.ReservationRow
    these: sa.ColumnElement[bool] = table.server_id.in_(servers)
    if held:
        these |= table.state != ServerState.RELEASED
    query = sa.select(table).where(table.host_id == host_id, these)
    return {row.server_id: row for row in session.scalars(query)}


def _put(
    session: orm.Session,
    row: models.ReservationRow | None,
    key: tuple[int, int],
    record: Record,
    state: ServerState,
    since: datetime.datetime,
) -> models.ReservationRow:
    if row is None:
        row = models.ReservationRow(server_id=key[0], host_id=key[1])
        session.add(row)
    reservations.write(row, record)
    _change_state(row, state, since)
    return row


def _change_state(
    row: models.ReservationRow, state: ServerState, since: datetime.datetime
) -> None:
    if row.state != state:
        row.state = state.value
        row.since = since


@retried
def record_events(
    host: str,
    epoch: int,
    events: Collection[NewEvent],
    now: datetime.datetime,
    dropped_seq: int = 0,
) -> int:
    """Take events of a host.

    :param host: the host's name
    :param epoch: the start of the compute service that they come from
    :param now: by the clock of the conductor; no event is later
    :param dropped_seq: the host does not have events up to this one any more
    :returns: how many were news
    """
    with writer() as session:
        row = hosts.lock_host(session, host)
        if epoch > row.event_epoch:
            row.event_epoch, row.event_seq = epoch, 0
        current = epoch == row.event_epoch
        ordered = sorted(events, key=lambda each: each.seq)
        news = (
            _take_news(row, ordered, dropped_seq)
            if current
            else _find_missing(session, row.id, epoch, ordered)
        )
        if not news:
            return 0
        ids = find_servers(session, {each.uuid for each in news})
        session.execute(
            sa.insert(models.HistoryRow),
            [_make_entry(each, row.id, epoch, ids, now) for each in news],
        )
        row.repairs += sum(each.kind == 'repaired' for each in news)
        row.refusals += sum(each.kind == 'refused' for each in news)
        # What the last state has in it already.
        seen = row.state_event_seq if row.epoch == epoch else 0
        if current and epoch >= row.epoch:
            later = [each for each in news if each.seq > seen]
            _apply(session, row.id, ids, later, now)
        return len(news)


def _take_news(
    row: models.HostRow, ordered: Iterable[NewEvent], dropped_seq: int
) -> list[NewEvent]:
    """Choose the events that come next, without a gap."""
    if dropped_seq > row.event_seq:
        row.lost_events += dropped_seq - row.event_seq
        row.event_seq = dropped_seq
    news = []
    for each in ordered:
        if each.seq == row.event_seq + 1:
            news.append(each)
            row.event_seq = each.seq
    return news


def _find_missing(
    session: orm.Session, host_id: int, epoch: int, events: Iterable[NewEvent]
) -> list[NewEvent]:
    """Choose the events of an epoch that is over which are not there."""
    there = set(
        session.scalars(
            sa.select(models.HistoryRow.seq).where(
                models.HistoryRow.host_id == host_id,
                models.HistoryRow.epoch == epoch,
            )
        )
    )
    return [each for each in events if each.seq not in there]


def _make_entry(
    event: NewEvent,
    host_id: int,
    epoch: int,
    ids: dict[str, int],
    now: datetime.datetime,
) -> dict[str, object]:
    return {
        'server_id': ids[event.uuid],
        'host_id': host_id,
        'epoch': epoch,
        'seq': event.seq,
        'at': min(event.at, now),
        'received_at': now,
        'kind': event.kind,
        'details': event.details,
        'by': COMPUTE,
        **vars(event.origin),
    }


def _apply(
    session: orm.Session,
    host_id: int,
    ids: dict[str, int],
    events: Iterable[NewEvent],
    now: datetime.datetime,
) -> None:
    """Change the reservations as the events say, in their order."""
    rows = _read_reservations(session, host_id, ids.values())
    for event in events:
        if event.state is None:
            continue
        server_id = ids[event.uuid]
        row = rows.get(server_id)
        since = min(event.at, now)
        if event.record is not None:
            rows[server_id] = _put(
                session, row, (server_id, host_id), event.record, event.state,
                since,
            )  # fmt: skip
        elif row is not None and row.state != ServerState.RELEASED:
            _change_state(row, event.state, since)

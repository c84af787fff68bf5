# SPDX-License-Identifier: Apache-2.0
"""The desired state of servers whose reservation is being changed.

A row holds the last change of a server. Each statement that writes one names
the generation that it has read: of two writers, one changes nothing. A
conductor that works on a change puts off the time at which it is due, so that
another one takes over if the first one dies. That time is its lease: if the
row has another by now, the first one changes nothing more.
"""

from collections.abc import Collection
import dataclasses
import datetime
from typing import Any

import sqlalchemy as sa

from nova_rt import exception
from nova_rt.db import models, session
from nova_rt.db.session import retried
from nova_rt.formats.changes import Answer, Change, Condition, OnNoRoom
from nova_rt.formats.history import clean
from nova_rt.reservation.reservation import Reservation

_ROW = models.ChangeRow

#: Rows that are read at once.
_MOST = 1000
#: Rows that one transaction of a purge deletes.
_STEP = 2000
#: By which the clocks of those who ask and of conductors may differ, for a new
#: change to be due at once.
_SKEW = datetime.timedelta(days=1)


@retried
def ask(wanted: Change, known: int | None) -> Change:
    """Store the wish for a change.

    :param wanted: with a generation above those that the server has seen
    :param known: the generation that the caller has read; None if it has read
        none
    :returns: the change as it was stored
    :raises GenerationConflict: if somebody else has asked meanwhile
    :raises BeingMoved: if the server is being migrated for its last change,
        and nobody else would end that
    """
    found = get(wanted.server)
    present = 0 if found is None else found.generation
    if known is not None and known != present:
        raise exception.GenerationConflict(known, present)
    if found is not None and found.moved_after is not None and (
        found.answer.condition is Condition.IN_PROGRESS
    ):  # fmt: skip
        raise exception.BeingMoved
    asked = dataclasses.replace(
        wanted,
        generation=max(wanted.generation, present + 1),
        due_at=wanted.asked_at - _SKEW,
    )
    row = _render(asked) | {'due_at': asked.due_at}
    with session.writer() as writer:
        if found is None:
            table = _ROW.__table__
            assert isinstance(table, sa.Table)
            session.insert_once(writer, table, row, 'server')
            stored = writer.scalar(
                sa.select(_ROW.asked_at).where(_ROW.server == wanted.server)
            )
            changed = stored == wanted.asked_at
        else:
            still = _ROW.moved_after.is_(None) | (
                _ROW.state != Condition.IN_PROGRESS
            )
            changed = _update(writer, wanted.server, present, row, still)
    if not changed:
        raise exception.GenerationConflict(present, present + 1)
    # Not read again: others may have asked by now.
    return asked


def _update(
    writer: Any,
    server: str,
    generation: int,
    values: dict[str, Any],
    *others: Any,
) -> bool:
    return _execute(
        writer,
        sa.update(_ROW)
        .where(_ROW.server == server, _ROW.generation == generation, *others)
        .values(**values),
    )


def _update_leased(
    writer: Any, change: Change, values: dict[str, Any], *others: Any
) -> bool:
    """Update a change unless it has ended, or somebody else has taken it."""
    return _update(
        writer, change.server, change.generation, values,
        # Without a time, the second one alone would find those that ended.
        _ROW.due_at.is_not(None), _ROW.due_at == change.due_at,
        *others,
    )  # fmt: skip


def _execute(writer: Any, statement: sa.Update | sa.Delete) -> bool:
    """Change at most one row, without a look at objects of the session.

    :returns: whether there was one
    """
    found = writer.execute(
        statement, execution_options={'synchronize_session': False}
    )
    return bool(found.rowcount)


def get(server: str) -> Change | None:
    """Read the last change of a server.

    :returns: None if there was none, or it was purged
    """
    with session.reader() as reader:
        row = reader.get(_ROW, server)
        return None if row is None else _read(row)


def get_all(uuids: Collection[str]) -> dict[str, Change]:
    """Read the last changes of servers.

    :returns: by UUID, of those that have one
    """
    query = sa.select(_ROW).where(_ROW.server.in_(uuids))
    with session.reader() as reader:
        return {row.server: _read(row) for row in reader.scalars(query)}


def get_open() -> dict[str, Change]:
    """Read the changes that have not ended.

    :returns: by UUID of their servers
    """
    query = sa.select(_ROW).where(_ROW.due_at.is_not(None))
    with session.reader() as reader:
        return {row.server: _read(row) for row in reader.scalars(query)}


@retried
def take_due(
    now: datetime.datetime,
    lease: datetime.timedelta,
    freed: Collection[str] = (),
    busy: Collection[str] = (),
    most_hosts: int = _MOST,
) -> list[Change]:
    """Take the changes that are due, for this caller alone.

    :param lease: the time until another caller may take the same
    :param freed: hosts on which bandwidth came free: their deferred changes
        are due
    :param busy: hosts of which no change is taken
    :param most_hosts: so many hosts at most, those with the changes that have
        been due for the longest time
    :returns: the oldest first
    """
    due = _ROW.due_at <= now
    if freed:
        deferred = _ROW.state == Condition.DEFERRED
        due |= deferred & _ROW.host.in_(freed)
    query = (
        sa.select(_ROW)
        .where(due, _ROW.host.not_in(busy))
        # Not by their age: hosts that do not answer would come first for ever.
        .order_by(_ROW.due_at, _ROW.asked_at)
        .limit(_MOST)
    )
    taken = []
    hosts: set[str] = set()
    with session.writer() as writer:
        for row in list(writer.scalars(query)):
            if row.host not in hosts and len(hosts) >= most_hosts:
                continue
            hosts.add(row.host)
            change = _read(row)
            lease_it = (
                sa.update(_ROW)
                .where(_ROW.server == row.server, _ROW.due_at == row.due_at)
                .values(due_at=now + lease)
            )
            if _execute(writer, lease_it):
                taken.append(dataclasses.replace(change, due_at=now + lease))
    return sorted(taken, key=lambda each: each.asked_at)


@retried
def renew(change: Change, until: datetime.datetime) -> Change | None:
    """Take a change for longer.

    :param change: as it was taken
    :returns: as it is taken now; None if it has ended, there is a newer one,
        or somebody else has taken it
    """
    with session.writer() as writer:
        if not _update_leased(writer, change, {'due_at': until}):
            return None
    return dataclasses.replace(change, due_at=until)


@retried
def note(
    change: Change,
    answer: Answer,
    now: datetime.datetime,
    again: datetime.timedelta | None,
) -> bool:
    """Store the answer of a host, unless it comes too late.

    :param change: as it was taken
    :param again: the time after which to ask once more; None for never
    :returns: whether it was stored: there is no newer change, this one has not
        ended, and nobody else has taken it
    """
    # Before the first answer it only waits, such as for a conductor.
    same = change.answer.reason and (
        answer.condition == change.answer.condition
    )
    values = _render_answer(answer) | {
        'since': change.since if same else now,
        'due_at': None if again is None else now + again,
    }
    if not answer.host:
        del values['host']
    with session.writer() as writer:
        if answer.gone:
            # A server that is gone stays gone: no lease is asked for.
            gone = sa.delete(_ROW).where(
                _ROW.server == change.server,
                _ROW.generation == change.generation,
            )
            return _execute(writer, gone)
        return _update_leased(writer, change, values)


@retried
def note_move(change: Change, moved_after: str | None, moved_by: str) -> bool:
    """Store how far the move of a server for a change has come.

    :param change: as it was taken, with the move as it was stored last
    :returns: whether it was stored: the change is still the last one of the
        server, and nobody else has taken it or noted a move
    """
    values = {'moved_after': moved_after, 'moved_by': moved_by or None}
    with session.writer() as writer:
        return _update_leased(
            writer, change, values,
            _ROW.moved_after.is_not_distinct_from(change.moved_after),
            _ROW.moved_by.is_not_distinct_from(change.moved_by or None),
        )  # fmt: skip


@retried
def note_host(server: str, host: str) -> None:
    """Note the host on which a server was seen."""
    with session.writer() as writer:
        writer.execute(
            sa.update(_ROW)
            .where(_ROW.server == server, _ROW.host != host)
            .values(host=host)
        )


def find_oldest() -> dict[str, datetime.datetime]:
    """Find the oldest of the changes that have not ended.

    :returns: condition -> the time at which the oldest one has entered it
    """
    query = (
        sa.select(_ROW.state, sa.func.min(_ROW.since))
        .where(_ROW.due_at.is_not(None))
        .group_by(_ROW.state)
    )
    with session.reader() as reader:
        return {state: since for state, since in reader.execute(query)}


@retried
def purge(oldest: datetime.datetime) -> int:
    """Delete changes that have ended before a time, a few at a time.

    :returns: the number of deleted rows; 0 if none is left
    """
    query = (
        sa.select(_ROW.server)
        .where(_ROW.due_at.is_(None), _ROW.since < oldest)
        .limit(_STEP)
    )
    with session.writer() as writer:
        found = list(writer.scalars(query))
        if found:
            writer.execute(
                sa.delete(_ROW).where(
                    _ROW.server.in_(found), _ROW.due_at.is_(None)
                )
            )
        return len(found)


def _render(change: Change) -> dict[str, Any]:
    return _render_answer(change.answer) | {
        'server': change.server,
        'generation': change.generation,
        'runtime_us': change.desired.runtime_us,
        'period_us': change.desired.period_us,
        'flavor': change.flavor,
        'on_no_room': str(change.on_no_room),
        'host': change.host,
        'asked_at': change.asked_at,
        'since': change.since,
        'moved_after': change.moved_after,
        'moved_by': change.moved_by or None,
    }


def _render_answer(answer: Answer) -> dict[str, Any]:
    return {
        'host': answer.host,
        'state': str(answer.condition),
        'reason': clean(answer.reason),
        'asked_ppm': answer.asked_ppm,
        'free_ppm': answer.free_ppm,
        'rule': clean(answer.rule),
        'actual': answer.actual,
    }


def _read(row: models.ChangeRow) -> Change:
    return Change(
        row.server,
        row.generation,
        Reservation(row.runtime_us, row.period_us),
        row.flavor,
        OnNoRoom(row.on_no_room),
        row.host,
        row.asked_at,
        row.since,
        Answer(
            Condition(row.state), row.reason, row.asked_ppm, row.free_ppm,
            row.rule, row.host, row.actual,
        ),
        row.moved_after,
        row.moved_by or '',
        row.due_at,
    )  # fmt: skip

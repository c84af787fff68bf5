# SPDX-License-Identifier: Apache-2.0
"""The rows of hosts, each locked by whoever takes a report of it."""

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt import exception
from nova_rt.db import models
from nova_rt.db.session import retried, upsert, writer


def lock_host(session: orm.Session, name: str) -> models.HostRow:
    """Find or make the row of a host, ours until the transaction ends."""
    row = _lock_row(session, name)
    if row is None:
        table = models.HostRow.__table__
        assert isinstance(table, sa.Table)
        zeros = dict.fromkeys(
            (
                'epoch', 'state_seq', 'state_event_seq', 'event_epoch',
                'event_seq', 'repairs', 'refusals', 'lost_events',
            ),
            0,
        )  # fmt: skip
        upsert(session, table, [{'name': name, **zeros}], key=['name'])
        row = _lock_row(session, name)
        assert row is not None
    return row


@retried
def reset_host(name: str) -> None:
    """Take whatever a host reports next, however low its epoch is.

    :raises HostNotFound: if nothing of it is there
    """
    with writer() as session:
        row = _find_host(session, name)
        row.epoch = row.state_seq = row.state_event_seq = 0
        row.event_epoch = row.event_seq = 0


@retried
def delete_host(name: str) -> None:
    """Delete a host, with the history and the usage of its servers there.

    :raises HostNotFound: if nothing of it is there
    """
    with writer() as session:
        row = _find_host(session, name)
        session.execute(
            sa.delete(models.ServerHourRow).where(
                models.ServerHourRow.host_id == row.id
            )
        )
        session.delete(row)


def _find_host(session: orm.Session, name: str) -> models.HostRow:
    row = _lock_row(session, name)
    if row is None:
        raise exception.HostNotFound(f'nothing was reported of host {name!r}')
    return row


def _lock_row(session: orm.Session, name: str) -> models.HostRow | None:
    return session.scalar(
        sa.select(models.HostRow)
        .where(models.HostRow.name == name)
        .with_for_update()
    )

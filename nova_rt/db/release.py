# SPDX-License-Identifier: Apache-2.0
"""Releases what no compute service will report any more, for an operator."""

import datetime

import sqlalchemy as sa

from nova_rt.db import models
from nova_rt.db.session import retried, writer
from nova_rt.formats.reports import ServerState

#: Epoch of entries that come from no compute service.
_EPOCH = 0


@retried
def release(
    uuid: str, host: str, now: datetime.datetime, by: str, details: str
) -> bool:
    """Note that a server holds nothing on a host.

    A compute service that still runs says otherwise with its next report.

    :param now: the time
    :param by: who says so
    :param details: why, a sentence
    :returns: whether it held something there
    """
    with writer() as session:
        # As a report does: it is ours until the transaction ends.
        host_id = session.scalar(
            sa.select(models.HostRow.id)
            .where(models.HostRow.name == host)
            .with_for_update()
        )
        row = session.scalar(
            sa.select(models.ReservationRow)
            .join(
                models.ServerRow,
                models.ServerRow.id == models.ReservationRow.server_id,
            )
            .where(
                models.ServerRow.uuid == uuid,
                models.ReservationRow.host_id == host_id,
                models.ReservationRow.state != ServerState.RELEASED,
            )
        )
        if row is None or host_id is None:
            return False
        row.state = ServerState.RELEASED.value
        row.since = now
        last = session.scalar(
            sa.select(sa.func.max(models.HistoryRow.seq)).where(
                models.HistoryRow.host_id == host_id,
                models.HistoryRow.epoch == _EPOCH,
            )
        )
        session.add(
            models.HistoryRow(
                server_id=row.server_id,
                host_id=host_id,
                epoch=_EPOCH,
                seq=(last or 0) + 1,
                at=now,
                received_at=now,
                kind='released',
                details=details,
                by=by,
            )
        )
        return True

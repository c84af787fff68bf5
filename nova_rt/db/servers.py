# SPDX-License-Identifier: Apache-2.0
"""The rows of servers, to which all else refers by their numbers."""

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt.db import models
from nova_rt.db.session import CHUNK, upsert


def find_servers(
    session: orm.Session, uuids: Collection[str]
) -> dict[str, int]:
    """Find or make the rows of servers.

    :returns: UUID -> the server's number
    """
    found: dict[str, int] = {}
    # In order: two transactions that make the same rows do not lock each
    # other out.
    ordered = sorted(uuids)
    for start in range(0, len(ordered), CHUNK):
        chunk = ordered[start : start + CHUNK]
        found |= _read_ids(session, chunk)
        missing = [uuid for uuid in chunk if uuid not in found]
        if missing:
            table = models.ServerRow.__table__
            assert isinstance(table, sa.Table)
            rows = [{'uuid': uuid} for uuid in missing]
            upsert(session, table, rows, key=['uuid'])
            found |= _read_ids(session, missing, latest=True)
    return found


def _read_ids(
    session: orm.Session, uuids: Collection[str], latest: bool = False
) -> dict[str, int]:
    """Read the numbers of servers.

    :param latest: see rows that others made since this transaction began
    """
    query = sa.select(models.ServerRow.uuid, models.ServerRow.id).where(
        models.ServerRow.uuid.in_(uuids)
    )
    if latest:
        query = query.with_for_update(read=True)
    return {uuid: number for uuid, number in session.execute(query)}

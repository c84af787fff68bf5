# SPDX-License-Identifier: Apache-2.0
"""The progress of each job, and the lease of the conductor that does it."""

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt.db import models
from nova_rt.db.models import from_us
from nova_rt.db.session import upsert


def read_done(session: orm.Session, job: str) -> int:
    """Read until when all that a job makes is made.

    :returns: microseconds since 1970; 0 if nothing is
    """
    done = session.scalar(
        sa.select(models.Progress.done_us).where(models.Progress.job == job)
    )
    return done or 0


def lock_progress(session: orm.Session, job: str) -> models.Progress:
    """Find or make the row of a job, ours until the transaction ends.

    :returns: the row
    """
    query = (
        sa.select(models.Progress)
        .where(models.Progress.job == job)
        .with_for_update()
    )
    row = session.scalar(query)
    if row is None:
        new = {'job': job, 'done_us': 0, 'leased_until': from_us(0)}
        table = models.Progress.__table__
        assert isinstance(table, sa.Table)
        upsert(session, table, [new])
        row = session.scalar(query)
        assert row is not None
    return row

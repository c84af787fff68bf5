# SPDX-License-Identifier: Apache-2.0
"""Lets one of several conductors do what need not be done twice."""

import datetime

from nova_rt.db import models
from nova_rt.db.progress import lock_progress
from nova_rt.db.session import retried, writer


@retried
def take_lease(
    job: str, now: datetime.datetime, span: datetime.timedelta
) -> bool:
    """Take over a job, if it is nobody's.

    If clocks differ, or whoever had it was killed, a job may be done twice or
    late: it must bear that.

    :param span: how long to keep it, at most
    :returns: whether it is ours
    """
    with writer() as session:
        row = lock_progress(session, job)
        # One that lasts longer than any was taken with a wrong clock.
        if now < row.leased_until <= now + span:
            return False
        row.leased_until = now + span
        return True


@retried
def end_lease(job: str) -> None:
    """Leave a job to whoever wants it next."""
    with writer() as session:
        lock_progress(session, job).leased_until = models.from_us(0)

# SPDX-License-Identifier: Apache-2.0
"""Common code of the tests of samples."""

import sqlalchemy as sa

from nova_rt.db import session
from nova_rt.db.objects import Resolution
from nova_rt.tests.fixtures.reports import MINUTE, NOW

HOUR = 60 * MINUTE
DAY = 24 * HOUR
KEEP = {
    Resolution.RAW: 2 * DAY,
    Resolution.FIVE_MINUTES: 30 * DAY,
    Resolution.HOUR: 400 * DAY,
}
ALL = (NOW - 900 * DAY, NOW + 900 * DAY)


def count(model):
    """Count the rows of a table."""
    with session.reader() as reader:
        return reader.scalar(sa.select(sa.func.count()).select_from(model))

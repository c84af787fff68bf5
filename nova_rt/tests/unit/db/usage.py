# SPDX-License-Identifier: Apache-2.0
"""Common code of the tests of usage."""

import fixtures
import sqlalchemy as sa

from nova_rt.db import session
from nova_rt.tests.fixtures.reports import MINUTE, NOW

DAY = 24 * 60 * MINUTE
ALL = (NOW - 900 * DAY, NOW + 900 * DAY)


def count(model):
    """Count the rows of a table."""
    with session.reader() as reader:
        return reader.scalar(sa.select(sa.func.count()).select_from(model))


def trust_clock(test):
    """Have a test's purges take the time that they are told."""
    test.useFixture(
        fixtures.MonkeyPatch(
            'nova_rt.db.retention._choose_now', lambda now: now
        )
    )

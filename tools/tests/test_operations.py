# SPDX-License-Identifier: Apache-2.0
"""The manual's table of operations, and how it is made; needs no lab."""

import dataclasses
import unittest

from lab import operations
from lab.operations import NOTHING, Row, State
from lab.tests import test_operations

SMALL = State(
    'ACTIVE', 'A', '100000 on A', '100000 on A', '10000/100000 on 1 CPU',
    '10000/100000 on 1 CPU of A', 'kept',
)  # fmt: skip
MOVED = dataclasses.replace(SMALL, status='VERIFY_RESIZE', host='B')
STOP = Row(
    'Stop', 'done', SMALL, None,
    dataclasses.replace(SMALL, status='SHUTOFF', kernel='none'),
)  # fmt: skip
MIGRATE = Row('Migrate', 'done', SMALL, MOVED, SMALL)
DELETE = Row('Delete', 'done', SMALL, None, NOTHING)


class ManualTest(unittest.TestCase):
    """The committed rows and page."""

    def test_page_is_what_the_rows_render_to(self):
        rows = operations.load(operations.COMMITTED)
        self.assertEqual(
            operations.PAGE.read_text(),
            operations.render(rows),
            f'"{operations.COMMAND}" writes it',
        )
        self.assertEqual(
            operations.COMMITTED.read_text(), operations.dump(rows)
        )

    def test_each_operation_has_a_row(self):
        rows = operations.load(operations.COMMITTED)
        if rows:
            self.assertEqual(
                [*test_operations.NAMES], [row.operation for row in rows]
            )

    def test_rows_are_what_the_test_wants(self):
        """A table of a run that failed is not committed."""
        wanted = {
            step.name: step
            for case in test_operations.CASES
            for step in case.steps
        }
        for row in operations.load(operations.COMMITTED):
            step = wanted[row.operation]
            self.assertEqual(
                (step.outcome, step.during, step.after),
                (row.outcome, row.during, row.after),
                row.operation,
            )


def _sums(text):
    """Read amounts: host -> ppm."""
    found = {}
    for part in text.replace(' for the move', '').replace(';', ',').split(','):
        if part.strip() != 'none':
            amount, _, host = part.strip().partition(' on ')
            found[host] = found.get(host, 0) + int(amount)
    return found

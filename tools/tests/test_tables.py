# SPDX-License-Identifier: Apache-2.0
"""The manual's tables of operations and of faults; they need no lab."""

import json
import unittest

from lab import faults, operations
from lab.tests import test_operations


class FaultsTest(unittest.TestCase):
    """The committed figures and page of faults."""

    def test_page_is_what_the_figures_render_to(self):
        found = json.loads(faults.COMMITTED.read_text())
        self.assertEqual(
            faults.PAGE.read_text(),
            faults.render(found['machine'], found['tests']),
            f'"{faults.COMMAND}" writes it',
        )
        self.assertEqual([], faults.wrong(found['tests']))


class OperationsTest(unittest.TestCase):
    """The committed rows and page of operations."""

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

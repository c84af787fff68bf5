# SPDX-License-Identifier: Apache-2.0
"""The manual's table of operations, and how it is made; needs no lab."""

import contextlib
import dataclasses
import io
import pathlib
import tempfile
import unittest
from unittest import mock

from docutils import core, nodes

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


class WordsTest(unittest.TestCase):
    """Words that describe a state."""

    def test_amounts(self):
        for held, text in (
            ({}, 'none'),
            ({'A': 0}, 'none'),
            ({'B': 1, 'A': 2}, '2 on A, 1 on B'),
            ({'A': -1}, '-1 on A'),
        ):
            self.assertEqual(text, operations.amounts(held))

    def test_placed(self):
        for own, move, text in (
            ({'A': 1}, {}, '1 on A'),
            ({'A': 1}, {'A': 0}, '1 on A'),
            ({'B': 1}, {'A': 2}, '1 on B; 2 on A for the move'),
            ({}, {'A': 2}, 'none; 2 on A for the move'),
        ):
            self.assertEqual(text, operations.placed(own, move))

    def test_slots(self):
        self.assertEqual('none', operations.slots('none'))
        self.assertEqual(
            'x; old plain; new y',
            operations.slots('x', old='plain', new='y'),
        )

    def test_cpus(self):
        self.assertEqual(
            ['1/2 on no CPUs', '1/2 on 1 CPU', '1/2 on 2 CPUs'],
            [operations.on_cpus('1/2', number) for number in range(3)],
        )


class RowsTest(unittest.TestCase):
    """Rows are kept, added and compared."""

    def setUp(self):
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(directory) / 'new' / 'rows.json'

    def test_saved_rows_are_the_same(self):
        rows = [STOP, MIGRATE, DELETE]
        operations.save(self.path, rows)
        self.assertEqual(rows, operations.load(self.path))

    def test_no_file(self):
        self.assertEqual([], operations.load(self.path))

    def test_row_is_added_in_its_place(self):
        order = ('Stop', 'Migrate', 'Delete')
        self.assertEqual(
            [STOP, MIGRATE, DELETE],
            operations.add([STOP, DELETE], MIGRATE, order),
        )

    def test_row_replaces_one_of_its_name(self):
        again = dataclasses.replace(STOP, outcome='refused')
        gone = dataclasses.replace(STOP, operation='Gone')
        self.assertEqual(
            [again], operations.add([STOP, gone], again, ('Stop',))
        )

    def test_same_row(self):
        self.assertEqual([], operations.differences(MIGRATE, MIGRATE))

    def test_new_row(self):
        (told,) = operations.differences(None, STOP)
        self.assertIn('no row "Stop"', told)

    def test_each_field_is_compared(self):
        for field in dataclasses.fields(State):
            for name in ('before', 'during', 'after'):
                changed = dataclasses.replace(
                    MIGRATE,
                    **{
                        name: dataclasses.replace(
                            getattr(MIGRATE, name), **{field.name: 'other'}
                        )
                    },
                )
                (told,) = operations.differences(MIGRATE, changed)
                self.assertIn(f'{name}, {field.name}: ', told)
                self.assertIn('"other"', told)

    def test_outcome_and_states_are_compared(self):
        for change in ({'outcome': 'refused'}, {'during': None}):
            changed = dataclasses.replace(MIGRATE, **change)
            self.assertEqual(1, len(operations.differences(MIGRATE, changed)))
            self.assertEqual(1, len(operations.differences(changed, MIGRATE)))


class PageTest(unittest.TestCase):
    """The page."""

    @staticmethod
    def cells(rows):
        """Return the table as a reader of reStructuredText sees it."""
        # Without Sphinx nothing knows its roles.
        text = operations.render(rows).replace(':doc:', '')
        tree = core.publish_doctree(
            text, settings_overrides={'report_level': 2, 'halt_level': 2}
        )
        return [
            [entry.astext() for entry in row.findall(nodes.entry)]
            for row in tree.findall(nodes.row)
        ]

    def test_cells(self):
        head, stop, migrate, delete = self.cells([STOP, MIGRATE, DELETE])
        self.assertEqual(
            ['Operation', 'Outcome', 'Host', 'Placement', 'Record', 'Kernel',
             'Disk'],
            head,
        )  # fmt: skip
        self.assertEqual(
            ['Stop', 'done: ACTIVE -> SHUTOFF', 'A', '100000 on A',
             '10000/100000 on 1 CPU', '10000/100000 on 1 CPU of A -> none',
             'kept'],
            stop,
        )  # fmt: skip
        self.assertEqual('A -> B -> A', migrate[2])
        self.assertEqual('kept -> none', delete[-1])

    def test_no_rows(self):
        self.assertEqual([], self.cells([]))
        self.assertIn('No run', operations.render([]))

    def test_all_that_the_test_wants_is_a_table(self):
        rows = [
            Row(step.name, step.outcome, case.start, step.during, step.after)
            for case in test_operations.CASES
            for step in case.steps
        ]
        cells = self.cells(rows)
        self.assertEqual(1 + len(test_operations.NAMES), len(cells))
        self.assertEqual({7}, {len(row) for row in cells})

    def test_command(self):
        with tempfile.TemporaryDirectory() as directory:
            where = pathlib.Path(directory)
            places = {
                name: where / name for name in ('FOUND', 'COMMITTED', 'PAGE')
            }
            with mock.patch.multiple(operations, **places):
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    self.assertEqual(1, operations.main())
                self.assertIn('has no rows', said.getvalue())
                self.assertEqual([], [*where.iterdir()])
                operations.save(places['FOUND'], [STOP])
                with contextlib.redirect_stdout(io.StringIO()):
                    self.assertEqual(0, operations.main())
            self.assertEqual([STOP], operations.load(places['COMMITTED']))
            self.assertEqual(
                operations.render([STOP]), places['PAGE'].read_text()
            )


class WantedTest(unittest.TestCase):
    """Expectations of the test on the lab, before it ever runs."""

    def steps(self):
        for case in test_operations.CASES:
            for step in case.steps:
                yield case, step

    def test_names(self):
        names = test_operations.NAMES
        self.assertEqual(len(names), len({*names}))
        methods = sorted(
            name
            for name in dir(test_operations.OperationsTest)
            if name.startswith('test_')
        )
        self.assertEqual(len(test_operations.CASES), len(methods))
        # A host dies in it.
        self.assertIn('evacuate', methods[-1])

    def test_methods_are_there(self):
        for _, step in self.steps():
            for each in (step.do, step.end):
                if each is not None:
                    self.assertTrue(
                        callable(
                            getattr(
                                test_operations.OperationsTest, each.method
                            )
                        ),
                        step.name,
                    )
            self.assertEqual(step.end is None, step.during is None)

    def test_requests_are_known_to_the_sdk(self):
        from openstack.compute.v2 import _proxy

        for _, step in self.steps():
            for each in (step.do, step.end):
                if each is not None and each.method == 'ask':
                    self.assertTrue(
                        callable(getattr(_proxy.Proxy, each.arguments[0]))
                    )

    def test_placement_and_claims_are_the_same(self):
        """Equality of what allocations hold and trackers claim, by host."""
        for _, step in self.steps():
            for state in (step.during, step.after):
                if state is None:
                    continue
                self.assertEqual(
                    _sums(state.placement), _sums(state.claims), step.name
                )

    def test_refusals_change_nothing(self):
        found = [
            (case.start, step.after)
            for case, step in self.steps()
            if step.outcome == test_operations.LATER and case.flavor
        ]
        self.assertEqual(4, len(found))
        for before, after in found:
            self.assertEqual(before, after)

    def test_reverted_is_as_before(self):
        for case, step in self.steps():
            if step.name.endswith('reverted'):
                self.assertEqual(case.start, step.after)


def _sums(text):
    """Read amounts: host -> ppm."""
    found = {}
    for part in text.replace(' for the move', '').replace(';', ',').split(','):
        if part.strip() != 'none':
            amount, _, host = part.strip().partition(' on ')
            found[host] = found.get(host, 0) + int(amount)
    return found

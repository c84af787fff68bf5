# SPDX-License-Identifier: Apache-2.0
"""tools/check.py: what it says of what did not run."""

import contextlib
import importlib.util
import io
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

from lab import paths


def _load():
    spec = importlib.util.spec_from_file_location(
        'nova_rt_check', paths.CHECKOUT / 'tools' / 'check.py'
    )
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check = _load()


class MissingSourceTest(unittest.TestCase):
    """A part whose first step ends with EX_UNAVAILABLE."""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        self.marker = self.top / 'went-on'

    def _run(self, code, without='no source'):
        steps = [
            check.Step(['sh', '-c', f'exit {code}'], without=without),
            check.Step(['touch', str(self.marker)]),
        ]
        parts = {
            'style': check.Part('x', 60, [check.Step(['true'])]),
            'kernel': check.Part('x', 60, steps),
        }
        output = io.StringIO()
        with (
            mock.patch.object(check, 'PARTS', parts),
            mock.patch.object(check, 'LOGS', self.top),
            mock.patch.object(
                check, 'beside_the_checkout', return_value=self.top
            ),
            mock.patch.object(
                check, 'with_the_lab', side_effect=lambda _names: [*parts]
            ),
            contextlib.redirect_stdout(output),
        ):
            result = check.main([])
        return result, output.getvalue().splitlines()

    def test_table_and_last_line_say_so(self):
        _, lines = self._run(69)
        self.assertFalse(self.marker.exists())
        self.assertEqual(
            '1 passed, 0 failed, 1 skipped; kernel: skipped, no source',
            lines[-1],
        )
        row = next(line for line in lines if line.startswith('kernel '))
        self.assertRegex(row, r'^kernel +skipped +\d+ s  no source$')
        self.assertNotIn('pass', row)

    def test_a_failure_to_fetch_is_no_skip(self):
        result, lines = self._run(1)
        self.assertEqual(1, result)
        self.assertEqual('1 passed, 1 failed, 0 skipped', lines[-1])

    def test_only_where_a_step_may_be_missing(self):
        result, lines = self._run(69, without='')
        self.assertEqual(1, result)
        self.assertEqual('1 passed, 1 failed, 0 skipped', lines[-1])

    def test_passed(self):
        result, lines = self._run(0)
        self.assertEqual(0, result)
        self.assertTrue(self.marker.exists())
        self.assertEqual('2 passed, 0 failed, 0 skipped', lines[-1])

    def test_fetching_is_what_may_be_missing(self):
        first = check.PARTS['kernel'].steps[0]
        self.assertEqual(
            (['kernel/scripts/fetch.sh'], 'no source'),
            (first.command, first.without),
        )


class WithTheLabTest(unittest.TestCase):
    """What becomes of the lab before and after the parts."""

    def _parts(self, names, down):
        with mock.patch.object(check, 'lab_is_down', return_value=down):
            return check.with_the_lab(names)

    def test_all(self):
        # A lab whose processes died has left its database, with servers in it.
        for down in (True, False):
            self.assertEqual(['lab-down', *check.PARTS], self._parts([], down))

    def test_some_on_a_machine_without_a_lab(self):
        self.assertEqual(
            ['lab-down', 'unit', 'e2e', 'lab-down'],
            self._parts(['unit', 'e2e'], True),
        )
        self.assertEqual(['unit'], self._parts(['unit'], True))

    def test_some_on_the_lab_that_is_there(self):
        self.assertEqual(['e2e'], self._parts(['e2e'], False))

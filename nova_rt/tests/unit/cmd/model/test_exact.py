# SPDX-License-Identifier: Apache-2.0
"""Tests of plan --exact."""

import json
import os
import subprocess
import sys
from unittest import mock

from nova_rt.model import exact
from nova_rt.tests.unit.cmd.model import base, test_program
from nova_rt.tests.unit.model.test_exact import unsolved

FILE = """
hosts: [{cpus: 4, count: 2}]
services:
- {reservation: 600/1000, count: 4}
- {reservation: 450/1000, vcpus: 2, count: 4}
- {reservation: 350/1000, count: 3}
- {reservation: 333/1000, vcpus: 3, count: 3}
"""


class PlanTest(base.TestCase):
    def plan(self, *words, code=1):
        result = self.run_it(
            f'plan --exact --time-limit 50min -c Bandwidth -c Optimum '
            f'-c "No plan exceeds" {" ".join(words)}',
            self.write('x.yaml', FILE),
        )
        self.assertEqual((code, ''), (result.code, result.err))
        return result

    def test_found(self):
        said = self.plan('-f', 'json').data
        found = said['Optimum']
        self.assertIs(True, found['Found'])
        self.assertEqual(found['At most'], found['Bandwidth'])
        self.assertLessEqual(said['Bandwidth'], found['Bandwidth'])
        self.assertLess(found['Bandwidth'], said['No plan exceeds'])
        self.assertAlmostEqual(
            said['Bandwidth'] / found['Bandwidth'], found['Plan']
        )
        text = self.plan().out
        self.assertIn(f'{found["Bandwidth"]:.3f} CPUs; the plan has', text)

    def test_one_heuristic(self):
        """A bad one is compared with the same optimum."""
        said = self.plan('--placement worst_fit --keep-order -f json').data
        best = self.plan('-f', 'json').data
        self.assertEqual(
            best['Optimum']['Bandwidth'], said['Optimum']['Bandwidth']
        )
        self.assertLess(said['Optimum']['Plan'], best['Optimum']['Plan'])

    def test_not_found(self):
        with mock.patch.object(exact, '_run', unsolved):
            said = self.plan('-f', 'json').data
            text = self.plan().out
        found = said['Optimum']
        self.assertIs(False, found['Found'])
        self.assertEqual(said['Bandwidth'], found['Bandwidth'])
        self.assertEqual(said['No plan exceeds'], found['At most'])
        self.assertIn('not found in 3000 s: 7.349 to 7.600 CPUs;', text)
        self.assertIn('the plan has at least 0.966 of it', text)
        self.assertLess(max(map(len, text.splitlines())), 80)

    def test_a_bound_that_is_wrong(self):
        """Nobody is told that a plan is better than the best one."""
        with mock.patch.object(
            exact, 'solve', return_value=exact.Optimum((), 1)
        ):
            said = self.plan('-f', 'json').data
        self.assertIs(False, said['Optimum']['Found'])
        self.assertEqual(said['No plan exceeds'], said['Optimum']['At most'])

    def test_nothing_else_is_printed(self):
        """The solver prints to the process's own standard output."""
        path = self.write('x.yaml', FILE)
        result = subprocess.run(
            [sys.executable, '-m', 'nova_rt.cmd.model.app', 'plan', '--exact',
             '-f', 'json', path],
            env={**os.environ, 'PYTHONPATH': test_program.ProgramTest.path()},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual((1, ''), (result.returncode, result.stderr))
        self.assertIn('Optimum', json.loads(result.stdout))

    def test_refused(self):
        path = self.write('x.yaml', FILE)
        self.assert_refused('is for --exact', 'plan --time-limit 1s', path)
        self.assert_refused(
            'at most 60min', 'plan --exact --time-limit 61min', path
        )
        large = self.write(
            'y.yaml',
            'hosts: [{cpus: 1000, count: 10}]\nservices:\n'
            + ''.join(f'- {{reservation: {n}/1000}}\n' for n in range(2, 8)),
        )
        self.assert_refused('for small plans', 'plan --exact', large)
        with mock.patch.dict(sys.modules, {'highspy': None}):
            self.assert_refused('nova_rt[exact]', 'plan --exact', path)
            said = self.run_it('plan -f json', path)
        self.assertEqual(1, said.code)
        self.assertNotIn('Optimum', said.data)

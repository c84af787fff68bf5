# SPDX-License-Identifier: Apache-2.0
"""Tests of what is read from the log of HCBS-Test-Suite."""

import pathlib
import subprocess
import tempfile
import unittest

import suite

LOG = """\
| [time] nobody: Success
SUITE setup.mount tools mount-cgroup-cpu
SUITE setup.root tools cgroup-setup -r 900
| Error: Error in writing file x/cpu.rt_runtime_us: Invalid argument
SUITE constraints.all constraints_cgroup_setup
| [constraints] runtime_too_small: Success ✔
| [constraints] runtime_gt_period: Failure ✖
|     Reason: did not fail
SUITE one-cpu time uni -r 40
| [time] one-cpu: Skipped ⛒
|     Reason: CPU 3 is unavailable
SUITE dead regression deadline
""".splitlines()
ROOT = {'setup.root': ('Invalid argument', 'why')}


class SuiteTest(unittest.TestCase):
    def setUp(self):
        self.results = suite.parse(LOG)

    def test_parse(self):
        self.assertEqual(
            {
                'setup.mount': 'passed',
                'setup.root': 'failed',
                'constraints.runtime_too_small': 'passed',
                'constraints.runtime_gt_period': 'failed',
                'one-cpu': 'skipped',
                'dead': 'nothing',
            },
            {test: result.verdict for test, result in self.results.items()},
        )
        self.assertEqual(
            'did not fail',
            self.results['constraints.runtime_gt_period'].reason,
        )

    def test_explain(self):
        bad = suite.explain(self.results, ROOT)
        self.assertEqual({'constraints.runtime_gt_period', 'dead'}, {*bad})

    def test_another_reason(self):
        bad = suite.explain(self.results, {'setup.root': ('Busy', 'why')})
        self.assertIn('another reason', bad['setup.root'])

    def test_passes_unexpectedly(self):
        passed = {'setup.root': suite.Result('passed')}
        self.assertIn('setup.root', suite.explain(passed, ROOT))

    def test_missing(self):
        self.assertIn('did not run', suite.explain({}, ROOT)['setup.root'])

    def test_no_suite(self):
        """It never looks like a pass."""
        with tempfile.TemporaryDirectory() as empty:
            for place in ('', empty):
                done = subprocess.run(
                    [suite.SCRIPTS / 'suite.py'],
                    env={'PATH': '/usr/bin:/bin', 'HCBS_SUITE': place},
                    check=False,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                self.assertEqual(suite.NO_SUITE, done.returncode)
                self.assertIn('skipped', done.stdout)

    def test_guest_runs_all_programs(self):
        text = pathlib.Path(suite.KERNEL, 'tests/tools/suite.sh').read_text()
        for program in suite.PROGRAMS:
            self.assertIn(f' {program}', text)


if __name__ == '__main__':
    unittest.main()

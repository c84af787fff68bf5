# SPDX-License-Identifier: Apache-2.0
"""Tests of what check.py reads in a log."""

import unittest

import check

SUM = (
    'ok   SUM supply oooo: sets 2 reservations 3 periods 90 short 0 over 1 '
    'broken 0 worst 0.9812 of Q'
)
DONE = 'DONE supply failures 0 at 16623 ms'


class Judge(unittest.TestCase):
    def test_passed(self):
        outcome = check.judge(['ok   the scheduler is loaded', SUM, DONE])
        self.assertEqual(2, outcome.checks)
        self.assertEqual([SUM], outcome.sums)
        self.assertEqual([], outcome.reasons)

    def test_a_failed_check(self):
        lines = ['FAIL a', 'DONE supply failures 1 at 1 ms']
        self.assertEqual(['FAIL a'], check.judge(lines).reasons)

    def test_failures_without_a_line(self):
        lines = ['ok   a', 'DONE supply failures 1 at 1 ms']
        self.assertEqual(lines[1:], check.judge(lines).reasons)

    def test_no_end(self):
        self.assertIn('exit code 124', check.judge(['ok   a'], 124).reasons[0])

    def test_complaint(self):
        line = '[    1.0] WARNING: CPU: 0 PID: 1 at kernel/sched/ext.c:1'
        self.assertEqual([line], check.judge([line, DONE]).reasons)

    def test_stress(self):
        line = '[    1.0] WARNING: CPU: 0 PID: 1 at kernel/sched/ext.c:1'
        self.assertEqual(
            'STRESS seed 1 ejects 0, complaints 1',
            check.judge(['ok   STRESS seed 1 ejects 0', line, DONE]).stress,
        )

    def test_row(self):
        self.assertEqual(
            ['supply', 'oooo', '2', '3', '90', '0', '1', '0', '0.9812'],
            check.row(SUM).split(),
        )


if __name__ == '__main__':
    unittest.main()

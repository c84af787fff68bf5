# SPDX-License-Identifier: Apache-2.0
"""Tests of the lists of runs and of comparisons."""

import unittest

import check

NAMED = sorted({run.group for run in check.RUNS if run.when == 'named'})
CALLS = ((False, []), (True, []), (True, NAMED))


class CheckTest(unittest.TestCase):
    """The runs of ``check``, of ``check-full``, and of its named groups."""

    def test_logs_are_unique(self) -> None:
        for call in CALLS:
            logs = [run.log for run in check.selected(*call)]
            self.assertEqual(sorted(set(logs)), sorted(logs))

    def test_several_cpus_go_first(self) -> None:
        slots = [run.slots for run in check.selected(True, [])]
        self.assertEqual(sorted(slots, reverse=True), slots)

    def test_groups_that_are_named_only(self) -> None:
        self.assertEqual(['endurance', 'preempt-rt', 'races'], NAMED)
        groups = {run.group for run in check.selected(True, [])}
        self.assertFalse(groups.intersection(NAMED))

    def test_preempt_rt_repeats_runs(self) -> None:
        runs = check.selected(True, ['preempt-rt'])
        self.assertEqual(
            [f'rt-{log}' for log in check.PREEMPT_RT],
            [run.log for run in runs],
        )
        self.assertEqual({'rt'}, {run.kernel for run in runs})

    def test_comparisons_have_their_logs(self) -> None:
        logs = {run.log for run in check.selected(True, [])}
        for comparison in check.COMPARISONS:
            self.assertLessEqual(set(comparison.logs), logs, comparison.name)

    def test_kernels_are_known(self) -> None:
        kernels = {run.kernel for run in check.RUNS} - {None}
        self.assertEqual(set(check.KERNELS), kernels)


if __name__ == '__main__':
    unittest.main()

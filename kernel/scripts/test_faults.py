# SPDX-License-Identifier: Apache-2.0
"""Tests of the list of faults."""

import unittest

import check
import faults


class FaultsTest(unittest.TestCase):
    """The files of tests/faults/, and the table."""

    def test_each_has_a_group_that_runs(self) -> None:
        found = faults.faults()
        self.assertGreater(len(found), 10)
        for fault in found:
            with self.subTest(fault=fault.name):
                self.assertTrue(fault.breaks)
                self.assertTrue(faults.runs_of(fault.group))

    def test_runs_take_the_faulty_kernel_only(self) -> None:
        groups = {run.group for run in check.RUNS}
        for group in groups:
            for run in faults.runs_of(group):
                self.assertEqual('hcbs', run.kernel)
                self.assertNotEqual('full', run.when)

    def test_summary(self) -> None:
        fault = faults.Fault('no-x', 'There is no x.', 'supply')
        caught = faults.Verdict(fault, True, 3, 'supply: FAIL 3 g0')
        alive = faults.Verdict(fault, False, 3, '-')
        self.assertEqual('1 faults: all caught', faults.summary([caught])[-1])
        self.assertEqual(
            '2 faults: 1 SURVIVED', faults.summary([caught, alive])[-1]
        )


if __name__ == '__main__':
    unittest.main()

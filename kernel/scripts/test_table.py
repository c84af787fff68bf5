# SPDX-License-Identifier: Apache-2.0
"""Tests of the tables: python3 -m unittest discover -s kernel/scripts."""

import unittest

import table

GOOD = (
    'ok     3 g0  3000  10000 10 fc     40 2994.300 2996.600 0 0 7005 -17 kept'
)
SHORT = (
    '----   3 g0  3000  10000 10 fc     39 0.000 3.000 39 0 0 -999992 broken'
)
DEADLINE = '----   3 dl  1000  20000  0 dfc    20 900.000 990.000 20 0 1 0 -'
DONE = 'DONE supply failures 0'


class SupplyTest(unittest.TestCase):
    """Verdicts of the supply table."""

    def verdict(self, without: list[str], with_: list[str]) -> bool:
        """The verdict, which the last line has to show as well."""
        out, ok = table.supply(without, with_)
        self.assertEqual(f'verdict: {"passed" if ok else "FAILED"}', out[-1])
        return ok

    def test_good(self) -> None:
        self.assertTrue(self.verdict([SHORT, DONE], [GOOD, DEADLINE, DONE]))

    def test_broken(self) -> None:
        for row in (
            GOOD.replace('kept', 'broken'),
            GOOD.replace('ok  ', 'FAIL'),
            GOOD.replace('ok  ', 'FAIL').replace('kept', 'broken'),
        ):
            self.assertFalse(self.verdict([SHORT, DONE], [row, DONE]))
            self.assertFalse(self.verdict([SHORT, DONE], [GOOD, row, DONE]))

    def test_what_is_out_of_bounds_is_marked(self) -> None:
        row = GOOD.replace('kept', 'broken')
        out, _ = table.supply([SHORT, DONE], [row, DONE])
        self.assertTrue(out[1].endswith(' <--'), out[1])
        out, _ = table.supply([SHORT, DONE], [GOOD, DONE])
        self.assertFalse(out[1].endswith(' <--'), out[1])

    def test_unfinished(self) -> None:
        self.assertFalse(self.verdict([SHORT], [GOOD, DONE]))
        self.assertFalse(self.verdict([SHORT, DONE], [GOOD]))
        self.assertFalse(self.verdict([SHORT, DONE], [DONE]))

    def test_control_that_shows_nothing(self) -> None:
        self.assertFalse(self.verdict([GOOD, DONE], [GOOD, DONE]))

    def test_a_case_that_did_not_run(self) -> None:
        failed = 'FAIL   4 g0 refused: Device or resource busy'
        self.assertFalse(self.verdict([SHORT, DONE], [GOOD, failed, DONE]))
        refused = '----   3 g0 refused: Invalid argument'
        out, ok = table.supply([SHORT, refused, DONE], [GOOD, DONE])
        self.assertTrue(ok)
        out, ok = table.supply([refused, DONE], [GOOD, DONE])
        self.assertFalse(ok)
        self.assertIn('did not run', out[1])


class ValuesTest(unittest.TestCase):
    """Verdicts of ratios."""

    def verdict(self, name: str, was: float, now: float) -> bool:
        """The verdict on a value before and after."""
        return table.values([f'value {name} {was}'], [f'value {name} {now}'])[
            1
        ]

    def test_less_is_better(self) -> None:
        self.assertTrue(self.verdict('wakeup_mean_ns', 1000, 1050))
        self.assertTrue(self.verdict('wakeup_mean_ns', 1000, 10))
        self.assertFalse(self.verdict('wakeup_mean_ns', 1000, 1051))

    def test_more_is_better(self) -> None:
        self.assertTrue(self.verdict('pipe_fifo', 1000, 970))
        self.assertTrue(self.verdict('pipe_fifo', 1000, 9700))
        self.assertFalse(self.verdict('pipe_fifo', 1000, 969))

    def test_wakeups_of_several_cpus(self) -> None:
        log = ['value wakeup_mean_ns 1', 'value pipe_fifo 1000']
        late = ['value wakeup_mean_ns 9', log[1]]
        self.assertTrue(table.shares(log, late)[1])
        self.assertFalse(table.values(log, late)[1])
        self.assertFalse(table.shares(log, [log[0], 'value pipe_fifo 9'])[1])

    def test_without_a_bound(self) -> None:
        self.assertTrue(self.verdict('other', 1000, 1))

    def test_missing(self) -> None:
        self.assertFalse(table.values(['value a 1'], [])[1])
        self.assertFalse(table.values([], ['value a 1'])[1])
        self.assertFalse(table.values([], [])[1])


class SelftestsTest(unittest.TestCase):
    """Verdicts of the selftests."""

    def verdict(self, without: list[str], with_: list[str]) -> bool:
        """The verdict on two lists of "<name> <result>"."""
        old, new = ([f'self {text}' for text in t] for t in (without, with_))
        return table.selftests(old, new)[1]

    def test_same(self) -> None:
        both = ['a pass', 'b fail', 'c skip']
        self.assertTrue(self.verdict(both, both))

    def test_worse(self) -> None:
        self.assertFalse(
            self.verdict(['a pass', 'b pass'], ['a pass', 'b fail'])
        )
        self.assertFalse(
            self.verdict(['a pass', 'b pass'], ['a pass', 'b skip'])
        )
        self.assertFalse(self.verdict(['a pass', 'b pass'], ['a pass']))

    def test_better(self) -> None:
        self.assertTrue(self.verdict(['a fail'], ['a pass']))

    def test_nothing_ran(self) -> None:
        self.assertFalse(self.verdict([], []))
        self.assertFalse(self.verdict(['a skip'], ['a skip']))


if __name__ == '__main__':
    unittest.main()

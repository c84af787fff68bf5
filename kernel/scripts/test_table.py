# SPDX-License-Identifier: Apache-2.0
"""Tests of the tables: python3 -m unittest discover -s kernel/scripts."""

import unittest

import table

ROW = '{} {:>3} {} {:>5} {:>6} 10 {:<4} {:>4} {:.3f} {:.3f} {} {} {} {}'
GOOD = ROW.format(
    'ok  ', 3, 'g0', 3000, 10000, 'fc', 40, 2994.3, 2996.6, 0, 0, 7005, -17
)
SHORT = ROW.format(
    '----', 3, 'g0', 3000, 10000, 'fc', 39, 0.0, 3.0, 39, 0, 0, -999992
)
DEADLINE = ROW.format(
    '----', 3, 'dl', 1000, 20000, 'd', 20, 900.0, 990.0, 20, 0, 1, 0
)
DONE = 'DONE supply failures 0'


class SupplyTest(unittest.TestCase):
    """Verdicts of the supply table."""

    def verdict(self, without: list[str], with_: list[str]) -> bool:
        """The verdict, which the last line has to say as well."""
        out, ok = table.supply(without, with_)
        self.assertEqual(f'verdict: {"passed" if ok else "FAILED"}', out[-1])
        return ok

    def bad(self, **changes: object) -> bool:
        """The verdict on a row that differs from the good one."""
        words = {
            'mark': 'ok  ',
            'periods': 40,
            'least': 2994.3,
            'short': 0,
            'gap': 7005,
            'ppm': -17,
        }
        words.update(changes)
        row = ROW.format(
            words['mark'],
            3,
            'g0',
            3000,
            10000,
            'fc',
            words['periods'],
            words['least'],
            2996.6,
            words['short'],
            0,
            words['gap'],
            words['ppm'],
        )
        return self.verdict([SHORT, DONE], [row, DONE])

    def test_good(self) -> None:
        self.assertTrue(self.verdict([SHORT, DONE], [GOOD, DEADLINE, DONE]))

    def test_bounds(self) -> None:
        self.assertTrue(self.bad())
        self.assertTrue(self.bad(least=2955.0, gap=14015, ppm=999))
        self.assertFalse(self.bad(least=2954.9))
        self.assertFalse(self.bad(short=1))
        self.assertFalse(self.bad(gap=14016))
        self.assertFalse(self.bad(ppm=1000))
        self.assertFalse(self.bad(ppm=-1000))
        self.assertFalse(self.bad(periods=0))
        self.assertFalse(self.bad(mark='FAIL'))

    def test_often_interrupted(self) -> None:
        form = 'ok     3 {} {:>5} {:>6} 10 f 40 {} 99.0 0 0 400 0'
        long = form.format('g0', 3000, 10000, 2926.0)
        one = form.format('g1', 100, 500, 90.0)
        two = form.format('g2', 100, 500, 90.0)
        self.assertFalse(self.verdict([SHORT, DONE], [long, one, DONE]))
        self.assertTrue(self.verdict([SHORT, DONE], [long, one, two, DONE]))
        self.assertFalse(
            self.verdict(
                [SHORT, DONE], [long.replace('2926', '2924'), one, two, DONE]
            )
        )

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

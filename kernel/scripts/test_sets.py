# SPDX-License-Identifier: Apache-2.0
"""Tests of the verdict on random sets of reservations."""

import unittest

import cbs
import sets

MS = 1_000_000
# A always wants the CPU and has 3 of 10 ms; B sleeps until 15 ms.
LOG = """TEST sets:7,1
set 7 30000000 -
server group a 3000 10000
server task s 2000 20000
task A 0
task B 1
ev -1000000c-. 1000000wA 1000WA 1000.+A 3002000A+. 6999000.+A
ev 3001000A+. 1998000wB 1000WB 1000.+B 1500000B-. 3498000.+A
ev 3001000A+. 7000000.+A
end 14
DONE sets failures 0
""".splitlines()


class ReadTest(unittest.TestCase):
    """What the guest prints."""

    def test_read(self) -> None:
        (one,) = sets.read(LOG)
        self.assertEqual((7, 30 * MS, '-'), (one.seed, one.length, one.beside))
        self.assertEqual(
            [
                cbs.Server(False, 'a', 3 * MS, 10 * MS),
                cbs.Server(True, 's', 2 * MS, 20 * MS),
            ],
            one.servers,
        )
        self.assertEqual({'A': 0, 'B': 1}, one.tasks)
        self.assertEqual((-MS, 's', 'c', True, '.'), one.events[0])
        self.assertEqual((0, 'w', 'A', False, ''), one.events[1])
        self.assertEqual((2000, 's', '.', False, 'A'), one.events[3])
        self.assertTrue(one.complete)

    def test_not_an_event(self) -> None:
        out, ok = sets.report([line.replace('1000WA', 'x') for line in LOG])
        self.assertFalse(ok)
        self.assertIn("not an event: 'x'", out)


class VerdictTest(unittest.TestCase):
    """Whether a log passes."""

    def verdict(self, old: str, new: str) -> str:
        """The table of the log with a change; it has to fail."""
        text = '\n'.join(LOG)
        self.assertIn(old, text)
        out, ok = sets.report(text.replace(old, new).splitlines())
        self.assertFalse(ok)
        self.assertEqual('verdict: FAILED', out[-1])
        return '\n'.join(out)

    def test_good(self) -> None:
        out, ok = sets.report(LOG)
        self.assertTrue(ok, out)
        self.assertIn('1 sets, 0 with faults', '\n'.join(out))
        self.assertEqual('verdict: passed', out[-1])

    def test_periods(self) -> None:
        verdict = sets.judge(sets.read(LOG)[0])
        self.assertEqual(3, verdict.periods)
        self.assertEqual(0, verdict.over // sets.US - 2)

    def test_wrong_decision(self) -> None:
        self.assertIn('instead of', self.verdict('6999000.+A', '6099000.+A'))

    def test_events_are_missing(self) -> None:
        self.assertIn('not complete', self.verdict('end 14', 'end 15'))

    def test_the_test_did_not_end(self) -> None:
        self.assertIn('did not end', self.verdict('DONE', 'FATAL'))

    def test_no_sets(self) -> None:
        self.assertFalse(sets.report(['DONE sets failures 0'])[1])


class ServiceTest(unittest.TestCase):
    """Q and P, apart from the simulation."""

    def test_within(self) -> None:
        pieces = [(0, 10), (20, 30)]
        self.assertEqual(20, sets.within(pieces, 0, 30))
        self.assertEqual(10, sets.within(pieces, 5, 25))
        self.assertEqual(0, sets.within(pieces, 10, 20))

    def hold(self, *pieces: tuple[int, int]) -> list[str]:
        """What is wrong with the service of a (3, 10), from 0 to 30 ms."""
        one = sets.Set(
            1, 30 * MS, '-', [cbs.Server(False, 'a', 3 * MS, 10 * MS)]
        )
        verdict = sets.Verdict()
        sets.hold(verdict, one, 0, sets.Service(0, list(pieces)))
        return verdict.faults

    def test_each_period(self) -> None:
        good = [(0, 3 * MS), (17 * MS, 20 * MS), (20 * MS, 23 * MS)]
        self.assertEqual([], self.hold(*good))
        self.assertEqual(1, len(self.hold(*good[:2])))
        good[0] = (0, 3 * MS + 29_000)
        self.assertEqual([], self.hold(*good))
        good[0] = (0, 3 * MS + 31_000)
        self.assertEqual(1, len(self.hold(*good)))
        good[0] = (31_000, 3 * MS)
        self.assertEqual(1, len(self.hold(*good)))

    def test_bound_of_a_cbs(self) -> None:
        server = cbs.Server(False, 's', 3 * MS, 10 * MS)
        # As late as possible, and then as early as possible.
        twice = [(7 * MS, 13 * MS)]
        self.assertLessEqual(sets.excess(server, twice), 0)
        self.assertGreater(sets.excess(server, twice), -2_000)
        more = [(7 * MS, 10 * MS), (10 * MS, 13 * MS + 50_000)]
        self.assertGreater(sets.excess(server, more), sets.PERIOD_NS)
        # 0.4 of the CPU in pieces of 4 ms, each of which is too little.
        often = [(n * MS, (n + 4) * MS) for n in range(0, 200, 10)]
        self.assertGreater(sets.excess(server, often), 10 * MS)
        rarely = [(n * MS, (n + 3) * MS) for n in range(0, 200, 10)]
        self.assertLess(sets.excess(server, rarely), 0)


if __name__ == '__main__':
    unittest.main()

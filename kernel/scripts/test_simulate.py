# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulation of EDF and CBS, and of its verdicts."""

import unittest
from unittest import mock

import simulate

US = 1_000
MS = 1_000_000
LENGTH = 100 * MS


def busy(runtime: int, period: int, offset: int = 0) -> simulate.Reservation:
    """A reservation, in us, with a task that is always busy."""
    return simulate.Reservation(runtime * US, period * US, offset * US)


def sleeper(
    runtime: int, period: int, *jobs: tuple[int, int]
) -> simulate.Reservation:
    """A reservation, in us, with jobs: when due, and what they use."""
    return simulate.Reservation(
        runtime * US,
        period * US,
        jobs[0][0] * US,
        [simulate.Job(due * US, used * US, True) for due, used in jobs],
    )


def simulation(
    *reservations: simulate.Reservation,
    length: int = LENGTH,
    answers: dict[simulate.Key, bool] | None = None,
    cost: int = 0,
) -> list[simulate.Piece]:
    """The schedule on a machine where timers and switches take no time."""
    with mock.patch.multiple(simulate, TIMER_NS=0, SWITCH_NS=0, RETURN_NS=0):
        return simulate.Simulation(
            list(reservations), length, answers, cost
        ).run()


def run(
    *reservations: simulate.Reservation, length: int = LENGTH
) -> list[tuple[int, int, int]]:
    """The schedule, in us."""
    pieces = simulation(*reservations, length=length)
    return [(p.who, p.begin // US, p.end // US) for p in pieces]


class SimulationTest(unittest.TestCase):
    """Schedules that can be worked out on paper."""

    def test_one_gets_its_runtime_in_each_period(self) -> None:
        found = run(busy(3000, 10000, 500), length=40 * MS)
        self.assertEqual(
            [
                (0, 500, 3500),
                (0, 10500, 13500),
                (0, 20500, 23500),
                (0, 30500, 33500),
            ],
            found,
        )

    def test_who_preempts_pays(self) -> None:
        found = simulation(
            busy(4000, 20000),
            busy(1000, 5000, 2000),
            length=7500 * US,
            cost=100 * US,
        )
        self.assertEqual(
            [(0, 0, 2000), (1, 2000, 2900), (0, 2900, 5000), (1, 7000, 7500)],
            [(p.who, p.begin // US, p.end // US) for p in found],
        )

    def test_the_earlier_deadline_preempts(self) -> None:
        found = run(busy(4000, 20000), busy(1000, 5000, 2000), length=15 * MS)
        self.assertEqual(
            [
                (0, 0, 2000),
                (1, 2000, 3000),
                (0, 3000, 5000),
                (1, 7000, 8000),
                (1, 12000, 13000),
            ],
            found,
        )

    def test_the_later_deadline_does_not(self) -> None:
        found = run(busy(4000, 10000), busy(2000, 20000, 1000), length=9 * MS)
        self.assertEqual([(0, 0, 4000), (1, 4000, 6000)], found)

    def test_a_tie_keeps_the_running_one(self) -> None:
        found = run(busy(4000, 10000), busy(2000, 9000, 1000), length=9 * MS)
        self.assertEqual([(0, 0, 4000), (1, 4000, 6000)], found)

    def test_all_get_their_runtimes_at_a_full_cpu(self) -> None:
        runtimes = [3000, 350, 30000]
        found = run(
            busy(3000, 10000, 100), busy(350, 1000), busy(30000, 100000, 700)
        )
        for who, runtime in enumerate(runtimes):
            period = (10000, 1000, 100000)[who]
            self.assertAlmostEqual(
                runtime * (LENGTH // US // period),
                sum(end - begin for w, begin, end in found if w == who),
                delta=runtime,
            )

    def test_a_wakeup_that_would_overflow_begins_a_period(self) -> None:
        reservation = sleeper(4000, 10000, (0, 1000), (6000, 5000))
        found = run(reservation, length=30 * MS)
        # A new period at 6 ms, with a deadline of 16 ms.
        self.assertEqual(
            [(0, 0, 1000), (0, 6000, 10000), (0, 16000, 17000)], found
        )

    def test_a_wakeup_that_fits_keeps_the_deadline(self) -> None:
        reservation = sleeper(4000, 10000, (0, 3000), (5000, 2000))
        found = run(reservation, length=30 * MS)
        # 1 ms is left until 10 ms, then comes the next budget.
        self.assertEqual(
            [(0, 0, 3000), (0, 5000, 6000), (0, 10000, 11000)], found
        )

    def test_a_throttled_server_waits_though_its_task_slept(self) -> None:
        reservation = sleeper(2000, 10000, (0, 2000), (3000, 1000))
        found = run(reservation, length=30 * MS)
        self.assertEqual([(0, 0, 2000), (0, 10000, 11000)], found)

    def test_a_short_rest_of_a_budget_ends_late(self) -> None:
        """The timer of the end of a budget is not set for less than 10 us."""
        found = run(busy(1000, 10000), busy(1000, 20000, 998), length=25 * MS)
        self.assertEqual(
            [(0, 0, 1008), (1, 1008, 2008), (0, 10000, 10992)], found[:3]
        )


class MachineTest(unittest.TestCase):
    """Timers and switches, which take time."""

    def test_timers_and_switches(self) -> None:
        """One that comes back from its sleep looks at the clock later."""
        pieces = simulate.Simulation(
            [busy(4000, 20000), busy(1000, 5000, 2000)], 8 * MS
        ).run()
        self.assertEqual(
            [
                simulate.Piece(0, 7_900, 2_002_000),
                simulate.Piece(1, 2_007_900, 3_004_000),
                simulate.Piece(0, 3_007_600, 5_006_000),
                # Its first budget ended 2 us late, and it pays for them.
                simulate.Piece(1, 7_005_600, 8_000_000),
            ],
            pieces,
        )

    def test_a_task_that_is_preempted_before_it_looks_at_the_clock(
        self,
    ) -> None:
        pieces = simulate.Simulation(
            [busy(4000, 20000), sleeper(1000, 5000, (3, 500))], 2 * MS
        ).run()
        self.assertEqual([1, 0], [p.who for p in pieces])
        self.assertEqual(505_000 + simulate.SWITCH_NS, pieces[1].begin)


class EmptyServerTest(unittest.TestCase):
    """A server that is replenished while its task sleeps."""

    # 2.001 ms: what is missing comes with the next budget.
    ONE = sleeper(2000, 10000, (0, 2001), (15000, 3000))

    def pieces(self, *others: simulate.Reservation) -> list[tuple[int, int]]:
        """The schedule, if the first job ends before its budget is checked."""
        pieces = simulation(
            self.ONE, *others, length=40 * MS, answers={('work', 0, 0): True}
        )
        return [
            (p.begin // US, (p.end - p.begin) // US)
            for p in pieces
            if not p.who
        ]

    def test_stopped(self) -> None:
        """Woken up at 15 ms, with a new period until 25 ms."""
        new = [(0, 2000), (15000, 2000), (25000, 1000)]
        self.assertEqual(new, self.pieces())
        self.assertEqual(new, self.pieces(busy(100, 40000, 12000)))

    def test_behind_another(self) -> None:
        """Another has the earlier deadline until it wakes up."""
        found = self.pieces(busy(6000, 10000, 9990))
        self.assertEqual([(0, 2000), (15990, 2000), (25990, 1000)], found)


class DifferencesTest(unittest.TestCase):
    """Differences, and their lengths."""

    def test_same(self) -> None:
        pieces = [simulate.Piece(0, 5, 10), simulate.Piece(1, 10, 20)]
        self.assertEqual([], simulate.differences(pieces, pieces, 30))

    def test_late(self) -> None:
        one = [simulate.Piece(0, 5, 10), simulate.Piece(1, 10, 20)]
        two = [simulate.Piece(0, 7, 10), simulate.Piece(1, 13, 25)]
        found = simulate.differences(one, two, 30)
        self.assertEqual(
            [
                simulate.Difference(5, 7, 0, (-1,)),
                simulate.Difference(10, 13, 1, (-1,)),
                simulate.Difference(20, 25, -1, (1,)),
            ],
            found,
        )

    def test_one_after_the_other(self) -> None:
        one = [simulate.Piece(0, 0, 10), simulate.Piece(1, 10, 20)]
        two = [simulate.Piece(1, 0, 10), simulate.Piece(0, 10, 20)]
        found = simulate.differences(one, two, 20)
        self.assertEqual(
            [
                simulate.Difference(0, 10, 0, (1,)),
                simulate.Difference(10, 20, 1, (0,)),
            ],
            found,
        )

    def test_one_and_another(self) -> None:
        one = [simulate.Piece(0, 0, 10)]
        two = [simulate.Piece(1, 0, 5), simulate.Piece(2, 5, 8)]
        found = simulate.differences(one, two, 20)
        self.assertEqual([simulate.Difference(0, 10, 0, (1, 2, -1))], found)


class BreakTest(unittest.TestCase):
    """Breaks that the log closes since nobody fills them."""

    def found(self, begin: int, *between: simulate.Piece) -> int:
        """Count the differences from a log that has one run."""
        pieces = [
            simulate.Piece(0, 0, 10 * US),
            *between,
            simulate.Piece(0, begin, begin + 9 * US),
        ]
        logged = [simulate.Piece(0, 0, begin + 9 * US)]
        end = begin + 9 * US
        return len(simulate.differences(pieces, logged, end))

    def test_closed(self) -> None:
        self.assertEqual(0, self.found(30 * US))

    def test_too_long(self) -> None:
        self.assertEqual(1, self.found(35 * US))

    def test_of_another(self) -> None:
        another = simulate.Piece(1, 12 * US, 20 * US)
        self.assertEqual(3, self.found(30 * US, another))


def log_of(*reservations: tuple[int, int, int], late: int = 0) -> list[str]:
    """The log of a kernel without a fault, late by so many us."""
    length = 600 * MS
    case = [busy(*reservation) for reservation in reservations]
    lines = ['TEST random:1,1', 'seed 1 sets 1 cost 0', f'set 0 {length} -']
    for i, (q, p, offset) in enumerate(reservations):
        lines.append(f'reservation {i} {q} {p} {offset * US}')
    now = 0
    for piece in simulate.Simulation(case, length).run():
        begin, end = piece.begin + late * US, piece.end + late * US
        lines.append(f'{piece.who} {begin - now} {end - begin}')
        now = end
    return [*lines, 'ok   set 0: runs', 'DONE random failures 0']


class VerdictTest(unittest.TestCase):
    """Logs that pass, and logs that do not."""

    SET = (3000, 10000, 500), (800, 2000, 100)

    def verdict(self, lines: list[str]) -> bool:
        """Whether the log passes."""
        return simulate.one_log(lines)[1]

    def test_good(self) -> None:
        self.assertTrue(self.verdict(log_of(*self.SET)))
        self.assertTrue(self.verdict(log_of(*self.SET, late=5)))

    def test_late(self) -> None:
        """Too late, and usually later than it should be."""
        self.assertFalse(self.verdict(log_of(*self.SET, late=20)))
        self.assertFalse(self.verdict(log_of(*self.SET, late=10)))

    def test_another_order(self) -> None:
        lines = log_of(*self.SET)
        lines[3], lines[4] = (
            'reservation 0 3000 10100 500000',
            'reservation 1 800 2000 100000',
        )
        self.assertFalse(self.verdict(lines))

    def test_incomplete(self) -> None:
        lines = log_of(*self.SET)
        self.assertFalse(self.verdict(lines[:-1]))
        self.assertFalse(self.verdict([*lines, 'FAIL set 0']))
        self.assertFalse(self.verdict([]))
        lines[1] = 'seed 1 sets 2 cost 0'
        self.assertFalse(self.verdict(lines))

    def test_few_decisions(self) -> None:
        self.assertFalse(
            self.verdict(log_of((30000, 90000, 0), (10000, 90000, 50)))
        )

    def test_settled_by_the_log(self) -> None:
        """Deadlines of 30.005 and 30.006 ms: either may come first."""
        lines = log_of((5000, 10000, 5), (800, 1999, 2020))
        said = lines[4].replace(' 2020000', ' 2018000')
        self.assertNotEqual(lines[4], said)
        lines[4] = said
        self.assertTrue(self.verdict(lines))
        with mock.patch.object(simulate, 'SETTLED_SHARE', 0):
            self.assertFalse(self.verdict(lines))

    def test_both_logs_count(self) -> None:
        good = log_of(*self.SET)
        self.assertTrue(simulate.schedules(good, good)[1])
        self.assertFalse(simulate.schedules(good, good[:-1])[1])
        self.assertFalse(simulate.schedules([], good)[1])


if __name__ == '__main__':
    unittest.main()

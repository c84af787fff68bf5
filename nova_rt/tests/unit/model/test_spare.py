# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.spare."""

import itertools

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import spare, supply
from nova_rt.reservation.reservation import Reservation

MS = 1_000_000
POOL = Reservation(4000, 10_000)


def _simulate(work, others, slot, pool):
    """The kernel's rule, alone on a CPU, from the end of a budget on.

    :param work: of the one that is asked about, who comes last
    :param others: work of the others
    :returns: nanoseconds until that is done
    """
    runtime = pool.runtime_us * 1000
    period = pool.period_us * 1000
    queue = [[index + 1, left] for index, left in enumerate(others)]
    queue.append([0, work])
    now, left = period - runtime, runtime
    while True:
        user, needs = queue.pop(0)
        turn = min(slot, needs)
        needs -= turn
        while turn:
            had = min(turn, left)
            now, left, turn = now + had, left - had, turn - had
            if not user and not needs and not turn:
                return now
            if not left:
                now, left = now + period - runtime, runtime
        if needs:
            queue.append([user, needs])


@ddt.ddt
class SpareTest(base.BaseTestCase):
    def test_one_user(self):
        for work, periods in ((1, 1), (4 * MS, 1), (4 * MS + 1, 2)):
            self.assertEqual(
                10 * MS * periods, spare.answer_from_rest_ns(work, POOL)
            )
            self.assertEqual(
                6 * MS + 10 * MS * periods, spare.answer_ns(work, POOL)
            )

    def test_several_users(self):
        # Four slots of 1 ms are a budget; the fifth is one of the next.
        for users, wanted in ((1, 16), (4, 16), (5, 26), (8, 26), (9, 36)):
            self.assertEqual(wanted * MS, spare.answer_ns(MS, POOL, users, MS))
        self.assertEqual(10 * MS, spare.answer_from_rest_ns(MS, POOL, 4, MS))
        # A second turn waits for all the others again.
        self.assertEqual(2 * MS + 500_000, spare.demand_ns(MS, 2, 1_500_000))
        self.assertEqual(3 * MS + 1, spare.demand_ns(MS + 1, 2, MS))

    @ddt.data(Reservation(4000, 10_000), Reservation(1000, 10_000))
    def test_simulation_is_within_the_bound(self, pool):
        slot = pool.runtime_us * 1000 // 4
        for users, quarters in itertools.product(range(1, 7), range(1, 12)):
            work = quarters * slot // 2
            took = _simulate(work, [10 * work] * (users - 1), slot, pool)
            bound = spare.answer_ns(work, pool, users, slot)
            self.assertLessEqual(took, bound)
            # Others on the CPU may put off the last budget, and no more.
            idle = (pool.period_us - pool.runtime_us) * 1000
            needs = spare.demand_ns(work, users, slot)
            rest = pool.runtime_us * 1000 * -(-needs // 4 // slot) - needs
            self.assertEqual(bound - idle - rest, took)

    def test_default_slot(self):
        for runtime, wanted in ((4000, 1000), (1000, 250), (300, 100),
                                (80, 80)):  # fmt: skip
            pool = Reservation(runtime, 10_000)
            self.assertEqual(wanted * 1000, spare.default_slot_ns(pool))
            self.assertEqual(
                spare.answer_ns(50_000, pool, 3),
                spare.answer_ns(50_000, pool, 3, wanted * 1000),
            )

    def test_shorter_period(self):
        own = Reservation(40_000, 100_000)
        self.assertEqual(10_000, spare.shorter_period_us(own, 6000))
        self.assertEqual(100_000, spare.shorter_period_us(own, 90_000))
        period = spare.shorter_period_us(own, 1000)
        shorter = Reservation(period * 2 // 5, period)
        self.assertLessEqual(supply.gap_us(shorter), 1001)
        self.assertEqual(
            100, spare.shorter_period_us(Reservation(100, 100), 1)
        )

    def test_refused(self):
        for bad in (0, -1, 0.5, True, '1'):
            for call in (
                lambda bad: spare.answer_ns(bad, POOL),
                lambda bad: spare.answer_ns(1, POOL, bad),
                lambda bad: spare.answer_ns(1, POOL, 1, bad),
                lambda bad: spare.shorter_period_us(POOL, bad),
            ):
                self.assertRaises(exception.InvalidQuantity, call, bad)

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.ledger."""

import fixtures
from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_rt.compute.ledger import HOUR_US, Amounts, Ledger
from nova_rt.tests.fixtures.reports import UUID, make_uuid

PPM = 1_000_000


class LedgerTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.ledger = Ledger()

    def add(self, begin_us, end_us, **amounts):
        self.ledger.add(7, UUID, begin_us, end_us, Amounts(**amounts))

    def test_one_hour(self):
        self.add(10, 20, reserved=4 * PPM, used_us=3)
        self.add(20, 40, reserved=5 * PPM, used_us=1, periods=2, throttled=0)
        (found,) = self.ledger.list_all()
        self.assertEqual((7, UUID, 0), (found.meter, found.uuid, found.hour))
        self.assertEqual(
            (9, 4, 2, 0),
            (found.reserved_us, found.used_us, found.periods, found.throttled),
        )

    def test_shared_by_time(self):
        self.add(HOUR_US - 10, HOUR_US + 30, used_us=400)
        self.assertEqual(
            {0: 100, 1: 300},
            {each.hour: each.used_us for each in self.ledger.list_all()},
        )

    @given(
        st.integers(0, 3 * HOUR_US), st.integers(0, 30 * HOUR_US),
        st.integers(0, 10**18), st.none() | st.integers(0, 10**15),
    )  # fmt: skip
    def test_nothing_is_lost(self, begin_us, length_us, reserved, used_us):
        ledger = Ledger()
        new = Amounts(reserved, used_us, used_us, None)
        ledger.add(7, UUID, begin_us, begin_us + length_us, new)
        total = Amounts()
        for row in ledger.dump():
            total += Amounts(*row[3:])
            self.assertGreaterEqual(row[3], 0)
        self.assertEqual(new, total)

    def test_what_a_conductor_has_taken(self):
        now_us = HOUR_US + 5
        self.add(0, 10, used_us=1)
        self.add(HOUR_US, now_us, used_us=1)
        (closed,) = self.ledger.list_closed(now_us)
        taken = self.ledger.list_all()
        # Changed since it was sent.
        self.add(0, 10, used_us=1)
        self.ledger.settle(taken, now_us)
        self.assertEqual(2, len(self.ledger.list_all()))
        self.ledger.settle(self.ledger.list_all(), now_us)
        # An hour that goes on stays.
        self.assertEqual([1], [each.hour for each in self.ledger.list_all()])
        self.assertEqual((0, 1), (closed.hour, closed.used_us))

    def test_bounded(self):
        self.useFixture(fixtures.MonkeyPatch('nova_rt.compute.ledger.MOST', 3))
        for hour in (4, 2, 3, 1, 0):
            self.ledger.add(
                7, make_uuid(hour), hour * HOUR_US, hour * HOUR_US, Amounts(1)
            )
        self.assertEqual(2, self.ledger.shorten())
        self.assertEqual(
            [2, 3, 4], sorted(each.hour for each in self.ledger.list_all())
        )
        self.assertEqual(0, self.ledger.shorten())

    def test_written_and_read(self):
        self.add(0, 2 * HOUR_US, reserved=10**17, used_us=5)
        again = Ledger.load(self.ledger.dump())
        self.assertEqual(self.ledger.list_all(), again.list_all())
        for bad in (None, 3, [[1]], [[1, 'x', 2, None, 1, 1, 1]]):
            self.assertRaises((TypeError, ValueError), Ledger.load, bad)

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.supply."""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import supply
from nova_rt.reservation.reservation import Reservation


@ddt.ddt
class SupplyTest(base.BaseTestCase):
    @ddt.data((1400, 2000), (100, 100), (2, 100), (99, 100))
    @ddt.unpack
    def test_inverse(self, runtime, period):
        reservation = Reservation(runtime, period)
        for work in (1, 999, 1000, 1001, 1_399_999, 1_400_000, 1_400_001,
                     123_456_789):  # fmt: skip
            done = supply.time_for_ns(work, reservation)
            self.assertEqual(work, supply.supplied_ns(done, reservation))
            self.assertEqual(
                work - 1, supply.supplied_ns(done - 1, reservation)
            )

    def test_by_hand(self):
        # Nothing for P - Q = 0.6 ms, then 1.4 ms, and so on.
        reservation = Reservation(1400, 2000)
        for time_us, wanted_us in ((0, 0), (600, 0), (601, 1), (2000, 1400),
                                   (2600, 1400), (2601, 1401)):  # fmt: skip
            self.assertEqual(
                wanted_us * 1000,
                supply.supplied_ns(time_us * 1000, reservation),
            )
        self.assertEqual(0, supply.time_for_ns(0, reservation))
        self.assertEqual(600, supply.gap_us(reservation))

    def test_at_most_the_gap_behind_the_fluid_cpu(self):
        reservation = Reservation(1400, 2000)
        late = [
            supply.time_for_ns(work, reservation) - work * 10 / 7
            for work in range(1, 4_200_000, 1000)
        ]
        self.assertLess(599_999, max(late))
        self.assertLess(max(late), 600_000)

    def test_refused(self):
        reservation = Reservation(1400, 2000)
        for bad in (-1, 0.5, True, '1'):
            for call in (supply.supplied_ns, supply.time_for_ns):
                self.assertRaises(
                    exception.InvalidQuantity, call, bad, reservation
                )

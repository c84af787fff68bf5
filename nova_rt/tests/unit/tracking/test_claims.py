# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.tracking.claims."""

import dataclasses

from oslotest import base

from nova_rt import events
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking.claims import Adapted, Claims, Slots


def make(runtime_us, period_us):
    request = Request(Reservation(runtime_us, period_us), 1)
    return Record(request, (0,))


class OverheadTest(base.BaseTestCase):
    """A host on which each period costs 0.1 ms of a CPU."""

    def setUp(self):
        super().setUp()
        self.claims = Claims(
            events.Dispatcher(),
            lambda each: each.ppm + 100_000_000 // each.period_us,
        )

    def list(self):
        return self.claims.list_claims()

    def test_boost_beside_a_change(self):
        """A shorter period takes more than a boost with more bandwidth."""
        rec, boosted = make(200, 1000), make(250, 1000)
        for changing, counted in (
            (make(20, 100), make(20, 100)),
            (make(2000, 10_000), boosted),
        ):
            self.claims.change('a', Slots(rec, changing=changing))
            self.claims.adapt('a', Adapted(boosted, boosted))
            self.assertEqual([counted], self.list())
            self.assertEqual({'a': (counted,)}, self.claims.claims())

    def test_boost_on_other_cpus(self):
        """During a move within the host both are held."""
        rec, boosted = make(200, 1000), make(250, 1000)
        moved = dataclasses.replace(rec, cpus=(1,))
        self.claims.change('a', Slots(moved))
        self.claims.adapt('a', Adapted(boosted, boosted))
        self.assertEqual([moved, boosted], self.list())

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.judged and of edf, as the command uses them."""

import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import cbs, edf, judged, simulation
from nova_rt.reservation import Reservation
from nova_rt.tests.unit.model import runs, test_theorem

OURS = Reservation(1400, 2000)


class JudgedTest(base.BaseTestCase):
    def requests(self, count=3000):
        rng = runs.rng(7)
        return test_theorem.requests(OURS, 0.8, 'exponential', count, rng)

    def test_latest_is_exact(self):
        """As numpy has it, which can overflow."""
        come, works = self.requests()
        for place in (judged.Place(), judged.Place(late=True)):
            done = judged.run(OURS, place, come, works)
            late, parts = test_theorem.late_ns(OURS, come, works, done)
            found = judged.latest_ns(
                OURS, come.tolist(), works.tolist(), done.tolist()
            )
            self.assertEqual(late / parts, float(found))

    def test_large_numbers(self):
        """A long run of a reservation that cannot be shortened."""
        odd = Reservation(2_000_003, 4_000_037)
        come = numpy.array([0, 4 * 10**18])
        works = numpy.array([1_000, 1_000])
        done = come + works
        found = judged.latest_ns(
            odd, come.tolist(), works.tolist(), done.tolist()
        )
        self.assertAlmostEqual(1000 - 1000 / (odd.ppm / 1e6), float(found), 2)

    def test_neighbours(self):
        """None of them, and beyond what is admitted."""
        come, works = self.requests()
        wanted = cbs.DeadlineServer(OURS).fifo_ns(come, works)
        self.assertEqual(
            wanted.tolist(), edf.fifo_ns(OURS, (), come, works).tolist()
        )
        beside = judged.Place(neighbours=(Reservation(599, 2000),))
        self.assertLess(
            int(wanted.sum()), int(judged.run(OURS, beside, come, works).sum())
        )
        full = judged.Place(neighbours=(Reservation(601, 2000),))
        self.assertRaises(
            exception.InvalidQuantity, judged.run, OURS, full, come, works
        )

    def test_too_long(self):
        come = simulation.constant_ns(1e6, 3)
        works = simulation.constant_ns(1e-3, 3)
        beside = judged.Place(neighbours=(Reservation(100, 1000),))
        self.assertRaises(
            exception.InvalidQuantity, judged.run, OURS, beside, come, works
        )

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.judged and of edf, as the command uses them."""

import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import judged
from nova_rt.reservation.reservation import Reservation
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

    def test_a_queue_for_each_cpu(self):
        """As each CPU does by itself, and as late as the worst of them."""
        come, works = self.requests()
        chosen = runs.rng(8).integers(3, size=len(come))
        for place in (
            judged.Place(),
            judged.Place(late=True),
            judged.Place(neighbours=(Reservation(599, 2000),)),
        ):
            done, latest = judged.run_split(OURS, place, come, works, chosen)
            alone = []
            for cpu in range(3):
                here = chosen == cpu
                part = come[here], works[here]
                wanted = judged.run(OURS, place, *part)
                self.assertEqual(wanted.tolist(), done[here].tolist())
                times = [each.tolist() for each in (*part, wanted)]
                alone.append(judged.latest_ns(OURS, *times))
            self.assertEqual(max(alone), latest)
            self.assertLess(min(alone), latest)

    def test_a_queue_for_all_cpus(self):
        """Sooner than on one of them; neighbours are not simulated."""
        come, works = self.requests()
        one, two = (judged.run(OURS, judged.Place(), come, works, cpus)
                    for cpus in (1, 2))  # fmt: skip
        self.assertLess(int(two.sum()), int(one.sum()))
        beside = judged.Place(neighbours=(Reservation(599, 2000),))
        self.assertRaises(
            exception.InvalidQuantity, judged.run, OURS, beside, come, works, 2
        )

    def test_neighbours_of_each_cpu_take_their_time(self):
        """Work that one CPU can do takes too long on a thousand of them."""
        come = runs.constant_ns(5, 1000).cumsum()
        works = runs.constant_ns(1e-3, 1000)
        beside = judged.Place(neighbours=(Reservation(100, 1000),))
        chosen = numpy.arange(1000)
        self.assertRaises(
            exception.InvalidQuantity,
            judged.run_split, OURS, beside, come, works, chosen,
        )  # fmt: skip

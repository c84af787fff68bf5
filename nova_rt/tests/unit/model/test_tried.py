# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.tried: a reservation by simulation."""

import random

import fixtures
import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import judged, measured, simulation, sizing, tried
from nova_rt.model.limits import Limits
from nova_rt.reservation.reservation import Reservation

RATE_PER_S = 500
DEADLINE_S = 10e-3
FRACTION = 0.99
NEVER = Limits(overhead_us=0)


def _times_s(number=2000):
    """CPU times of 0.4 ms and a little, one third of them much longer."""
    draw = random.Random(1)
    return [
        4e-4 + draw.choice([1e-4, 2e-4, 15e-4]) * draw.random()
        for _ in range(number)
    ]


class TriedTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(tried, 'REQUESTS', 31 * 1000))
        self.times_s = _times_s()
        self.model = measured.MeasuredQueue(self.times_s)

    def trial(self, **kwargs):
        kwargs = {'limits': NEVER} | kwargs
        return tried.Trial(
            self.times_s, RATE_PER_S, DEADLINE_S, FRACTION, **kwargs
        )

    def bound(self, limits=NEVER, period_us=2000):
        return sizing.size(
            self.model, RATE_PER_S, DEADLINE_S, FRACTION, limits, period_us
        ).reservation

    def test_smallest(self):
        """It is enough, less is not, and the bound was more."""
        bound = self.bound()
        found = self.trial().size(bound)
        self.assertEqual(bound.period_us, found.reservation.period_us)
        self.assertLess(found.reservation.runtime_us, bound.runtime_us)
        self.assertLessEqual(found.percentile_s.high, DEADLINE_S)
        self.assertEqual(found, self.trial().size(found.reservation))
        less = Reservation(
            found.reservation.runtime_us - 1, found.reservation.period_us
        )
        self.assertIsNone(self.trial().size(less))

    def test_beside_neighbours(self):
        """Of other requests, and by another simulation of the scheduler."""
        found = self.trial().size(self.bound()).reservation
        rest = found.period_us - found.runtime_us
        rng = numpy.random.default_rng(7)
        come = simulation.poisson_ns(RATE_PER_S, 50_000, rng)
        works = simulation.drawn_ns(self.times_s, 50_000, rng)
        place = judged.Place(neighbours=(Reservation(rest, found.period_us),))
        done = judged.run(found, place, come, works)
        late = ((done - come) / 1e9 > DEADLINE_S).mean()
        # So many are 6 standard deviations of independent ones.
        self.assertLess(late, 1 - FRACTION + 6 * (0.01 / 50_000) ** 0.5)
        self.assertGreater(late, 0)

    def test_overhead(self):
        """It is taken off each budget, rounded up."""
        plain = self.trial().size(self.bound()).reservation
        for overhead_us, more in ((99.5, 100), (100, 100), (0.1, 1)):
            limits = Limits(overhead_us=overhead_us)
            found = self.trial(limits=limits).size(
                Reservation(plain.runtime_us + 200, plain.period_us)
            )
            self.assertEqual(
                plain.runtime_us + more, found.reservation.runtime_us
            )

    def test_latency(self):
        """There and back."""
        shorter = tried.Trial(
            self.times_s, RATE_PER_S, DEADLINE_S - 2e-3, FRACTION,
            limits=NEVER,
        )  # fmt: skip
        most = Reservation(2000, 2000)
        one = shorter.size(most)
        other = self.trial(latency_s=1e-3).size(most)
        self.assertEqual(one.reservation, other.reservation)
        self.assertAlmostEqual(
            one.percentile_s.value + 2e-3, other.percentile_s.value, 9
        )

    def test_not_stable(self):
        load_us = RATE_PER_S * sum(self.times_s) / len(self.times_s) * 2000
        self.assertIsNone(self.trial().size(Reservation(int(load_us), 2000)))

    def test_nothing_but_overhead(self):
        trial = self.trial(limits=Limits(overhead_us=10))
        self.assertIsNone(trial.size(Reservation(11, 1000)))

    def test_percentile(self):
        for fraction in (0.9951, 0.999999):
            self.assertRaisesRegex(
                exception.InvalidQuantity, 'above 99.5$', tried.Trial,
                self.times_s, RATE_PER_S, DEADLINE_S, fraction,
            )  # fmt: skip
        tried.Trial(self.times_s, RATE_PER_S, DEADLINE_S, 0.995)

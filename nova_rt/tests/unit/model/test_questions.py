# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.questions and services."""

import dataclasses

import fixtures
import hypothesis
from hypothesis import strategies
import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import (
    general,
    guarantee,
    many,
    questions,
    services,
    single,
    sizing,
    split,
    tandem,
    units,
)
from nova_rt.model.limits import Limits
from nova_rt.reservation.reservation import Reservation

SINGLE = single.SingleQueue(1e-3, 1e-4)
MODELS = (
    SINGLE,
    tandem.Tandem(1e-3, 2e-4),
    tandem.TandemBound(1e-3, 2e-4),
    general.GeneralQueue([1e-3]),
    many.ManyCPUs(2, 1e-3),
    split.Split(SINGLE, 2),
)


class QuestionsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        # Coarse bounds are bounds as well, and quick.
        for name, value in (('_EACH', 100), ('_MOST', 1 << 13)):
            self.useFixture(fixtures.MockPatchObject(general, name, value))

    @hypothesis.settings(max_examples=60)
    @hypothesis.given(
        strategies.sampled_from(MODELS),
        strategies.floats(1, 700),
        strategies.floats(0.015, 1),
        strategies.sampled_from([0.5, 0.9, 0.99, 0.9999]),
    )
    def test_back_from_a_reservation(self, model, rate, deadline, fraction):
        """A reservation as sized bears the rate, in time, for so many."""
        try:
            found = sizing.size(model, rate, deadline, fraction).reservation
        except exception.Unreachable:
            return
        slack = 1 + 1e-9
        self.assertLessEqual(
            rate,
            slack * questions.max_rate_per_s(model, found, deadline, fraction),
        )
        self.assertLessEqual(
            questions.min_deadline_s(model, found, rate, fraction),
            slack * deadline,
        )
        self.assertLessEqual(
            fraction,
            slack * questions.fraction(model, found, rate, deadline),
        )

    def test_nothing_in_time(self):
        """A deadline that is shorter than the gap promises nothing."""
        slow = Reservation(10_000, 100_000)
        self.assertAlmostEqual(
            0, questions.fraction(SINGLE, slow, 5, 0.09), places=9
        )
        err = self.assertRaises(
            exception.Unreachable,
            questions.max_rate_per_s, SINGLE, slow, 0.09, 0.99,
        )  # fmt: skip
        least = units.duration_s(err.nearest.partition(' is ')[2])
        questions.max_rate_per_s(SINGLE, slow, least, 0.99)

    def test_longest(self):
        """With the overhead taken off, rounded up."""
        arrivals = guarantee.Arrivals.of(5, 300, 1e-3)
        limits = Limits(overhead_us=2.5)
        found = questions.longest_s(
            arrivals, Reservation(1400, 2000), 1e-3, limits
        )
        wanted = guarantee.delay_ns(arrivals, Reservation(1397, 2000))
        self.assertAlmostEqual(wanted / 1e9 + 2e-3, found)
        sized = sizing.size_for_all(arrivals, 0.02, 1e-3, limits)
        self.assertLessEqual(
            questions.longest_s(arrivals, sized, 1e-3, limits), 0.02
        )
        for runtime_us in (2, 4):
            self.assertRaises(
                exception.InvalidReservation,
                questions.longest_s, arrivals, Reservation(runtime_us, 1000),
                0.0, limits,
            )  # fmt: skip


class ChoiceTest(base.BaseTestCase):
    def test_split(self):
        """Of requests that come evenly, a queue has every third or so."""
        even = services.Service(1e-3, constant=True, periodic=True)
        alone = services.choose(even).model
        split = services.choose(
            dataclasses.replace(even, cpus=3, split=True)
        ).model
        self.assertAlmostEqual(
            3 * alone.capacity_per_s(0.7), split.capacity_per_s(0.7)
        )
        self.assertLess(
            alone.percentile_s(600, 0.7, 0.99),
            split.percentile_s(1800, 0.7, 0.99),
        )

    def test_worst(self):
        """The token bucket has every window of jittered batches."""
        rng = numpy.random.default_rng(7)
        for _ in range(30):
            batch, late = int(rng.integers(1, 5)), rng.uniform(0, 3)
            rate, period = 100.0 * batch, 0.01
            service = services.Service(
                1e-3, periodic=True, jitter_s=late * period, batch=batch
            )
            bucket = service.worst(rate, 1e-3)
            # The closest that instants can be: late ones, then none.
            come = numpy.concatenate(
                [[late * period], numpy.arange(1, 50) * period]
            )
            come = numpy.repeat(numpy.maximum.accumulate(come), batch)
            for count in range(1, len(come) + 1):
                window_ns = (come[count - 1] - come[0]) * 1e9
                self.assertLessEqual(
                    count,
                    bucket.burst + window_ns / bucket.interval_ns + 1e-6,
                )

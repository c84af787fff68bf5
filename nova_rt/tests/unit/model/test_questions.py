# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.questions and services."""

import dataclasses

import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_rt import exception
from nova_rt.model import (
    chain,
    constant,
    guarantee,
    many,
    measured,
    questions,
    services,
    single,
    sizing,
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
    constant.ConstantQueue(1e-3),
    many.ManyCPUs(2, 1e-3),
    chain.Chain([chain.Stage(1e-3), chain.Stage(5e-4)]),
)


class QuestionsTest(base.BaseTestCase):
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

    def test_inverses(self):
        """The highest rate meets the deadline exactly."""
        reservation = Reservation(1400, 2000)
        for model in MODELS:
            rate = questions.max_rate_per_s(model, reservation, 0.03, 0.99)
            self.assertAlmostEqual(
                0.03,
                questions.min_deadline_s(model, reservation, rate, 0.99),
            )
            self.assertAlmostEqual(
                0.99, questions.fraction(model, reservation, rate, 0.03)
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
    def test_models(self):
        link = services.Link(64e6, 8192)
        for wanted, service in (
            (single.SingleQueue, services.Service(service_s=1e-3)),
            (many.ManyCPUs, services.Service(service_s=1e-3, cpus=2)),
            (tandem.Tandem, services.Service(service_s=1e-3, link=link)),
            (
                tandem.TandemBound,
                services.Service(
                    service_s=1e-3, link=services.Link(64e6, 8192, True)
                ),
            ),
            (
                constant.ConstantQueue,
                services.Service(services.Times.CONSTANT, 1e-3),
            ),
            (
                measured.MeasuredQueue,
                services.Service(
                    services.Times.MEASURED, samples_s=[1e-3, 2e-3] * 10
                ),
            ),
        ):
            found = services.choose(service)
            self.assertIs(wanted, type(found.model))
            self.assertTrue(found.sure.endswith('.'))
            self.assertEqual([], found.cautions(1, 0.5, 0, 1))

    def test_split(self):
        """Three queues, each with a third of the requests."""
        for each in (
            services.Service(service_s=1e-3, latency_s=1e-4),
            services.Service(services.Times.CONSTANT, 1e-3),
            services.Service(
                services.Times.MEASURED, samples_s=[1e-3, 2e-3] * 10
            ),
        ):
            one = services.choose(each)
            three = services.choose_split(dataclasses.replace(each, cpus=3))
            self.assertEqual(f'3 x {one.name}', three.name)
            self.assertAlmostEqual(
                one.model.mean_s(300, 0.7), three.model.mean_s(900, 0.7), 9
            )
            self.assertAlmostEqual(
                one.model.percentile_s(300, 0.7, 0.99),
                three.model.percentile_s(900, 0.7, 0.99),
                9,
            )
            self.assertEqual(
                one.model.gap_s(2e-3, 0.7), three.model.gap_s(2e-3, 0.7)
            )
        link = services.Link(64e6, 8192)
        self.assertRaises(
            exception.InvalidQuantity,
            services.choose_split,
            services.Service(service_s=1e-3, cpus=2, link=link),
        )

    def test_no_model(self):
        link = services.Link(64e6, 8192)
        for times in (services.Times.CONSTANT, services.Times.MEASURED):
            for more in ({'cpus': 2}, {'link': link}):
                self.assertRaises(
                    exception.InvalidQuantity,
                    services.choose, services.Service(times, 1e-3, **more),
                )  # fmt: skip
        self.assertRaises(
            exception.InvalidQuantity,
            services.choose,
            services.Service(service_s=1e-3, cpus=2, link=link),
        )

    def test_cautions(self):
        choice = services.Choice(SINGLE, '', '', link_s=1e-3, samples=100)
        for text, numbers in (
            ('link', (501, 0.5, 0, 1)),
            ('period', (1, 0.5, 0.11, 1)),
            ('at least 1000', (1, 0.99, 0, 1)),
        ):
            (found,) = choice.cautions(*numbers)
            self.assertIn(text, found)
        self.assertEqual([], choice.cautions(500, 0.9, 0.09, 1))

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.sizing."""

import math

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import (
    cbs,
    guarantee,
    simulation,
    sizing,
)
from nova_rt.model.limits import Limits
from nova_rt.model.schedule import Position
from nova_rt.model.single import SingleQueue
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.unit.model import runs
from nova_rt.tests.unit.model.test_inverses import MODELS

FREE = Limits(overhead_us=0)


@ddt.ddt
class SizeTest(base.BaseTestCase):
    def test_rounded_up_the_shortest_periods_are_too_much(self):
        """Two microseconds are more than 1 % of all but longer ones."""
        limits = Limits(overhead_us=0, min_period_us=100, max_bandwidth=0.01)
        found = sizing.size(SingleQueue(1e-3), 1, 0.05, 0.01, limits)
        self.assertEqual(Reservation(2, 200), found.reservation)

    @ddt.data(*MODELS)
    def test_every_model(self, name):
        model = MODELS[name]
        found = sizing.size(model, 200, 0.1, 0.99)
        self.assertLess(found.percentile_s + found.gap_s, 0.1 + 1e-12)
        self.assertLess(found.mean_s, found.percentile_s)
        again = sizing.expect(model, 200, 0.99, found.reservation)
        self.assertEqual(found, again)
        self.assertLess(found.bandwidth, found.reservation.ppm / 1e6)
        one_less = Reservation(
            found.reservation.runtime_us - 2, found.reservation.period_us
        )
        less = sizing.expect(model, 200, 0.99, one_less)
        self.assertLess(0.1, less.percentile_s + less.gap_s)

    def test_no_other_period_is_better(self):
        for rate, deadline in ((500, 0.02), (100, 0.1), (50, 1.0)):
            queue = SingleQueue(1e-3)
            limits = Limits(min_period_us=100)
            best = sizing.size(queue, rate, deadline, 0.99, limits)
            for period in limits.periods_us():
                try:
                    other = sizing.size(
                        queue, rate, deadline, 0.99, limits, period
                    )
                except exception.Unreachable:
                    continue
                # A whole microsecond of Q may tip the scales.
                self.assertLess(
                    best.reservation.ppm,
                    other.reservation.ppm
                    + 1e6 / period
                    + 1e6 / best.reservation.period_us,
                )

    @ddt.data(0, -1, math.nan, math.inf)
    def test_what_is_no_quantity(self, bad):
        queue = SingleQueue(1e-3)
        for words in ((bad, 0.1, 0.9), (100, bad, 0.9), (100, 0.1, bad)):
            self.assertRaises(
                exception.InvalidQuantity, sizing.size, queue, *words
            )


@ddt.ddt
class ExpectTest(base.BaseTestCase):
    @ddt.data((1400, 2000, 0.8), (1800, 2000, 0.8), (1000, 2000, 0.9),
              (1400, 2000, 0.5))  # fmt: skip
    @ddt.unpack
    def test_shift(self, runtime, period, load):
        """The effect of the place in the period, on the CBS itself."""
        reservation = Reservation(runtime, period)
        rate, count = 500, 400_000
        queue = SingleQueue(load * runtime / period / rate)
        found = sizing.expect(queue, rate, 0.99, reservation, FREE)
        self.assertLess(abs(found.shift_s - (period - runtime) / 2e6), 1e-12)
        rng = runs.rng(15)
        arrivals = simulation.poisson_ns(rate, count, rng)
        works = simulation.exponential_ns(queue.service_s, count, rng)
        fluid = simulation.fifo_ns(
            arrivals, runs.slowed(works, runtime / period)
        )
        for position, sign in (
            (Position.FIRST, -1), (Position.RANDOM, 0), (Position.LAST, 1)
        ):  # fmt: skip
            done = cbs.DeadlineServer(reservation, position).fifo_ns(
                arrivals, works
            )
            # The same requests: what is left is the schedule's alone.
            shift_s = float((done - fluid).mean()) / 1e9
            self.assertLess(
                abs(shift_s - sign * found.shift_s), 0.2 * found.shift_s
            )

    @ddt.data((1000, 2000, 0.5), (400, 2000, 0.8), (1400, 2000, 0.9),
              (1000, 5000, 0.7), (3000, 10_000, 0.8), (5000, 10_000, 0.8),
              (9000, 10_000, 0.5))  # fmt: skip
    @ddt.unpack
    def test_mean_alone(self, runtime, period, load):
        """On the CBS itself, with shifts up to half of the mean."""
        reservation = Reservation(runtime, period)
        rate, count = 500, 400_000
        queue = SingleQueue(load * runtime / period / rate)
        found = sizing.expect(queue, rate, 0.99, reservation, FREE)
        rng = runs.rng(16)
        arrivals = simulation.poisson_ns(rate, count, rng)
        works = simulation.exponential_ns(queue.service_s, count, rng)
        done = cbs.DeadlineServer(reservation).fifo_ns(arrivals, works)
        # In nanoseconds: periods so short that it is all but fluid.
        fluid = simulation.fifo_ns(
            arrivals, runs.slowed(works, runtime / period)
        )
        fluid_s = float((fluid - arrivals).mean()) / 1e9
        chance_s = fluid_s - found.mean_s
        measured_s = float((done - arrivals).mean()) / 1e9 - chance_s
        self.assertLess(abs(measured_s / found.alone_s - 1), 0.05)

    def test_no_mean_alone_for_long_periods(self):
        queue = SingleQueue(0.8 * 0.5 / 500)
        for period, known in ((10_000, True), (50_000, False)):
            reservation = Reservation(period // 2, period)
            found = sizing.expect(queue, 500, 0.99, reservation, FREE)
            shift = found.shift_s / found.mean_s
            self.assertEqual(known, shift <= sizing.MODERATE_SHIFT)
            self.assertEqual(known, found.alone_s is not None)

    def test_a_whole_cpu_has_no_shift(self):
        queue = SingleQueue(1e-3)
        found = sizing.expect(queue, 500, 0.99, Reservation(1000, 1000), FREE)
        self.assertEqual(found.mean_s, found.alone_s)


@ddt.ddt
class SizeForAllTest(base.BaseTestCase):
    # The last ones take little more than what the rate needs: slow to see.
    @ddt.data((5, 300, 1e-3, 0.02), (1, 10, 5e-3, 0.05), (50, 100, 1e-3, 0.2),
              (5, 300, 2e-3, 10.0), (1, 333, 3e-3, 60.0))  # fmt: skip
    @ddt.unpack
    def test_least(self, burst, rate, cost_s, deadline_s):
        arrivals = guarantee.Arrivals.of(burst, rate, cost_s)
        limits = Limits()
        found = sizing.size_for_all(arrivals, deadline_s, 1e-3)
        net = Reservation(found.runtime_us - 5, found.period_us)
        delay = guarantee.delay_ns(arrivals, net)
        self.assertLessEqual(delay + 2_000_000, deadline_s * 1e9)
        left = int((deadline_s - 2e-3) * 1e9)
        for period in limits.periods_us():
            runtime = guarantee.min_runtime_us(arrivals, left, period)
            if runtime is not None:
                self.assertLessEqual(
                    found.ppm, -(-(runtime + 5) * 1_000_000 // period)
                )

    def test_impossible(self):
        arrivals = guarantee.Arrivals.of(50, 100, 1e-3)
        for deadline_s, latency_s in ((0.04, 0), (0.01, 0.005), (0.01, 1.0)):
            err = self.assertRaises(
                exception.Unreachable,
                sizing.size_for_all,
                arrivals,
                deadline_s,
                latency_s,
            )
            self.assertIn('a burst of 50 requests is 50 ms of work', str(err))
        self.assertRaises(
            exception.Unreachable,
            sizing.size_for_all,
            guarantee.Arrivals.of(1, 1001, 1e-3),
            1.0,
        )


@ddt.ddt
class LimitsTest(base.BaseTestCase):
    def test_periods(self):
        found = Limits(1_000, 1_234).periods_us()
        self.assertEqual([1000, 1100, 1200, 1234], found)
        self.assertEqual(100, Limits(100, 4_194_304).periods_us()[0])

    @ddt.data(
        {'min_period_us': 99},
        {'max_period_us': 5_000_000},
        {'min_period_us': 2000, 'max_period_us': 1000},
        {'max_bandwidth': 1.1},
        {'max_bandwidth': 0},
        {'overhead_us': -1},
        {'overhead_us': math.nan},
        {'min_period_us': 1000.5},
    )
    def test_refused(self, words):
        self.assertRaises(exception.InvalidQuantity, Limits, **words)

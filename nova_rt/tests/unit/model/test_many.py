# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.many."""

import fractions
import math

import ddt
import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import cbs, many, simulation, single
from nova_rt.model.schedule import Position
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.unit.model import runs

WHOLE = cbs.DeadlineServer(Reservation(100, 100))


def erlang_c(cpus, load):
    """The textbook's formula, in exact fractions."""
    load = fractions.Fraction(load)
    last = load**cpus / math.factorial(cpus) * cpus / (cpus - load)
    rest = sum(load**k / math.factorial(k) for k in range(cpus))
    return float(last / (rest + last))


@ddt.ddt
class ManyCPUsTest(base.BaseTestCase):
    @ddt.data((1, 0.3), (2, 1.9), (4, 3.0), (10, 8.0), (64, 63.99), (3, 1e-6))
    @ddt.unpack
    def test_erlang(self, cpus, load):
        wanted = erlang_c(cpus, load)
        found = many.waiting_probability(cpus, load)
        self.assertLess(abs(found / wanted - 1), 1e-12)

    def test_erlang_at_its_ends(self):
        self.assertEqual(1, many.waiting_probability(5, 5.0))
        for cpus, load in ((5, 5.1), (5, 0), (0, 0.1), (5, math.nan)):
            self.assertRaises(
                exception.InvalidQuantity, many.waiting_probability, cpus, load
            )

    def test_one_cpu_is_the_single_queue(self):
        one, queue = many.ManyCPUs(1, 1e-3, 1e-4), single.SingleQueue(
            1e-3, 1e-4
        )  # fmt: skip
        for ask in (
            lambda model: model.mean_s(600, 0.7),
            lambda model: model.percentile_s(600, 0.7, 0.99),
            lambda model: model.percentile_s(600, 0.7, 1e-3),
            lambda model: model.max_rate_per_s(0.7, 0.05, 0.99),
            lambda model: model.min_bandwidth(600, 0.05, 0.99),
        ):
            self.assertLess(abs(ask(one) / ask(queue) - 1), 1e-11)

    @ddt.data(
        (2, 850, 0.5),
        (4, 2100, 0.7),
        # m = g, where the textbook's formula divides by zero.
        (2, 500, 0.5),
        (8, 6800, 0.95),
    )
    @ddt.unpack
    def test_against_the_simulation(self, cpus, rate, bandwidth):
        rng = runs.rng(2)
        arrivals = simulation.poisson_ns(rate, runs.COUNT, rng)
        works = simulation.exponential_ns(1e-3, runs.COUNT, rng)
        times = (
            WHOLE.fifo_many_ns(arrivals, runs.slowed(works, bandwidth), cpus)
            - arrivals
        )
        runs.check(self, many.ManyCPUs(cpus, 1e-3), rate, bandwidth, times)

    def test_late_budgets_stay_within_the_gap(self):
        """Not proved for several CPUs, but so it is here."""
        model = many.ManyCPUs(4, 1e-3)
        rng = runs.rng(3)
        arrivals = simulation.poisson_ns(2100, 100_000, rng)
        works = simulation.exponential_ns(1e-3, 100_000, rng)
        late = cbs.DeadlineServer(Reservation(700, 1000), Position.LAST)
        fine = WHOLE.fifo_many_ns(arrivals, runs.slowed(works, 0.7), 4)
        done = late.fifo_many_ns(arrivals, works, 4)
        gap_s = model.gap_s(1e-3, 0.7)
        self.assertLess(abs(gap_s - 300e-6), 1e-12)
        self.assertLess(abs(float((done - fine).mean()) / 1e9), gap_s)
        for fraction in (0.5, 0.9, 0.99):
            less, more = (
                float(numpy.quantile(each - arrivals, fraction)) / 1e9
                for each in (fine, done)
            )
            self.assertLess(more - less, gap_s)

    def test_unstable(self):
        err = self.assertRaises(
            exception.Unstable, many.ManyCPUs(4, 1e-3).mean_s, 2800, 0.7
        )
        self.assertLess(abs(err.capacity_per_s - 2800), 1e-9)

    @ddt.data(0, -1, 1.5, True, '4')
    def test_no_number_of_cpus(self, bad):
        self.assertRaises(exception.InvalidQuantity, many.ManyCPUs, bad, 1e-3)

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.balanced."""

import math

import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import simulation
from nova_rt.model.balanced import Balanced, Member
from nova_rt.model.constant import ConstantQueue
from nova_rt.model.single import SingleQueue
from nova_rt.tests.unit.model import runs


class BalancedTest(base.BaseTestCase):
    def test_equal_servers_are_one_with_its_part(self):
        queue = SingleQueue(1e-3, 1e-4)
        for group in (
            Balanced([Member(queue, 4)], 2e-4),
            Balanced([Member(queue, weight=2.5)] * 4, 2e-4),
        ):
            self.assertLess(abs(group.capacity_per_s(0.7) - 2800), 1e-9)
            for mine, wanted in (
                (group.mean_s(2000, 0.7), queue.mean_s(500, 0.7)),
                (
                    group.percentile_s(2000, 0.7, 0.99),
                    queue.percentile_s(500, 0.7, 0.99),
                ),
            ):
                self.assertLess(abs(mine - wanted - 4e-4), 1e-14)
            self.assertLess(
                abs(
                    group.max_rate_per_s(0.7, 0.0504, 0.99)
                    - 4 * queue.max_rate_per_s(0.7, 0.05, 0.99)
                ),
                1e-8,
            )

    def test_against_the_simulation(self):
        """Two servers of one kind, and one of another, twice as often."""
        group = Balanced(
            [Member(SingleQueue(1e-3), 2), Member(ConstantQueue(5e-4), 1, 2.0)]
        )
        rate, bandwidth, count = 1500, 0.8, 1_200_000
        rng = runs.rng(8)
        arrivals = simulation.poisson_ns(rate, count, rng)
        chosen = rng.choice(3, count, p=[0.25, 0.25, 0.5])
        works = simulation.exponential_ns(1e-3, count, rng)
        works[chosen == 2] = 500_000
        times = numpy.zeros_like(arrivals)
        for server in range(3):
            mine = chosen == server
            times[mine] = (
                simulation.fifo_ns(
                    arrivals[mine], works[mine], runs.fluid(bandwidth)
                )
                - arrivals[mine]
            )
        runs.check(self, group, rate, bandwidth, times)

    def test_taking_turns_is_better(self):
        """Balancers that do not throw dice are better, as the class says."""
        rng = runs.rng(9)
        rate, count = 2000, runs.COUNT
        arrivals = simulation.poisson_ns(rate, count, rng)
        works = simulation.exponential_ns(1e-3, count, rng)
        times = numpy.concatenate(
            [
                simulation.fifo_ns(
                    arrivals[turn::4], works[turn::4], runs.fluid(0.7)
                )
                - arrivals[turn::4]
                for turn in range(4)
            ]
        )
        group = Balanced([Member(SingleQueue(1e-3), 4)])
        self.assertLess(times.mean() / 1e9, 0.9 * group.mean_s(rate, 0.7))

    def test_the_fullest_server_decides(self):
        group = Balanced(
            [Member(SingleQueue(1e-3)), Member(SingleQueue(1e-3), weight=3)]
        )
        self.assertLess(abs(group.capacity_per_s(0.6) - 800), 1e-9)
        self.assertRaises(exception.Unstable, group.mean_s, 801, 0.6)
        self.assertLess(abs(group.gap_s(0.01, 0.6) - 0.004), 1e-15)

    def test_refused(self):
        self.assertRaises(exception.InvalidQuantity, Balanced, [])
        for number, weight in ((0, 1), (1, 0), (1.5, 1), (1, math.nan)):
            self.assertRaises(
                exception.InvalidQuantity,
                Member,
                SingleQueue(1),
                number,
                weight,
            )

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.chain."""

import decimal
import itertools
import math

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import chain, simulation, single, tandem
from nova_rt.model.chain import Chain, Stage
from nova_rt.tests.unit.model import runs


def partial_fractions(rates, time_s):
    """P(sum > t) for rates that all differ, in 200 digits: it cancels."""
    with decimal.localcontext(prec=200):
        rates = [decimal.Decimal(rate) for rate in rates]
        total = decimal.Decimal(0)
        for one, rate in enumerate(rates):
            term = (-rate * decimal.Decimal(time_s)).exp()
            for other, next_rate in enumerate(rates):
                if other != one:
                    term *= next_rate / (next_rate - rate)
            total += term
        return total


@ddt.ddt
class TailTest(base.BaseTestCase):
    @ddt.data(
        [100.0, 200.0],
        [100.0, 200.0, 300.0],
        [1.0, 1e6, 1e3],
        [100.0, 100.0 + 1e-6, 100.0 - 1e-6],
        [100.0 + number * 1e-9 for number in range(8)],
        [50.0, 50.0 + 1e-12, 7e4, 7e4 + 1e-8],
    )
    def test_against_200_digits(self, rates):
        for scale in (1e-3, 0.1, 1.0, 5.0, 30.0):
            time_s = scale / min(rates)
            wanted = float(partial_fractions(rates, time_s).ln())
            found = chain.log_tail_of_sum(rates, time_s)
            self.assertLess(abs(found - wanted), 1e-9 * abs(wanted) + 1e-13)

    def test_equal_rates_are_erlang(self):
        for size, load in itertools.product((1, 2, 5, 16), (0.1, 3, 40)):
            wanted = math.log(
                math.fsum(load**k / math.factorial(k) for k in range(size))
            )
            found = chain.log_tail_of_sum([10.0] * size, load / 10)
            self.assertLess(
                abs(found - (wanted - load)),
                1e-11 * abs(wanted - load) + 1e-13,
            )

    def test_two(self):
        for a, b, time_s in ((3, 8, 0.1), (5, 5, 2), (5, 5.0001, 100)):
            self.assertLess(
                abs(
                    chain.log_tail_of_sum([a, b], time_s)
                    - tandem.log_tail_of_two(a, b, time_s)
                ),
                1e-10,
            )


class ChainTest(base.BaseTestCase):
    def test_a_chain_of_one(self):
        one, queue = Chain([Stage(1e-3)], 1e-4), single.SingleQueue(1e-3, 1e-4)
        for ask in (
            lambda model: model.mean_s(600, 0.7),
            lambda model: model.percentile_s(600, 0.7, 0.99),
            lambda model: model.max_rate_per_s(0.7, 0.05, 0.99),
            lambda model: model.min_bandwidth(600, 0.05, 0.99),
        ):
            self.assertLess(abs(ask(one) / ask(queue) - 1), 1e-12)

    def test_against_the_simulation(self):
        """A link, a front end, a link at full speed, a shared back end."""
        stages = (
            Stage(5e-4, 0),
            Stage(1e-3),
            Stage(1e-4, 0),
            Stage(4e-4, 0.5),
        )
        bandwidth, rate = 0.6, 400
        rng = runs.rng(7)
        count = runs.COUNT
        arrivals = simulation.poisson_ns(rate, count, rng)
        now = arrivals
        for stage in stages:
            works = simulation.exponential_ns(stage.service_s, count, rng)
            now = simulation.fifo_ns(
                now,
                works,
                runs.fluid(stage.share * bandwidth or 1),
            )
        runs.check(self, Chain(stages), rate, bandwidth, now - arrivals)

    def test_gaps_of_reservations_only(self):
        model = Chain([Stage(1e-3), Stage(1e-3, 0), Stage(1e-3, 0.5)])
        # P - Q of (0.8, 2) ms and of (0.4, 2) ms
        self.assertLess(abs(model.gap_s(2e-3, 0.4) - (1.2e-3 + 1.6e-3)), 1e-15)

    def test_refused(self):
        for stages in ([], [Stage(1e-3)] * 17):
            self.assertRaises(exception.InvalidQuantity, Chain, stages)
        self.assertRaises(exception.InvalidQuantity, Stage, 0)
        self.assertRaises(exception.InvalidQuantity, Stage, 1, -1)
        self.assertRaises(exception.InvalidQuantity, Stage, 1, math.nan)
        # No CPU is faster than one.
        self.assertRaises(exception.InvalidQuantity, Stage, 1, 1.01)

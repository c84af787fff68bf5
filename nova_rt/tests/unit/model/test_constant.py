# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.constant."""

import decimal
import math

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import constant, simulation, single
from nova_rt.tests.unit.model import runs


def erlang(load, services):
    """P(W > x) by Erlang's formula of 1909, in 400 digits: it cancels."""
    with decimal.localcontext(prec=400):
        load, services = decimal.Decimal(load), decimal.Decimal(services)
        total = decimal.Decimal(0)
        for k in range(math.floor(services) + 1):
            power = load * (services - k)
            term = (-power) ** k if k else decimal.Decimal(1)
            total += term / math.factorial(k) * power.exp()
        return 1 - (1 - load) * total


@ddt.ddt
class ConstantQueueTest(base.BaseTestCase):
    @ddt.data(
        *(
            (load, services)
            for load in (1e-3, 0.1, 0.5, 0.9, 0.999)
            for services in (0.0, 0.3, 1.0, 2.5, 7.99, 20.0, 45.5, 150.25)
        )
    )
    @ddt.unpack
    def test_against_400_digits(self, load, services):
        wanted = float(erlang(load, services).ln())
        if wanted < -600:
            return
        found = constant.log_tail_of_waiting(load, services)
        self.assertLess(abs(found - wanted), 1e-11 * abs(wanted) + 1e-13)

    @ddt.data((500, 0.9, 1e-3), (300, 0.5, 1e-3), (95, 1.0, 1e-2))
    @ddt.unpack
    def test_against_the_simulation(self, rate, bandwidth, service_s):
        rng = runs.rng(4)
        count = 2_000_000
        arrivals = simulation.poisson_ns(rate, count, rng)
        times = (
            simulation.fifo_ns(
                arrivals,
                simulation.constant_ns(service_s, count),
                runs.fluid(bandwidth),
            )
            - arrivals
        )
        queue = constant.ConstantQueue(service_s)
        runs.check(self, queue, rate, bandwidth, times)

    def test_requests_in_the_system_add_up_to_little(self):
        # Little: E[N] = lambda E[R]; P(N > 0) = rho.
        for load in (1e-6, 0.01, 0.5, 0.9, 0.999):
            lengths = constant._Lengths(load)
            queue = constant.ConstantQueue(1.0)
            number = math.fsum(
                lengths.more_than(each) for each in range(60_000)
            )
            self.assertLess(abs(lengths.more_than(0) / load - 1), 1e-12)
            self.assertLess(
                abs(number / (load * queue.mean_s(load, 1.0)) - 1), 1e-9
            )

    def test_no_request_is_faster_than_its_service(self):
        queue = constant.ConstantQueue(1e-3, latency_s=1e-3)
        self.assertEqual(0, queue.fraction(100, 0.5, 0.00399))
        self.assertLess(abs(queue.percentile_s(1, 0.5, 0.5) - 0.004), 1e-15)
        err = self.assertRaises(
            exception.Unreachable, queue.max_rate_per_s, 0.5, 0.0039, 0.5
        )
        self.assertIn('shortest deadline they meet is 4ms', str(err))

    def test_better_than_exponential(self):
        queue, other = constant.ConstantQueue(1e-3), single.SingleQueue(1e-3)
        for rate in (1, 300, 600, 690):
            self.assertLess(
                queue.percentile_s(rate, 0.7, 0.99),
                other.percentile_s(rate, 0.7, 0.99),
            )

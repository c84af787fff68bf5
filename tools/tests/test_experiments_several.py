# SPDX-License-Identifier: Apache-2.0
"""experiments/several.py: requests that move between CPUs."""

import math

import ddt
from oslotest import base

from experiments import several
from nova_rt import exception
from nova_rt.model import many


@ddt.ddt
class SeveralTest(base.BaseTestCase):
    @ddt.data((1, 0.7, 0.5), (1, 0.05, 0.99), (4, 1.0, 0.8), (7, 1.0, 0.1))
    @ddt.unpack
    def test_shared_budgets_at_their_limits(self, cpus, bandwidth, load):
        """One CPU, and whole ones, have nothing to share."""
        rate = load * cpus * bandwidth / 1e-3
        wanted = many.ManyCPUs(cpus, 1e-3).mean_s(rate, bandwidth)
        found = several.mean_shared_s(cpus, 1e-3, rate, bandwidth)
        self.assertLess(abs(found / wanted - 1), 1e-12)

    @ddt.data((2, 0.7, 0.5), (4, 0.7, 0.8), (4, 0.1, 0.9), (64, 0.37, 0.95))
    @ddt.unpack
    def test_shared_budgets(self, cpus, bandwidth, load):
        """The sum of the birth-death process, without a closed form."""
        speed = cpus * bandwidth
        offered = load * speed
        weights = [1.0]
        for requests in range(1, 3000):
            weights.append(weights[-1] * offered / min(requests, speed))
        mean = math.fsum(k * w for k, w in enumerate(weights)) / math.fsum(
            weights
        )
        rate = offered / 1e-3
        found = several.mean_shared_s(cpus, 1e-3, rate, bandwidth)
        self.assertLess(abs(found / (mean / rate) - 1), 1e-9)
        self.assertLess(
            found, many.ManyCPUs(cpus, 1e-3).mean_s(rate, bandwidth)
        )

    def test_shared_budgets_of_very_many_cpus(self):
        """Nobody waits, so each request has a CPU for itself."""
        found = several.mean_shared_s(10_000, 1e-3, 3e6, 0.5)
        self.assertLess(abs(found / 1e-3 - 1), 1e-9)

    def test_shared_budgets_of_what_is_no_quantity(self):
        for words in (
            (0, 1e-3, 100, 0.5),
            (2, 0, 100, 0.5),
            (2, 1e-3, math.nan, 0.5),
            (2, 1e-3, 100, 1.5),
        ):
            self.assertRaises(
                exception.InvalidQuantity, several.mean_shared_s, *words
            )
        self.assertRaises(
            exception.Unstable, several.mean_shared_s, 2, 1e-3, 1000, 0.5
        )

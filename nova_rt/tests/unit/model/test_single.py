# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.single."""

import math

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import single
from nova_rt.tests.unit.model import runs


@ddt.ddt
class SingleQueueTest(base.BaseTestCase):
    def test_by_hand(self):
        # mu u - lambda = 1000 * 0.7 - 500 = 200 requests/s, delta = 1 ms
        queue = single.SingleQueue(1e-3, latency_s=1e-3)
        near = 1e-12
        self.assertLess(abs(queue.mean_s(500, 0.7) - 0.007), near)
        self.assertLess(
            abs(
                queue.percentile_s(500, 0.7, 0.99)
                - (0.002 + math.log(100) / 200)
            ),
            near,
        )
        self.assertLess(
            abs(queue.fraction(500, 0.7, 0.007) - (1 - math.exp(-1))), near
        )

    @ddt.data(
        # The papers' points: load LD/u, and near saturation.
        (500, 0.9, 1e-3),
        (400, 0.5, 1e-3),
        (1250, 0.9, 5e-4),
        (95, 1.0, 1e-2),
    )
    @ddt.unpack
    def test_against_the_simulation(self, rate, bandwidth, service_s):
        queue = single.SingleQueue(service_s)
        load = rate * service_s / bandwidth
        count = runs.COUNT if load < 0.9 else 3_000_000
        times = runs.single(rate, service_s, bandwidth, count)
        runs.check(self, queue, rate, bandwidth, times)

    def test_unstable(self):
        queue = single.SingleQueue(1e-3)
        for rate in (700, 700.0001, 1e15):
            err = self.assertRaises(
                exception.Unstable, queue.mean_s, rate, 0.7
            )
            self.assertEqual(rate, err.rate_per_s)
            self.assertLess(abs(err.capacity_per_s - 700), 1e-9)
            self.assertIn('fewer than 700 requests/s', str(err))

    def test_no_time_left(self):
        queue = single.SingleQueue(1e-3, latency_s=5e-3)
        for deadline in (0.01, 0.001):
            err = self.assertRaises(
                exception.Unreachable, queue.min_bandwidth, 100, deadline, 0.9
            )
            self.assertIn('the round trip takes 10 ms', str(err))
            self.assertEqual(0, queue.fraction(100, 0.7, deadline))

    def test_one_request_takes_too_long(self):
        queue = single.SingleQueue(1e-3)
        err = self.assertRaises(
            exception.Unreachable, queue.max_rate_per_s, 0.5, 0.001, 0.99
        )
        self.assertIn('even one at a time', str(err))
        self.assertIn('9.211ms', err.nearest)

    @ddt.data(0, -1, math.nan, math.inf, -math.inf, 1e300, 1e-300)
    def test_what_is_no_quantity(self, bad):
        queue = single.SingleQueue(1e-3)
        for call in (
            lambda: single.SingleQueue(bad),
            lambda: queue.mean_s(bad, 0.5),
            lambda: queue.mean_s(100, bad),
            lambda: queue.percentile_s(100, 0.5, bad),
            lambda: queue.fraction(100, 0.5, bad),
            lambda: queue.max_rate_per_s(0.5, bad, 0.9),
            lambda: queue.max_rate_per_s(0.5, 0.01, bad),
            lambda: queue.max_rate_per_s(bad, 0.01, 0.9),
            lambda: queue.min_bandwidth(bad, 0.01, 0.9),
            lambda: queue.min_bandwidth(100, bad, 0.9),
            lambda: queue.min_bandwidth(100, 0.01, bad),
        ):
            err = self.assertRaises(exception.InvalidQuantity, call)
            self.assertNotIn('\n', str(err))

    def test_edges(self):
        queue = single.SingleQueue(1e-3, latency_s=0)
        for bad in (1.0, 1.5):
            self.assertRaises(
                exception.InvalidQuantity, queue.percentile_s, 100, 0.5, bad
            )
        self.assertRaises(exception.InvalidQuantity, queue.mean_s, 100, 1.01)
        self.assertRaises(
            exception.InvalidQuantity, single.SingleQueue, 1e-3, -1e-9
        )

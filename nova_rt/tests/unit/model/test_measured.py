# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.measured."""

import math
from unittest import mock

import ddt
import numpy
from oslotest import base
from testtools import content

from nova_rt import exception
from nova_rt.model import (
    confidence,
    constant,
    measured,
    simulation,
    single,
)
from nova_rt.tests.unit.model import runs

# Half short, half long; many short and one very long; gamma-like.
SAMPLES = {
    'two times': (0.5e-3, 1.5e-3),
    'a rare long one': (0.5e-3,) * 99 + (50e-3,),
    'gamma': tuple(runs.rng(9).gamma(4, 0.25e-3, 5000).tolist()),
    'exponential': tuple(runs.rng(9).exponential(1e-3, 5000).tolist()),
}

# The run of it has to be longer to say as much.
_SLOW = ('a rare long one', 0.8)


@ddt.ddt
class MeasuredQueueTest(base.BaseTestCase):
    @ddt.data(*((name, load) for name in SAMPLES for load in (0.3, 0.8)))
    @ddt.unpack
    def test_against_the_simulation(self, name, load):
        samples = SAMPLES[name]
        queue = measured.MeasuredQueue(samples)
        bandwidth = 0.8
        rate = load * bandwidth / queue.mean_service_s
        rng = runs.rng(5)
        count = 2_000_000 if (name, load) == _SLOW else 500_000
        arrivals = simulation.poisson_ns(rate, count, rng)
        works = simulation.drawn_ns(samples, count, rng)
        times = (
            simulation.fifo_ns(arrivals, works, runs.fluid(bandwidth))
            - arrivals
        )
        # The mean is exact, the percentile is a bound.
        runs.check(self, queue, rate, bandwidth, times, fractions=())
        for fraction in (0.5, 0.9, 0.99, 0.999):
            found = confidence.percentile(times, fraction)
            bound = queue.percentile_s(rate, bandwidth, fraction) * 1e9
            text = f'{name}: {found.value / bound:.3f} of the bound'
            self.addDetail(f'{fraction}', content.text_content(text))
            self.assertLess(found.low, bound)
            if fraction >= 0.99:
                self.assertLess(0.5, found.value / bound)

    def test_moments(self):
        queue = measured.MeasuredQueue([1e-3, 3e-3])
        self.assertLess(abs(queue.mean_service_s - 2e-3), 1e-15)
        self.assertLess(abs(queue.variation - 0.25), 1e-12)
        self.assertEqual(3e-3, queue.longest_s)

    def test_equal_times_have_the_mean_of_constant_ones(self):
        queue = measured.MeasuredQueue([1e-3] * 5)
        other = constant.ConstantQueue(1e-3)
        for rate in (1, 300, 690):
            self.assertLess(
                abs(queue.mean_s(rate, 0.7) / other.mean_s(rate, 0.7) - 1),
                1e-12,
            )
            for fraction in (0.5, 0.99, 0.99999):
                exact = other.percentile_s(rate, 0.7, fraction)
                bound = queue.percentile_s(rate, 0.7, fraction)
                self.assertLessEqual(exact, bound * (1 + 1e-12))
        # Near saturation the bound has the right decay.
        bound = queue.percentile_s(690, 0.7, 1 - 1e-9)
        self.assertLess(bound, 1.01 * other.percentile_s(690, 0.7, 1 - 1e-9))

    def test_exponential_decay_is_exact(self):
        # 100,000 quantiles of the exponential distribution.
        steps = (numpy.arange(100_000) + 0.5) / 100_000
        queue = measured.MeasuredQueue(-1e-3 * numpy.log1p(-steps))
        other = single.SingleQueue(1e-3)
        for rate in (500, 650):
            exact = other.percentile_s(rate, 0.7, 0.999)
            bound = queue.percentile_s(rate, 0.7, 0.999)
            self.assertLess(exact, bound * 1.002)
            self.assertLess(bound, 1.2 * exact)

    def test_many_times_go_into_bins_on_the_safe_side(self):
        times = runs.rng(6).gamma(2, 5e-4, 50_000)
        queue = measured.MeasuredQueue(times)
        self.assertEqual(2048, len(queue._times_s))
        with mock.patch.object(measured, '_BINS', 10**6):
            whole = measured.MeasuredQueue(times)
        for load in (0.1, 0.7, 0.99, 0.99999):
            rate = load * 0.5 / queue.mean_service_s
            self.assertEqual(whole.mean_s(rate, 0.5), queue.mean_s(rate, 0.5))
            for fraction in (0.5, 0.99, 0.9999):
                exact = whole.percentile_s(rate, 0.5, fraction)
                found = queue.percentile_s(rate, 0.5, fraction)
                self.assertLessEqual(exact, found * (1 + 1e-9))
                self.assertLess(found, 1.05 * exact)

    @ddt.data([], [[1e-3]], [0.0, 1.0], [-1.0], [math.nan], [1.0, math.inf])
    def test_no_times(self, samples):
        self.assertRaises(
            exception.InvalidQuantity, measured.MeasuredQueue, samples
        )

    def test_extreme_times(self):
        for samples in ([1e-9, 1e3], [1e-15, 2e-15], [1e13, 2e13]):
            queue = measured.MeasuredQueue(samples)
            rate = 0.5 / queue.mean_service_s
            found = queue.percentile_s(rate, 1.0, 0.99)
            self.assertTrue(0 < found < math.inf)

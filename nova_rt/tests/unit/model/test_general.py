# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.general and sample: against formulas, in digits."""

import decimal
import itertools
import math

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import general, sample, single, tandem, trace
from nova_rt.model.services import Service
from nova_rt.tests.unit.model import runs

GeneralQueue = general.GeneralQueue


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
class GeneralQueueTest(base.BaseTestCase):
    def check(self, queue, rate, bandwidth, fraction, exact, share=6e-3):
        """The bounds are around the truth, and near it."""
        low, high = queue.bounds_s(rate, bandwidth, fraction)
        # Not to the last bit of the truth.
        self.assertLessEqual(low, exact * (1 + 1e-9))
        self.assertLessEqual(exact, high * (1 + 1e-9))
        self.assertLess(high, low * (1 + share))

    @ddt.data(*itertools.product(
        (0.1, 0.5, 0.9, 0.99), (1.3, 2.5, 7.99, 20.25, 60.5)
    ))  # fmt: skip
    @ddt.unpack
    def test_constant_against_400_digits(self, load, services):
        late = float(erlang(load, services))
        if late < 1e-9:
            return
        queue = GeneralQueue([1e-3])
        self.check(queue, 700 * load, 0.7, 1 - late, (services + 1) / 700)
        self.assertAlmostEqual(
            (1 + load / (2 * (1 - load))) / 700,
            queue.mean_s(700 * load, 0.7), 12,
        )  # fmt: skip

    @ddt.data(*itertools.product((0.1, 0.8, 0.95), (0.5, 0.99, 1 - 1e-7)))
    @ddt.unpack
    def test_exponential(self, load, fraction):
        rate = 700 * load
        exact = single.SingleQueue(1e-3, 1e-4)
        queue = GeneralQueue(1e-3, 1e-4)
        wanted = exact.percentile_s(rate, 0.7, fraction)
        self.check(queue, rate, 0.7, fraction, wanted)
        self.assertAlmostEqual(
            exact.mean_s(rate, 0.7), queue.mean_s(rate, 0.7), 12
        )
        on_link = tandem.Tandem(1e-3, 1.2e-3, 1e-4)
        queue = GeneralQueue(1e-3, 1e-4, link_s=1.2e-3)
        wanted = on_link.percentile_s(rate, 0.7, fraction)
        self.check(queue, rate, 0.7, fraction, wanted)
        self.assertAlmostEqual(
            on_link.mean_s(rate, 0.7), queue.mean_s(rate, 0.7), 12
        )

    @ddt.data(
        ([0.5e-3] * 99 + [50e-3], 0.5, 1),
        (runs.rng(9).lognormal(-7, 1, 5000), 0.6, 1),
        ([0.4e-3, 1.6e-3], 0.7, 7),
        ([1e-3], 0.5, 40),
    )
    @ddt.unpack
    def test_against_the_simulation(self, samples, load, batch):
        """In batches, each of which waits for those in front of it."""
        queue = GeneralQueue(samples, batch=batch)
        rate = load * 0.8 / queue.mean_service_s
        times = trace.draw(
            Service(samples_s=tuple(samples), batch=batch), 600_000, 5
        ).responses_s(rate, 0.8)
        self.assertLess(abs(times.mean() / queue.mean_s(rate, 0.8) - 1), 0.06)
        for fraction in (0.5, 0.9, 0.99):
            low, high = queue.bounds_s(rate, 0.8, fraction)
            self.assertLess(high, 1.01 * low)
            late = float((times > high).mean())
            # Five standard deviations of a run, whose requests are alike.
            more = 0.3 * (1 - fraction)
            self.assertLess(late, 1 - fraction + more)
            self.assertLess(1 - fraction - more, float((times > low).mean()))

    def test_inverses(self):
        """Each way back keeps what was promised."""
        queue = GeneralQueue(runs.rng(11).gamma(3, 3e-4, 300), 1e-4)
        for load, bandwidth, fraction in itertools.product(
            (0.01, 0.6, 0.97), (0.1, 1.0), (0.5, 0.99, 0.999999)
        ):
            rate = load * queue.capacity_per_s(bandwidth)
            deadline = queue.percentile_s(rate, bandwidth, fraction)
            found = queue.fraction(rate, bandwidth, deadline)
            self.assertLessEqual(fraction, found)
            again = queue.max_rate_per_s(bandwidth, deadline, fraction)
            self.assertLessEqual(rate, again * (1 + 1e-6))
            least = queue.min_bandwidth(rate, deadline, fraction)
            self.assertLessEqual(least, bandwidth * (1 + 1e-6))
            self.assertLessEqual(
                fraction, queue.fraction(rate, least, deadline)
            )

    def test_longer_is_never_more_late(self):
        """Also where the grid changes."""
        queue = GeneralQueue([1e-3, 4e-3])
        late = [
            queue.log_late(300, 0.9, 5e-3 * 1.003**step) for step in range(700)
        ]
        self.assertEqual(sorted(late, reverse=True), late)

    def test_beyond_its_precision(self):
        queue = GeneralQueue([1e-3])
        self.assertRaises(
            exception.Unreachable, queue.percentile_s, 300, 0.7, 1 - 1e-12
        )

    @ddt.data([], [[1e-3]], [0.0, 1.0], [-1.0], [math.nan], [1.0, math.inf])
    def test_no_times(self, samples):
        self.assertRaises(exception.InvalidQuantity, GeneralQueue, samples)

    def test_extreme_times(self):
        for samples in ([1e-9, 1e3], [1e-15, 2e-15], [1e13, 2e13]):
            queue = GeneralQueue(samples)
            rate = 0.5 / queue.mean_service_s
            found = queue.percentile_s(rate, 1.0, 0.99)
            self.assertTrue(0 < found < math.inf)


class SampleTest(base.BaseTestCase):
    def test_autocorrelation(self):
        rng = runs.rng(3)
        free = rng.exponential(1, 5000)
        self.assertIsNone(sample.autocorrelation(free))
        self.assertIsNone(sample.autocorrelation([1.0] * 5000))
        self.assertIsNone(sample.autocorrelation([1.0, 2.0] * 10))
        alike = free + 2 * numpy_shifted(free)
        self.assertLess(0.3, sample.autocorrelation(alike))
        # One that stands out does not hide it, nor make it.
        alike[77] = 1e6
        self.assertLess(0.3, sample.autocorrelation(alike))
        self.assertLess(sample.autocorrelation([1.0, 2.0] * 100), -0.9)

    def test_interval(self):
        """Wider for fewer times; around the answer."""
        times = runs.rng(4).exponential(1e-3, 20_000)
        widths = []
        for count in (200, 20_000):
            queue = GeneralQueue(times[:count])
            low, high = sample.interval_s(times[:count], queue, 500, 0.8, 0.99)
            self.assertLess(low, queue.percentile_s(500, 0.8, 0.99))
            self.assertLess(queue.percentile_s(500, 0.8, 0.99), high)
            widths.append(high / low)
        self.assertLess(widths[1], 1.2)
        self.assertLess(1.5, widths[0])


def numpy_shifted(values):
    """Each value's predecessor."""
    return values[[-1, *range(len(values) - 1)]]

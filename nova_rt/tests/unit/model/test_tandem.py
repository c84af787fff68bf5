# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.tandem."""

import decimal

import ddt
import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import simulation, tandem
from nova_rt.tests.unit.model import runs


def textbook(a, b, time_s):
    """P(X + Y > t) by the textbook's formula, in 60 digits."""
    with decimal.localcontext(prec=60):
        a, b, time_s = (decimal.Decimal(each) for each in (a, b, time_s))
        if a == b:
            return (1 + a * time_s) * (-a * time_s).exp()
        return (b * (-a * time_s).exp() - a * (-b * time_s).exp()) / (b - a)


def times_of(rate, service_s, on_link_s, bandwidth, count=runs.COUNT):
    """Simulated response times of a link and a CPU."""
    rng = runs.rng()
    arrivals = simulation.poisson_ns(rate, count, rng)
    sent = simulation.fifo_ns(
        arrivals, simulation.exponential_ns(on_link_s, count, rng)
    )
    works = simulation.exponential_ns(service_s, count, rng)
    return simulation.fifo_ns(sent, runs.slowed(works, bandwidth)) - arrivals


@ddt.ddt
class TailTest(base.BaseTestCase):
    @ddt.data(
        *(
            (200.0, 200.0 * (1 + apart), time_s)
            for apart in (0, 1e-16, 1e-15, 1e-12, 1e-9, 1e-7, 1e-4, 0.5, 1e6)
            for time_s in (1e-9, 1e-3, 0.1, 2.0)
        )
    )
    @ddt.unpack
    def test_against_60_digits(self, a, b, time_s):
        wanted = float(textbook(a, b, time_s).ln())
        for found in (
            tandem.log_tail_of_two(a, b, time_s),
            tandem.log_tail_of_two(b, a, time_s),
        ):
            self.assertLess(abs(found - wanted), 1e-13 * abs(wanted) + 1e-15)


@ddt.ddt
class TandemTest(base.BaseTestCase):
    @ddt.data(
        (500, 1e-3, 1e-3, 0.9),
        # Both rates equal, nearly equal, and a link near saturation.
        (300, 1e-3, 2e-3, 0.5),
        (300, 1e-3, 1.99e-3, 0.5),
        (450, 1e-3, 2e-3, 0.8),
    )
    @ddt.unpack
    def test_against_the_simulation(self, rate, service_s, on_link_s, u):
        count = runs.COUNT if rate < 400 else 2_000_000
        times = times_of(rate, service_s, on_link_s, u, count)
        exact = tandem.Tandem(service_s, on_link_s)
        runs.check(self, exact, rate, u, times)
        bound = tandem.TandemBound(service_s, on_link_s)
        self.assertEqual(exact.mean_s(rate, u), bound.mean_s(rate, u))
        for fraction in (0.5, 0.9, 0.99, 0.999):
            self.assertLess(
                float(numpy.quantile(times, fraction)) / 1e9,
                bound.percentile_s(rate, u, fraction),
            )

    def test_a_link_that_is_nothing_leaves_a_single_queue(self):
        # The papers: then formula 6 is formula 3 with sqrt(phi) for phi.
        bound = tandem.TandemBound(1e-3, 1e-15)
        exact = tandem.Tandem(1e-3, 1e-15)
        a = 200
        phi = 0.99
        self.assertLess(
            abs(
                bound.percentile_s(500, 0.7, phi) * a
                + float(numpy.log1p(-(phi**0.5)))
            ),
            1e-9,
        )
        self.assertLess(
            abs(exact.percentile_s(500, 0.7, phi) * a + numpy.log1p(-phi)),
            1e-9,
        )

    def test_slow_link(self):
        for kind in (tandem.Tandem, tandem.TandemBound):
            queue = kind(1e-3, 2e-3)
            err = self.assertRaises(
                exception.Unstable, queue.min_bandwidth, 500, 1, 0.9
            )
            self.assertEqual(500, err.capacity_per_s)
            self.assertRaises(
                exception.Unreachable, queue.min_bandwidth, 490, 0.01, 0.9
            )
            self.assertRaises(
                exception.Unreachable, queue.max_rate_per_s, 1, 0.002, 0.99
            )


def dropped(rate, size_bit, bit_per_s, bucket_bit, count=200_000):
    """The part of the requests that a policer drops, in a simulation."""
    rng = runs.rng()
    gaps = rng.exponential(1 / rate, count)
    sizes = rng.exponential(size_bit, count)
    tokens, lost = bucket_bit, 0
    for gap, size in zip(gaps.tolist(), sizes.tolist(), strict=True):
        tokens = min(bucket_bit, tokens + gap * bit_per_s)
        if size <= tokens:
            tokens -= size
        else:
            lost += 1
    return lost / count


@ddt.ddt
class BucketTest(base.BaseTestCase):
    @ddt.data(
        *(
            (load, lost)
            for load in (0.1, 0.5, 0.8, 0.95)
            for lost in (0.1, 0.01, 0.001)
        )
    )
    @ddt.unpack
    def test_few_are_lost(self, load, lost):
        size, bit_per_s = 16_384, 64e6
        rate = load * bit_per_s / size
        bucket = tandem.bucket_bit(size, bit_per_s, rate, lost)
        found = dropped(rate, size, bit_per_s, bucket)
        self.assertLess(found, lost)
        # Nor is it a wild guess: a fifth of it does not do, unless losses
        # themselves relieve the link.
        if load < 0.9:
            found = dropped(rate, size, bit_per_s, bucket / 5)
            self.assertLess(lost, found)

    def test_what_is_none(self):
        self.assertRaises(
            exception.Unstable, tandem.bucket_bit, 16_384, 64e6, 3906.25, 0.1
        )
        for lost in (0, 1, float('nan')):
            self.assertRaises(
                exception.InvalidQuantity,
                tandem.bucket_bit, 16_384, 64e6, 500, lost,
            )  # fmt: skip

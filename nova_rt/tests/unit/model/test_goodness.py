# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.goodness."""

import math
import random

from oslotest import base

from nova_rt import exception
from nova_rt.model import goodness
from nova_rt.model.services import Times


def sample(number, seed, draw):
    generator = random.Random(seed)
    return [draw(generator) for _ in range(number)]


def exponential(generator):
    return generator.expovariate(1000)


class GoodnessTest(base.BaseTestCase):
    def test_levels(self):
        """So many exponential samples are taken for others."""
        runs = 3000
        for number in (20, 100):
            below = [
                goodness.fit(
                    sample(number, f'{number}-{run}', exponential)
                ).goodness.below
                for run in range(runs)
            ]
            for level in (0.15, 0.10, 0.05, 0.025, 0.01):
                share = sum(each <= level for each in below) / runs
                # 99.9 % of a binomial number, and the points' own rounding.
                width = 3.3 * math.sqrt(level * (1 - level) / runs)
                self.assertAlmostEqual(
                    level, share, delta=width + 0.05 * level
                )

    def test_the_mean_does_not_matter(self):
        times = sample(200, 1, exponential)
        wanted = goodness.fit(times).goodness
        for scale in (1e-6, 1e6):
            found = goodness.fit([scale * each for each in times]).goodness
            self.assertAlmostEqual(wanted.distance, found.distance)

    def test_distance(self):
        """Of a sample where it can be seen: the step at the first time."""
        found = goodness.fit([1.0] * 20)
        self.assertAlmostEqual(1 - math.exp(-1), found.goodness.distance)
        times = [0.001] * 10 + [2.0] * 10
        found = goodness.fit(times)
        mean = sum(times) / 20
        self.assertAlmostEqual(
            0.5 - (1 - math.exp(-0.001 / mean)), found.goodness.distance
        )

    def test_others_are_seen(self):
        for draw, variation in (
            (lambda g: g.uniform(0.5, 1.5), 1 / 12),
            (lambda g: g.gammavariate(4, 1), 0.25),
            (lambda g: g.expovariate(1 if g.random() < 0.9 else 0.1), 5.09),
            (lambda g: 1 + g.expovariate(1), 0.25),
        ):
            found = goodness.fit(sample(2000, 3, draw))
            self.assertIs(Times.MEASURED, found.suits)
            self.assertEqual(0.01, found.goodness.below)
            self.assertAlmostEqual(
                variation, found.variation, delta=0.2 * variation
            )
            self.assertIn('less' if variation < 1 else 'more', found.why)

    def test_what_suits(self):
        found = goodness.fit(sample(2000, 4, exponential))
        self.assertIs(Times.EXPONENTIAL, found.suits)
        found = goodness.fit([1e-3] * 50)
        self.assertIs(Times.CONSTANT, found.suits)
        self.assertEqual(0, found.variation)
        found = goodness.fit([0.95e-3, 1.05e-3] * 50)
        self.assertIs(Times.MEASURED, found.suits)

    def test_percentiles(self):
        found = goodness.fit([float(each) for each in range(100, 0, -1)])
        for fraction, wanted in (
            (0.005, 1), (0.01, 1), (0.011, 2), (0.5, 50), (0.99, 99),
            (0.999, 100),
        ):  # fmt: skip
            self.assertEqual(wanted, found.percentile_s(fraction))

    def test_refused(self):
        for times in (
            [], [1.0] * 19, [1.0] * 30 + [0.0], [1.0] * 30 + [-1.0],
            [1.0] * 30 + [math.inf],
        ):  # fmt: skip
            self.assertRaises(exception.InvalidQuantity, goodness.fit, times)

    def test_extremes(self):
        found = goodness.fit([1e-15] * 20 + [1e15] * 20)
        self.assertTrue(math.isfinite(found.variation))

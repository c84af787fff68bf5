# SPDX-License-Identifier: Apache-2.0
"""Laws answer samples with bandwidths."""

import ddt
from oslotest import base

from nova_rt.feedback import captain, law, laws, quantile
from nova_rt.reservation.extra_specs import Adapt


def run(one, limit, samples):
    """Feed samples; returns the limits after each of them."""
    limits = []
    for used, exhausted in samples:
        limit = one.step(law.Sample(used, exhausted), limit)
        limits.append(limit)
    return limits


def at_full(count):
    """Samples of a server that uses all that it has, whatever that is."""
    return [(1.0, True)] * count


@ddt.ddt
class EveryLawTest(base.BaseTestCase):
    def test_each_name_has_one(self):
        self.assertEqual({*Adapt}, {*laws.LAWS})

    @ddt.data(*Adapt)
    def test_decides_each_second(self, adapt):
        one = laws.LAWS[adapt]()
        limits = run(one, 0.2, [(0.2, True)] * 9)
        self.assertEqual([0.2] * 9, limits)
        self.assertGreater(one.step(law.Sample(0.2, True), 0.2), 0.2)

    @ddt.data(*Adapt)
    def test_shrinks_after_a_window(self, adapt):
        one = laws.LAWS[adapt]()
        self.assertEqual([0.8] * 49, run(one, 0.8, [(0.1, False)] * 49))
        self.assertLess(one.step(law.Sample(0.1, False), 0.8), 0.8)

    @ddt.data(*Adapt)
    def test_a_gap_begins_a_window(self, adapt):
        one = laws.LAWS[adapt]()
        run(one, 0.8, [(0.1, False)] * 49)
        one.reset()
        self.assertEqual([0.8] * 49, run(one, 0.8, [(0.1, False)] * 49))

    @ddt.data(*Adapt)
    def test_steady(self, adapt):
        """The same load, served well, moves nothing after a while."""
        one = laws.LAWS[adapt]()
        limits = run(one, 0.8, [(0.3, False), (0.28, False)] * 200)
        self.assertEqual({limits[200]}, {*limits[200:]})
        self.assertLess(0.3, limits[-1])

    @ddt.data(*Adapt)
    def test_takes_the_limit_of_others(self, adapt):
        """A refused proposal: it decides by the present limit."""
        one = laws.LAWS[adapt]()
        for _ in range(3):
            for _ in range(9):
                one.step(law.Sample(0.2, True), 0.2)
            found = one.step(law.Sample(0.2, True), 0.2)
            self.assertLess(0.2, found)
            self.assertLess(found, 0.4)


class CaptainTest(base.BaseTestCase):
    def test_grows_by_the_excess(self):
        """By 1 + the share of exhausted samples - 3 targets."""
        one = captain.Captain(target=0.1)
        samples = [(0.2, True)] * 5 + [(0.1, False)] * 5
        self.assertAlmostEqual(0.2 * (1 + 0.5 - 0.3), run(
            one, 0.2, samples)[-1])  # fmt: skip

    def test_tolerates(self):
        one = captain.Captain(target=0.1)
        samples = [(0.2, True)] * 3 + [(0.1, False)] * 7
        self.assertEqual(0.2, run(one, 0.2, samples)[-1])

    def test_shrinks_to_the_largest_use_and_a_margin(self):
        one = captain.Captain(target=0)
        used = [0.2, 0.3] * 25
        found = run(one, 0.8, [(each, False) for each in used])[-1]
        deviation = (0.05**2 * 50 / 49) ** 0.5
        self.assertAlmostEqual(0.3 + 3 * deviation, found)

    def test_never_by_more_than_half(self):
        one = captain.Captain()
        self.assertEqual(0.4, run(one, 0.8, [(0.01, False)] * 50)[-1])

    def test_not_for_a_tenth(self):
        one = captain.Captain()
        self.assertEqual(0.31, run(one, 0.31, [(0.29, False)] * 50)[-1])

    def test_rolls_back(self):
        """It returns more than it took, within the next second."""
        one = captain.Captain(target=0.05)
        run(one, 0.8, [(0.1, False)] * 50)
        self.assertEqual(0.4, one.step(law.Sample(0.4, True), 0.4))
        self.assertAlmostEqual(1.2, one.step(law.Sample(0.4, True), 0.4))
        # Once.
        self.assertEqual(0.5, one.step(law.Sample(0.1, False), 0.5))

    def test_learns(self):
        """A server that was exhausted has more margin from then on."""
        quiet, burnt = captain.Captain(), captain.Captain()
        run(burnt, 0.8, at_full(50))
        used = [(0.2, False), (0.3, False)] * 25
        self.assertLess(run(quiet, 0.9, used)[-1], run(burnt, 0.9, used)[-1])

    def test_forgives(self):
        """An hour without enough costs no more than a minute."""
        one = captain.Captain()
        run(one, 0.4, at_full(36_000))
        limits = run(one, 0.9, [(0.2, False), (0.25, False)] * 1000)
        self.assertLess(limits[-1], 0.5)


class QuantileTest(base.BaseTestCase):
    def test_quantile_and_surplus(self):
        one = quantile.Quantile(0.9, 0.2)
        used = [each / 100 for each in range(1, 51)]
        found = run(one, 0.9, [(each, False) for each in used])[-1]
        self.assertAlmostEqual(used[44] * 1.2, found)

    def test_finds_the_need(self):
        """A server that uses all it has grows until it has enough."""
        one, limit = quantile.Quantile(), 0.1
        for _ in range(200):
            limit = one.step(law.Sample(min(limit, 0.6), limit < 0.6), limit)
        self.assertAlmostEqual(0.6 * (1 + quantile.SURPLUS), limit)

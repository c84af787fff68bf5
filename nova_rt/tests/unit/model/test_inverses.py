# SPDX-License-Identifier: Apache-2.0
"""Every model: each inverse against forward, and how answers move."""

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base

from nova_rt import exception
from nova_rt.model.many import ManyCPUs
from nova_rt.model.single import SingleQueue
from nova_rt.model.split import Split
from nova_rt.model.tandem import Tandem, TandemBound

NEAR = 1e-9
DELTA_S = 126e-6
MODELS = {
    'single': SingleQueue(1e-3, DELTA_S),
    'tandem': Tandem(1e-3, 8e-4, DELTA_S),
    'tandem, nearly equal': Tandem(1e-3, 1e-3 * (1 + 1e-13), DELTA_S),
    'bound': TandemBound(1e-3, 8e-4, DELTA_S),
    'bound, equal': TandemBound(1e-3, 1e-3, DELTA_S),
    'many': ManyCPUs(3, 3e-3, DELTA_S),
    'split': Split(SingleQueue(1e-3, DELTA_S), 3),
}
#: Load of the bottleneck, from almost nothing to near saturation.
LOADS = (1e-3, 0.3, 0.8, 0.99, 0.999999)
BANDWIDTHS = (0.05, 0.5, 0.95, 1.0)
FRACTIONS = (0.01, 0.5, 0.9, 0.99, 0.999999)
_ABOUT = hypothesis.settings(max_examples=25)


@ddt.ddt
class InverseTest(base.BaseTestCase):
    @ddt.data(*MODELS)
    def test_there_and_back(self, name):
        model = MODELS[name]
        for load in LOADS:
            for bandwidth in BANDWIDTHS if load < 0.9 else (0.5, 1.0):
                rate = load * model.capacity_per_s(bandwidth)
                for fraction in FRACTIONS:
                    self.check_point(model, rate, bandwidth, fraction)

    def check_point(self, model, rate, bandwidth, fraction):
        deadline = model.percentile_s(rate, bandwidth, fraction)
        self.assertLess(2 * DELTA_S, deadline)
        back = model.fraction(rate, bandwidth, deadline)
        self.assertLessEqual(fraction, back + 1e-12)
        # It is the shortest: a little earlier, fewer are there.
        before = model.fraction(rate, bandwidth, deadline * (1 - NEAR))
        self.assertLess(before, fraction)
        self.near(fraction, back)
        # With hardly any load, the rate makes no difference that a double
        # can hold; what comes back has the same percentile all the same.
        found = model.max_rate_per_s(bandwidth, deadline, fraction)
        self.near(deadline, model.percentile_s(found, bandwidth, fraction))
        if rate > 0.1 * model.capacity_per_s(bandwidth):
            self.near(rate, found)
        found = model.min_bandwidth(rate, deadline, fraction)
        self.near(deadline, model.percentile_s(rate, found, fraction))
        self.near(bandwidth, found)

    def near(self, wanted, found, share=NEAR):
        self.assertLess(abs(found / wanted - 1), share)


@ddt.ddt
class AnswersTest(base.BaseTestCase):
    """Answers keep their promise, on the safe side."""

    @ddt.data(*MODELS)
    def test_kept(self, name):
        model = MODELS[name]

        @_ABOUT
        @hypothesis.given(
            rate=st.floats(1, 400),
            deadline=st.floats(5e-3, 0.2),
            fraction=st.floats(0.5, 0.9999),
        )
        def check(rate, deadline, fraction):
            try:
                bandwidth = model.min_bandwidth(rate, deadline, fraction)
            except exception.Unreachable as err:
                self.assertLess(model.fraction(rate, 1.0, deadline), fraction)
                self.assertIn('shortest deadline is ', err.nearest)
                return
            self.assertLessEqual(
                fraction,
                model.fraction(rate, bandwidth, deadline) + 1e-12,
            )
            # It is the smallest: with a little less it is not kept.
            less = bandwidth * (1 - 1e-6)
            if rate < model.capacity_per_s(less):
                self.assertLess(model.fraction(rate, less, deadline), fraction)

        check()

    @ddt.data(*MODELS)
    def test_monotone(self, name):
        """More load is never faster, more bandwidth never slower."""
        model = MODELS[name]
        tiny = 1 + 1e-12

        @_ABOUT
        @hypothesis.given(
            loads=st.tuples(st.floats(1e-3, 0.9999), st.floats(1e-3, 0.9999)),
            widths=st.tuples(st.floats(0.05, 1), st.floats(0.05, 1)),
            fractions=st.tuples(st.floats(0.01, 0.9999), st.floats(0.01, 0.9)),
        )
        def check(loads, widths, fractions):
            light, heavy = sorted(loads)
            narrow, wide = sorted(widths)
            low, high = sorted(fractions)
            capacity = model.capacity_per_s(narrow)
            light, heavy = light * capacity, heavy * capacity
            for ask in (model.mean_s, self.at(model, high)):
                worst = ask(heavy, narrow)
                self.assertLessEqual(ask(light, narrow), worst * tiny)
                self.assertLessEqual(ask(heavy, wide), worst * tiny)
            self.assertLessEqual(
                model.percentile_s(heavy, narrow, low),
                model.percentile_s(heavy, narrow, high) * tiny,
            )
            deadline = model.percentile_s(heavy, narrow, high)
            self.assertLessEqual(
                model.fraction(heavy, narrow, deadline),
                model.fraction(heavy, narrow, 1.5 * deadline) + 1e-12,
            )
            for rate, bandwidth in ((light, narrow), (heavy, wide)):
                self.assertLessEqual(
                    model.fraction(heavy, narrow, deadline),
                    model.fraction(rate, bandwidth, deadline) + 1e-12,
                )

        check()

    @staticmethod
    def at(model, fraction):
        return lambda rate, bandwidth: model.percentile_s(
            rate, bandwidth, fraction
        )

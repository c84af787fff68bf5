# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.roots."""

import math

import ddt
from oslotest import base

from nova_rt.model import roots


@ddt.ddt
class BoundaryTest(base.BaseTestCase):
    @ddt.data(
        (lambda x: 2 - x * x, 0.0, 5.0, math.sqrt(2)),
        (lambda x: x * x - 2, 5.0, 0.0, math.sqrt(2)),
        (lambda x: 1e-9 - x**9, 0.0, 1e9, 0.1),
        (lambda x: math.exp(-x) - 1e-12, 0.0, 1e6, -math.log(1e-12)),
        (lambda x: math.inf if x < 0.75 else -math.inf, 0.0, 1.0, 0.75),
        (lambda x: math.inf if x < 0.75 else 0.75 - x, 0.0, 1.0, 0.75),
        (lambda x: 1.0 if x < 1e-60 else -1.0, 0.0, 1.0, 1e-60),
        (lambda x: 1 / x - 7e9, 0.0, 1.0, 1 / 7e9),
    )
    @ddt.unpack
    def test_last_bits_and_side(self, missing, bad, good, wanted):
        calls = []

        def counted(x):
            calls.append(x)
            return missing(x)

        found = roots.boundary(counted, bad, good)
        self.assertLessEqual(missing(found), 0)
        self.assertLess(abs(found - wanted), 1e-14 * wanted)
        self.assertNotIn(bad, calls)
        self.assertLess(len(calls), 150 if wanted > 1e-50 else 400)

    def test_quick_where_smooth(self):
        calls = []

        def missing(x):
            calls.append(x)
            return 3 - math.exp(x)

        roots.boundary(missing, 0.0, 4.0)
        self.assertLess(len(calls), 20)

    def test_nothing_missing_at_all(self):
        self.assertLess(roots.boundary(lambda x: -1.0, 0.0, 1.0), 1e-60)

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.trace."""

import dataclasses

import ddt
import numpy
from oslotest import base

from nova_rt.model import single, trace
from nova_rt.model.services import Service, choose
from nova_rt.tests.unit.model import runs

EVEN = Service(1e-3, constant=True, periodic=True)


@ddt.ddt
class TraceTest(base.BaseTestCase):
    def test_against_a_loop(self):
        """One queue, and several that do not meet."""
        rng = runs.rng(2)
        ticks = numpy.cumsum(rng.exponential(1, 500))
        works = rng.exponential(1e-3, 500)
        chosen = rng.integers(3, size=500)
        for which in (None, chosen):
            found = trace.Trace(ticks, works, chosen=which).responses_s(
                900, 0.8
            )
            wanted, free = {}, [0.0] * 3
            for number, (tick, work) in enumerate(
                zip(ticks, works, strict=True)
            ):
                cpu = 0 if which is None else which[number]
                free[cpu] = max(free[cpu], tick / 900) + work / 0.8
                wanted.setdefault(cpu, []).append(free[cpu] - tick / 900)
            wanted = numpy.concatenate([wanted[cpu] for cpu in sorted(wanted)])
            self.assertTrue(numpy.allclose(wanted, found, 0, 1e-12))

    def test_even(self):
        """Nothing is random: each waits for its batch at most."""
        model = choose(EVEN).model
        self.assertAlmostEqual(2e-3, model.percentile_s(499, 0.5, 0.999), 9)
        self.assertEqual(1.0, model.fraction(499, 0.5, 0.00201))
        batch = choose(dataclasses.replace(EVEN, batch=4)).model
        self.assertAlmostEqual(8e-3, batch.percentile_s(499, 0.5, 0.99), 9)
        self.assertAlmostEqual(5e-3, batch.mean_s(499, 0.5), 9)
        self.assertAlmostEqual(0.75, batch.fraction(499, 0.5, 0.006), 9)

    def test_jitter_adds_no_more_than_itself(self):
        late = dataclasses.replace(EVEN, jitter_s=5e-3)
        model = choose(late).model
        found = model.percentile_s(400, 0.5, 0.999)
        self.assertTrue(2e-3 < found < 7e-3, found)
        come = trace.draw(late, 5000, 1).instants_s(400)
        self.assertTrue((numpy.diff(come) >= 0).all())
        even = numpy.arange(5000) / 400
        self.assertTrue(((come >= even - 1e-9) & (come < even + 6e-3)).all())

    @ddt.data(*range(4))
    def test_no_fewer_are_promised_to_be_late(self, seed):
        """Other requests of the same kind keep the promise."""
        service = Service(
            1e-3, periodic=True, jitter_s=1e-3, batch=1 + 2 * (seed % 2)
        )
        queue = choose(service).model
        deadline = queue.percentile_s(500, 0.75, 0.99)
        other = trace.draw(service, 500_000, 100 + seed)
        late = float((other.responses_s(500, 0.75) > deadline).mean())
        self.assertLess(late, 0.01)
        self.assertLess(0.007, late)

    def test_poisson(self):
        """As the formula says: a few more may be late."""
        service = Service(1e-3)
        drawn = trace.draw(service, trace.REQUESTS, 3)
        queue = trace.TraceQueue(drawn, 1e-3)
        exact = single.SingleQueue(1e-3)
        deadline = exact.percentile_s(500, 0.8, 0.99)
        self.assertTrue(0.01 < queue.late(500, 0.8, deadline) < 0.016)
        self.assertLess(
            abs(queue.mean_s(500, 0.8) / exact.mean_s(500, 0.8) - 1), 0.03
        )

    def test_recorded(self):
        """Pairs are kept, and counted."""
        come = (0.0, 0.1, 0.2, 0.201, 0.5) * 800
        step = numpy.repeat(numpy.arange(800), 5)
        come = tuple((numpy.array(come) + step).tolist())
        works = (1e-3, 1e-3, 5e-2, 1e-3, 1e-3) * 800
        service = Service(samples_s=works, instants_s=come)
        model = choose(service).model
        rate = trace.rate_of(list(come))
        self.assertAlmostEqual(0.6, model.fraction(rate, 1.0, 2e-3), 9)
        self.assertAlmostEqual(0.6, model.fraction(rate, 1.0, 0.0499), 9)
        self.assertEqual(1.0, model.fraction(rate, 1.0, 0.0501))
        # Twice as fast, the same requests are nearer to each other.
        self.assertLess(model.mean_s(rate, 1.0), model.mean_s(10 * rate, 1.0))

    def test_swinging(self):
        found = trace.swinging(Service(1e-3), 500, 0.8, 0.2)
        come = found.instants_s(500)
        self.assertLess(abs(len(come) / come[-1] / 500 - 1), 0.06)
        counts = numpy.histogram(come, numpy.arange(0, come[-1], 0.05))[0]
        # Poisson counts would have the variance of their mean.
        self.assertLess(5, counts.var() / counts.mean())

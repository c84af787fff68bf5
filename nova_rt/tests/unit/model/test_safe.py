# SPDX-License-Identifier: Apache-2.0
"""No safe answer is below what the simulated scheduler does.

Random services, half of them sized, half with a reservation that is given. A
case has few requests: NOVA_RT_MODEL_REQUESTS says how many all cases
have together. What is asserted is sound all the same:

- each request is held against the theorem;
- a queue that was empty at first has shorter responses than one that has run
  for long, so of N requests at most N (1 - phi) are expected beyond the safe
  percentile. Cases are independent, so what they have above that has a mean
  with a confidence interval.
"""

import math

import fixtures
import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import cbs, general, simulation, sizing
from nova_rt.model.limits import Limits
from nova_rt.model.schedule import Position
from nova_rt.model.single import SingleQueue
from nova_rt.model.tandem import Tandem, TandemBound
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.unit.model import runs
from nova_rt.tests.unit.model.test_theorem import PLACES, REQUESTS

CASES = 500
COUNT = REQUESTS // CASES
FRACTIONS = (0.5, 0.9, 0.99)
#: Normal quantile: 1e-4 beyond.
SIGMAS = 3.72


class Case:
    """A service, its stages, and how its CPU times are drawn.

    :ivar stages: 1 for the CPU and 0 for a link, mean time, a function that
        draws times
    """

    def __init__(self, rng):
        self.rng = rng
        service_s = 10 ** rng.uniform(-4, -1.5)
        kind = int(rng.integers(6))

        def exponential(mean_s):
            return lambda: simulation.exponential_ns(mean_s, COUNT, rng)

        first = (1.0, service_s, exponential(service_s))
        if kind == 0:
            self.model = SingleQueue(service_s)
            self.stages = [first]
        elif kind == 1:
            self.model = general.GeneralQueue([service_s])
            self.stages = [
                (1.0, service_s,
                 lambda: runs.constant_ns(service_s, COUNT)),
            ]  # fmt: skip
        elif kind == 2:
            times_s = service_s * rng.gamma(0.5, 2, 200) + 1e-6
            self.model = general.GeneralQueue(times_s)
            self.stages = [
                (1.0, float(times_s.mean()),
                 lambda: simulation.whole_ns(rng.choice(times_s, COUNT))),
            ]  # fmt: skip
        elif kind == 5:
            link_s = service_s * rng.uniform(0.1, 2)
            self.model = general.GeneralQueue([service_s], link_s=link_s)
            self.stages = [
                (0.0, link_s, exponential(link_s)),
                (1.0, service_s,
                 lambda: runs.constant_ns(service_s, COUNT)),
            ]  # fmt: skip
        else:
            link_s = service_s * rng.uniform(0.1, 2)
            model = Tandem if kind == 3 else TandemBound
            self.model = model(service_s, link_s)
            self.stages = [(0.0, link_s, exponential(link_s)), first]

    def simulate(self, rate, reservation, overhead_us, place):
        """The same requests scheduled, and on fluid CPUs, both in ns.

        :returns: response times, response times, P - Q of all stages
        """
        come = simulation.poisson_ns(rate, COUNT, self.rng)
        done = fluid = come
        gap_ns = 0
        for share, _, draw in self.stages:
            works = draw()
            if not share:
                done = simulation.fifo_ns(done, works)
                fluid = simulation.fifo_ns(fluid, works)
                continue
            runtime_us = math.floor(reservation.runtime_us - overhead_us)
            net = Reservation(runtime_us, reservation.period_us)
            gap_ns += 1000 * (net.period_us - net.runtime_us)
            done = cbs.DeadlineServer(net, place).fifo_ns(done, works)
            slowed = works * net.period_us // net.runtime_us
            fluid = simulation.fifo_ns(fluid, slowed)
        return done - come, fluid - come, gap_ns


class SafeTest(base.BaseTestCase):
    def test_random_cases(self):
        # Coarse bounds are bounds as well, and quick.
        for name, value in (('_EACH', 100), ('_MOST', 1 << 13)):
            self.useFixture(fixtures.MockPatchObject(general, name, value))
        sized, more_late = 0, {fraction: [] for fraction in FRACTIONS}
        above_mean = []
        for seed in range(CASES):
            rng = runs.rng(seed)
            case = Case(rng)
            limits = Limits(min_period_us=100)
            fraction = FRACTIONS[seed % 3]
            period_us = round(10 ** rng.uniform(3, 5.3))
            runtime_us = 20 + round(rng.uniform(0.1, 1) * (period_us - 20))
            reservation = Reservation(runtime_us, period_us)
            bandwidth = sizing.net_bandwidth(reservation, limits)
            capacity = case.model.capacity_per_s(bandwidth)
            rate = capacity * rng.uniform(0.1, 0.97)
            if seed % 2:
                deadline_s = rng.uniform(1.5, 50) * (
                    case.model.percentile_s(capacity / 1e6, 1.0, fraction)
                )
                try:
                    found = sizing.size(
                        case.model, rate, deadline_s, fraction, limits
                    )
                except exception.Unreachable:
                    continue
                sized += 1
                safe_s = deadline_s
            else:
                found = sizing.expect(
                    case.model, rate, fraction, reservation, limits
                )
                safe_s = found.percentile_s + found.gap_s
            place = PLACES[seed % 3 if seed % 5 else 1]
            times, fluid, gap_ns = case.simulate(
                rate, found.reservation, limits.overhead_us, place
            )
            # Less than 1 ns for each request that waits.
            slack_ns = COUNT
            allowed_ns = 0 if place is Position.FIRST else gap_ns
            self.assertLessEqual(
                int((times - fluid).max()), allowed_ns + slack_ns, seed
            )
            self.assertLessEqual(gap_ns, found.gap_s * 1e9 + slack_ns, seed)
            more_late[fraction].append(
                float((times > safe_s * 1e9).mean()) - (1 - fraction)
            )
            safe_mean_ns = (found.mean_s + found.gap_s) * 1e9
            above_mean.append(float(times.mean()) / safe_mean_ns - 1)
        self.assertLess(100, sized)
        for values in (*more_late.values(), above_mean):
            spread = float(numpy.std(values)) / math.sqrt(len(values))
            self.assertLess(float(numpy.mean(values)) - SIGMAS * spread, 0)

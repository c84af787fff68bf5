# SPDX-License-Identifier: Apache-2.0
"""No response is later than on a fluid CPU by more than P - Q.

The proof is in the manual, on the page of the formulas. Here the simulated
scheduler is held against it, request by request, in whole nanoseconds.

NOVA_RT_MODEL_REQUESTS says how many requests to simulate::

    NOVA_RT_MODEL_REQUESTS=10000000 python -m stestr run model.test_theorem
"""

import itertools
import math
import os

import ddt
import numpy
from oslotest import base
from testtools import content

from nova_rt.model import cbs, edf, simulation, supply
from nova_rt.model.schedule import Position
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.unit.model import runs

REQUESTS = int(os.environ.get('NOVA_RT_MODEL_REQUESTS', '200000'))
RESERVATIONS = ((1400, 2000), (200, 2000), (1999, 2000), (6000, 10_000),
                (30_000, 100_000))  # fmt: skip
LOADS = (0.3, 0.8, 0.99)
DISTRIBUTIONS = ('exponential', 'constant', 'two kinds', 'just above Q')
_CASES = tuple(itertools.product(RESERVATIONS, LOADS, DISTRIBUTIONS))
# The places of a CBS.
PLACES = (Position.FIRST, Position.LAST, Position.RANDOM)
# No fewer than that.
COUNT = -(-REQUESTS // (len(_CASES) * len(PLACES)))


def works_ns(kind, reservation, count, rng):
    """CPU times from a hundredth of a period to several."""
    mean_s = reservation.period_us * 10 ** rng.uniform(-2, 0.5) / 1e6
    if kind == 'exponential':
        return simulation.exponential_ns(mean_s, count, rng)
    if kind == 'constant':
        return runs.constant_ns(mean_s, count)
    if kind == 'two kinds':
        long = numpy.where(rng.random(count) < 0.05, 15 * mean_s, mean_s / 4)
        return numpy.ceil(long * 1e9).astype(numpy.int64)
    budgets = rng.integers(1, 4, count)
    return budgets * reservation.runtime_us * 1000 + rng.integers(1, 9, count)


def requests(reservation, load, kind, count, rng):
    """Poisson requests, now and then several at once."""
    works = works_ns(kind, reservation, count, rng)
    share = load * reservation.runtime_us / reservation.period_us
    apart = rng.exponential(works.mean() / share, count)
    apart[rng.random(count) < 0.1] = 0
    return numpy.cumsum(apart.astype(numpy.int64)), works


def late_ns(reservation, arrivals, works, done):
    """The most that a response is later than on the fluid CPU, exactly.

    :returns: how late, a whole number of parts, and how many of them are a
        nanosecond
    """
    common = math.gcd(reservation.runtime_us, reservation.period_us)
    parts = reservation.runtime_us // common
    # In parts of a nanosecond, C/u is a whole number: C times this.
    slowed = numpy.asarray(works) * (reservation.period_us // common)
    fluid = simulation.fifo_ns(numpy.asarray(arrivals) * parts, slowed)
    return int((numpy.asarray(done) * parts - fluid).max()), parts


def another_rule(budget, deadline):
    """A rule for waking up that is not the kernel's.

    It renews what is old, and these always.
    """

    def wake_up(server, now):
        old = server.deadline <= now
        if old or budget:
            server.budget = server.runtime
        if old or deadline:
            server.deadline = now + server.period

    return wake_up


def neighbours(left_ppm, rng, until_ns, rule=edf.kernel):
    """Random servers with what is left of the CPU, at most."""
    found = []
    while left_ppm > 1000:
        period = int(rng.choice([500, 999, 1000, 1001, 1999, 2000, 20_000]))
        most = left_ppm * period // 10**6
        runtime = int(rng.integers(1, most + 1)) if len(found) < 2 else most
        if not runtime:
            break
        left_ppm -= -(-runtime * 10**6 // period)
        apart = rng.exponential(runtime * 2000, until_ns // period // 1000)
        works = rng.integers(1, 2000 * runtime, len(apart))
        if rng.random() < 0.3:
            # One that never sleeps.
            apart[:], works = 0, works * 10
        arrivals = numpy.cumsum(apart.astype(numpy.int64))
        found.append(
            edf.SimulatedServer(
                runtime * 1000, period * 1000, arrivals.tolist(),
                works.tolist(), rule,
            )
        )  # fmt: skip
    return found


@ddt.ddt
class TheoremTest(base.BaseTestCase):
    @ddt.data(*PLACES)
    def test_never_beyond(self, position):
        """In any place that earliest deadline first can give to a budget."""
        highest = 0
        for number, (pair, load, kind) in enumerate(_CASES):
            reservation = Reservation(*pair)
            rng = runs.rng(number)
            arrivals, works = requests(reservation, load, kind, COUNT, rng)
            done = cbs.DeadlineServer(reservation, position, number).fifo_ns(
                arrivals, works
            )
            late, parts = late_ns(reservation, arrivals, works, done)
            gap_ns = 1000 * supply.gap_us(reservation)
            allowed = 0 if position == Position.FIRST else gap_ns
            self.assertLessEqual(late, allowed * parts, (pair, load, kind))
            highest = max(highest, late / (gap_ns * parts))
        self.addDetail('share of P - Q', content.text_content(f'{highest}'))
        if position == Position.LAST:
            self.assertLess(0.9999, highest)

    def test_beside_random_neighbours(self):
        """Event by event, beside other servers that are admitted."""
        highest = 0
        for seed in range(40):
            rng = runs.rng(seed)
            pair = ((1400, 2000), (300, 1000), (9000, 20_000))[seed % 3]
            reservation = Reservation(*pair)
            kind = DISTRIBUTIONS[seed % len(DISTRIBUTIONS)]
            arrivals, works = requests(reservation, 0.8, kind, 200, rng)
            others = neighbours(
                10**6 - reservation.ppm, rng, int(arrivals[-1])
            )
            done = edf.run(
                edf.SimulatedServer(
                    pair[0] * 1000, pair[1] * 1000, arrivals.tolist(),
                    works.tolist(),
                ),
                *others,
            )  # fmt: skip
            late, parts = late_ns(reservation, arrivals, works, done)
            gap_ns = 1000 * supply.gap_us(reservation)
            self.assertLessEqual(late, gap_ns * parts, seed)
            highest = max(highest, late / (gap_ns * parts))
        # Neighbours that happen to be there do not reach it, and come near.
        self.assertTrue(0.3 < highest <= 1, highest)

    @ddt.data((1400, 2000), (200, 2000), (1900, 2000), (50_000, 100_000))
    @ddt.unpack
    def test_reached(self, runtime_us, period_us):
        """A neighbour whose deadline is always a nanosecond earlier."""
        reservation = Reservation(runtime_us, period_us)
        runtime, period = runtime_us * 1000, period_us * 1000
        for budgets in (0, 1, 3):
            work = budgets * runtime + 1
            adversary = edf.SimulatedServer(
                period - runtime, period, [0], [100 * period]
            )
            ours = edf.SimulatedServer(runtime, period, [1], [work])
            done = edf.run(ours, adversary)
            late, parts = late_ns(reservation, [1], [work], done)
            missing = 1000 * supply.gap_us(reservation) - late / parts
            self.assertTrue(0 <= missing <= 60, missing)

    def test_alone_it_is_the_simulated_server(self):
        for seed, position in ((1, Position.FIRST), (2, Position.LAST)):
            rng = runs.rng(seed)
            reservation = Reservation(1400, 2000)
            arrivals, works = requests(
                reservation, 0.8, 'exponential', 2000, rng
            )
            wanted = cbs.DeadlineServer(reservation, position).fifo_ns(
                arrivals, works
            )
            ours = edf.SimulatedServer(
                1_400_000, 2_000_000, arrivals.tolist(), works.tolist()
            )
            found = numpy.array(edf.run(ours))
            if position == Position.FIRST:
                self.assertEqual(wanted.tolist(), found.tolist())
            else:
                self.assertTrue((found <= wanted).all())

    def late_somewhere(self, rule):
        """Whether some server is late, of two that share a CPU."""
        for seed in range(30):
            rng = runs.rng(seed)
            servers, came = [], []
            for pair in ((1400, 2000), (300, 1000)):
                reservation = Reservation(*pair)
                arrivals, works = requests(
                    reservation, 0.95, 'exponential', 300, rng
                )
                came.append((reservation, arrivals, works))
                servers.append(
                    edf.SimulatedServer(
                        pair[0] * 1000, pair[1] * 1000, arrivals.tolist(),
                        works.tolist(), rule,
                    )
                )  # fmt: skip
            edf.run(*servers)
            for server, (reservation, arrivals, works) in zip(
                servers, came, strict=True
            ):
                count = len(server.done)
                if not count:
                    continue
                late, parts = late_ns(
                    reservation, arrivals[:count], works[:count], server.done
                )
                if late > 1000 * supply.gap_us(reservation) * parts:
                    return True
        return False

    def test_the_rule_of_the_kernel(self):
        self.assertFalse(self.late_somewhere(edf.kernel))

    @ddt.data(*itertools.product((False, True), repeat=2))
    @ddt.unpack
    def test_another_rule_breaks_it(self, budget, deadline):
        rule = another_rule(budget, deadline)
        self.assertTrue(self.late_somewhere(rule))

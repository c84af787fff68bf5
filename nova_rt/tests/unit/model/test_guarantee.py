# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.guarantee."""

import ddt
import hypothesis
from hypothesis import strategies as st
import numpy
from oslotest import base
from testtools import content

from nova_rt import exception
from nova_rt.model import cbs, guarantee, supply
from nova_rt.model.guarantee import Arrivals
from nova_rt.model.schedule import Position
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.unit.model import runs

_ABOUT = hypothesis.settings(max_examples=60)
RESERVATIONS = st.integers(100, 100_000).flatmap(
    lambda period: st.builds(
        Reservation, st.integers(2, period), st.just(period)
    )
)
# (Q, P), burst, interval in us, cost in us: light, full, with bursts longer
# than a period, requests longer than Q, and a load of exactly Q/P.
CASES = (
    (1400, 2000, 1, 2000, 1000),
    (1400, 2000, 10, 2000, 1000),
    (1400, 2000, 3, 10_000, 6900),
    (100, 1000, 4, 20_000, 1500),
    (700, 1000, 5, 1000, 700),
    (40_000, 100_000, 2, 30_000, 9000),
)


def requests(case):
    runtime, period, burst, interval_us, cost_us = case
    return Reservation(runtime, period), Arrivals(
        burst, interval_us * 1000, cost_us * 1000
    )


def by_hand(arrivals, reservation, count):
    """The bound with every request looked at."""
    return max(
        supply.time_for_ns(number * arrivals.cost_ns, reservation)
        - max(0, number - arrivals.burst) * arrivals.interval_ns
        for number in range(1, count)
    )


@ddt.ddt
class DelayTest(base.BaseTestCase):
    def test_every_request_at_random(self):
        @_ABOUT
        @hypothesis.given(
            reservation=RESERVATIONS,
            burst=st.integers(1, 9),
            cost=st.integers(1, 10**8),
            load=st.floats(0.01, 0.95),
        )
        def check(reservation, burst, cost, load):
            scale = reservation.period_us / reservation.runtime_us
            arrivals = Arrivals(burst, int(cost * scale / load) + 1, cost)
            self.assertEqual(
                by_hand(arrivals, reservation, 1500),
                guarantee.delay_ns(arrivals, reservation),
            )

        check()

    @ddt.data(*CASES)
    def test_reached_by_the_scheduler(self, case):
        """It is tight: a burst, and neighbours that take what they can."""
        reservation, arrivals = requests(case)
        count = 3000
        come = numpy.zeros(count, numpy.int64)
        come = runs.shaped_ns(come, arrivals.burst, arrivals.interval_ns)
        works = numpy.full(count, arrivals.cost_ns, numpy.int64)
        server = cbs.DeadlineServer(reservation, Position.LAST)
        times = server.fifo_ns(come, works) - come
        found = guarantee.delay_ns(arrivals, reservation)
        self.assertEqual(found, int(times.max()))
        self.assertLessEqual(
            found,
            arrivals.burst
            * arrivals.cost_ns
            * reservation.period_us
            / reservation.runtime_us
            + 1000 * supply.gap_us(reservation),
        )

    @ddt.data(*CASES)
    def test_never_exceeded(self, case):
        """Shaped Poisson and bursts, and the CBS in every position."""
        reservation, arrivals = requests(case)
        bound = guarantee.delay_ns(arrivals, reservation)
        count = 40_000
        rng = runs.rng(12)
        poisson = numpy.cumsum(
            rng.exponential(arrivals.interval_ns, count).astype(numpy.int64)
        )
        # Bursts of 40 at random instants, with rests between them.
        group = numpy.arange(count) // 40
        bursts = numpy.cumsum(
            rng.exponential(45 * arrivals.interval_ns, count // 40 + 1)
        ).astype(numpy.int64)[group]
        works = rng.integers(arrivals.cost_ns // 2, arrivals.cost_ns, count)
        full = numpy.full(count, arrivals.cost_ns, numpy.int64)
        highest = {}
        for name, come in (('poisson', poisson), ('bursts', bursts)):
            shaped = runs.shaped_ns(come, arrivals.burst, arrivals.interval_ns)
            for cost in (works, full):
                for position in ('first', 'last', 'random'):
                    server = cbs.DeadlineServer(
                        reservation, Position(position)
                    )
                    done = server.fifo_ns(shaped, cost)
                    highest[name, position] = int((done - shaped).max())
        for key, most in highest.items():
            self.assertLessEqual(most, bound, key)
        text = '\n'.join(
            f'{" ".join(key)}: {most / bound:.3f} of the bound'
            for key, most in highest.items()
        )
        self.addDetail(f'tightness {case}', content.text_content(text))
        self.assertLess(0.7 * bound, max(highest.values()))

    def test_unstable(self):
        err = self.assertRaises(
            exception.Unstable,
            guarantee.delay_ns,
            Arrivals(1, 1_000_000, 700_001),
            Reservation(700, 1000),
        )
        self.assertEqual(1000, err.rate_per_s)
        self.assertLess(err.capacity_per_s, 1000)

    def test_too_near_to_look_at_all(self):
        # A load of 1 - 1e-9 of Q/P: the line takes over, P - Q at most.
        reservation = Reservation(700, 1000)
        arrivals = Arrivals(3, 1_000_000_000, 699_999_999)
        found = guarantee.delay_ns(arrivals, reservation)
        seen = by_hand(arrivals, reservation, 20_000)
        self.assertLessEqual(seen, found)
        self.assertLessEqual(found, seen + 300_000)


class InverseTest(base.BaseTestCase):
    def test_smallest_runtime(self):
        @_ABOUT
        @hypothesis.given(
            burst=st.integers(1, 9),
            interval=st.integers(10**5, 10**8),
            cost=st.integers(10**3, 10**7),
            deadline=st.integers(10**5, 10**9),
            period=st.integers(100, 50_000),
        )
        def check(burst, interval, cost, deadline, period):
            arrivals = Arrivals(burst, interval, cost)
            found = guarantee.min_runtime_us(arrivals, deadline, period)
            if found is None:
                found = period + 1
            else:
                self.assertLessEqual(
                    guarantee.delay_ns(arrivals, Reservation(found, period)),
                    deadline,
                )
            if found > 2:
                try:
                    less = guarantee.delay_ns(
                        arrivals, Reservation(found - 1, period)
                    )
                except exception.Unstable:
                    return
                self.assertLess(deadline, less)

        check()

    def test_shortest_interval(self):
        @_ABOUT
        @hypothesis.given(
            reservation=RESERVATIONS,
            burst=st.integers(1, 9),
            cost=st.integers(10**3, 10**7),
            deadline=st.integers(10**5, 10**9),
        )
        def check(reservation, burst, cost, deadline):
            found = guarantee.min_interval_ns(
                burst, cost, deadline, reservation
            )
            if found is None:
                one_burst = supply.time_for_ns(burst * cost, reservation)
                self.assertLess(deadline, one_burst)
                return
            self.assertLessEqual(
                guarantee.delay_ns(Arrivals(burst, found, cost), reservation),
                deadline,
            )
            try:
                less = guarantee.delay_ns(
                    Arrivals(burst, found - 1, cost), reservation
                )
            except exception.Unanswerable:
                return
            self.assertLess(deadline, less)

        check()


class ArrivalsTest(base.BaseTestCase):
    def test_rounded_to_what_is_harder(self):
        self.assertEqual(
            Arrivals(2, 333_333_333, 1_000_001),
            Arrivals.of(2, 3, 0.0010000001),
        )

    def test_refused(self):
        for burst, rate, cost in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1.5, 1, 1),
                                  (1, float('nan'), 1), (1, 1, -1),
                                  (1, 1e12, 1)):  # fmt: skip
            self.assertRaises(
                exception.InvalidQuantity, Arrivals.of, burst, rate, cost
            )

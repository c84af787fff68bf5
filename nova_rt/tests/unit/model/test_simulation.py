# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulated scheduler: schedule, simulation, cbs, confidence."""

import itertools

import ddt
import numpy
from oslotest import base

from nova_rt import exception
from nova_rt.model import cbs, confidence, simulation
from nova_rt.model.schedule import Position
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.unit.model import runs


def tick_by_tick(arrivals, works):
    """Find when requests are done, in a loop over instants: slow but clear."""
    left = list(works)
    done = []
    now = 0
    while len(done) < len(left):
        if arrivals[len(done)] <= now:
            left[len(done)] -= 1
            if left[len(done)] == 0:
                done.append(now + 1)
        now += 1
    return done


class SlowCBS:
    """The rules of the kernel, one instant after the other."""

    def __init__(self, runtime, period, last):
        self.runtime, self.period, self.last = runtime, period, last
        self.budget, self.deadline = 0, -1
        self.awake = False
        self.begin = 0

    def place(self, now):
        self.begin = self.deadline - self.budget if self.last else now

    def work(self, now):
        """Whether it serves the work that is there at this instant."""
        if not self.awake:
            self.awake = True
            left = self.deadline - now
            over = self.budget * self.period > left * self.runtime
            if left <= 0 or over:
                self.budget = self.runtime
                self.deadline = now + self.period
            self.place(now)
        if self.budget == 0 and now >= self.deadline:
            self.budget = self.runtime
            self.deadline += self.period
            self.place(now)
        if self.budget == 0 or now < self.begin:
            return False
        self.budget -= 1
        return True


def slow_many(arrivals, works, servers):
    """Find when requests of CPUs with one queue are done, by the rules."""
    done = [None] * len(works)
    left = list(works)
    queue = []
    busy = [None] * len(servers)
    freed = [-1] * len(servers)
    now = coming = 0
    while None in done:
        while coming < len(arrivals) and arrivals[coming] <= now:
            queue.append(coming)
            coming += 1
        for cpu in sorted(range(len(servers)), key=lambda at: (freed[at], at)):
            if busy[cpu] is None and queue:
                busy[cpu] = queue.pop(0)
        for cpu, server in enumerate(servers):
            if busy[cpu] is None:
                server.awake = False
            elif server.work(now):
                left[busy[cpu]] -= 1
                if left[busy[cpu]] == 0:
                    done[busy[cpu]] = now + 1
                    busy[cpu], freed[cpu] = None, now + 1
        now += 1
    return done


def slow_link(arrivals, sizes, bucket):
    """Find when requests leave a token bucket, one part after the other."""
    tokens, now = bucket, 0
    queue, done = list(zip(arrivals, sizes, strict=True)), []
    while queue:
        arrival, size = queue[0]
        if arrival <= now and tokens:
            tokens -= 1
            queue[0] = arrival, size - 1
            if size == 1:
                done.append(now)
                del queue[0]
        else:
            now += 1
            tokens = min(bucket, tokens + 1)
    return done


class FifoTest(base.BaseTestCase):
    def test_against_the_slow_loop(self):
        rng = runs.rng()
        arrivals = numpy.cumsum(rng.integers(0, 12, 300))
        works = rng.integers(1, 9, 300)
        self.assertEqual(
            tick_by_tick(arrivals.tolist(), works.tolist()),
            simulation.fifo_ns(arrivals, works).tolist(),
        )

    def test_too_long(self):
        self.assertRaises(
            exception.InvalidQuantity,
            simulation.poisson_ns,
            1e-6,
            10**6,
            runs.rng(),
        )


class LinkTest(base.BaseTestCase):
    def test_against_the_slow_loop(self):
        rng = runs.rng()
        # Requests that the bucket holds, and others that it does not.
        arrivals = numpy.cumsum(rng.integers(0, 12, 400))
        sizes = rng.integers(1, 10, 400)
        for bucket in (1, 5, 30):
            left = simulation.through_link_ns(arrivals, sizes, bucket)
            wanted = slow_link(arrivals.tolist(), sizes.tolist(), bucket)
            self.assertEqual(wanted, left.tolist())
            self.assertTrue((left > arrivals).any())

    def test_without_a_bucket(self):
        arrivals = numpy.array([3, 4, 90], dtype=numpy.int64)
        sizes = numpy.array([10, 5, 7], dtype=numpy.int64)
        left = simulation.through_link_ns(arrivals, sizes, 0)
        self.assertEqual([13, 18, 97], left.tolist())


@ddt.ddt
class DeadlineServerTest(base.BaseTestCase):
    @ddt.data(*itertools.product((1, 2, 3), (7, 2, 10), ('first', 'last')))
    @ddt.unpack
    def test_against_the_slow_loop(self, cpus, runtime, position):
        # In steps of 10 us, since a reservation has whole microseconds.
        step = 10_000
        rng = runs.rng()
        arrivals = numpy.cumsum(rng.integers(0, 25 // cpus, 400))
        works = rng.integers(1, 12, 400)
        server = cbs.DeadlineServer(
            Reservation(runtime * 10, 100), Position(position)
        )
        slow = [SlowCBS(runtime, 10, position == 'last') for _ in range(cpus)]
        wanted = slow_many(arrivals.tolist(), works.tolist(), slow)
        found = server.fifo_many_ns(arrivals * step, works * step, cpus)
        self.assertEqual(wanted, (found // step).tolist())
        # Only on one CPU is it the same as one queue.
        alone = server.fifo_ns(arrivals * step, works * step)
        self.assertEqual(cpus == 1, found.tolist() == alone.tolist())


class ConfidenceTest(base.BaseTestCase):
    def test_covers(self):
        # 95 % intervals of a known mean: 200 runs, 190 expected, 4 sigma.
        rng = runs.rng()
        hits = sum(
            abs(found.value - 1) < found.half_width
            for found in (
                confidence.mean(rng.exponential(1, 3100), confidence.T_95)
                for _ in range(200)
            )
        )
        self.assertTrue(178 <= hits <= 200, hits)

    def test_highest_percentile(self):
        """Five values beyond it in each batch."""
        for count, wanted in ((3100, 0.95), (31_000, 0.995), (31_030, 0.995)):
            self.assertEqual(wanted, confidence.highest_fraction(count))
        self.assertRaises(
            exception.InvalidQuantity, confidence.highest_fraction, 3099
        )

    def test_too_few(self):
        self.assertRaises(
            exception.InvalidQuantity, confidence.mean, numpy.ones(3099)
        )

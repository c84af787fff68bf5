# SPDX-License-Identifier: Apache-2.0
"""A service in a container whose runtime changes while it runs, simulated.

It serves requests first come, first served, on one CPU with a deadline server
as in :class:`nova_rt.model.cbs.DeadlineServer`, alone on the CPU. A new
runtime counts from the next replenishment on: no fresh budget by changing. The
law is one of nova_rt/feedback, behind the same meter as in
nova-rt-compute, and sees the same counters.
"""

import dataclasses
import itertools
from typing import NamedTuple

from nova_rt.feedback.law import SAMPLE_S, Law
from nova_rt.feedback.meter import Meter

_SAMPLE_NS = round(SAMPLE_S * 1e9)


@dataclasses.dataclass(frozen=True)
class Requests:
    """The requests of a run.

    :ivar arrivals_ns: times that do not fall
    :ivar works_ns: CPU times of at least 1
    :ivar until_ns: the end of the run
    """

    arrivals_ns: list[int]
    works_ns: list[int]
    until_ns: int


class Counters(NamedTuple):
    """The counters of the kernel; see :class:`nova_rt.feedback.meter`."""

    used_us: int
    throttled: int


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The period, and the runtimes of the flavor, microseconds."""

    period_us: int
    runtime_min_us: int
    runtime_max_us: int

    def clamp(self, limit: float) -> int:
        """Return the runtime for a bandwidth, rounded up."""
        wanted = -int(-limit * self.period_us // 1)
        return min(max(wanted, self.runtime_min_us), self.runtime_max_us)


@dataclasses.dataclass
class Run:
    """The outcome of a run.

    :ivar responses_ns: of the requests that were done, in order
    :ivar waiting_ns: times since the arrivals of the others, at the end
    :ivar runtimes_us: in each sample
    """

    responses_ns: list[int]
    waiting_ns: list[int]
    runtimes_us: list[int]

    def count_late(self, deadline_ns: int) -> int:
        """Count the requests with a response after a deadline."""
        times_ns = itertools.chain(self.responses_ns, self.waiting_ns)
        return sum(each > deadline_ns for each in times_ns)

    def reserved(self, period_us: int) -> float:
        """Compute the mean bandwidth, in CPUs."""
        return sum(self.runtimes_us) / len(self.runtimes_us) / period_us


class _Server:
    """The queue and its deadline server at an instant."""

    def __init__(self, requests: Requests, period_us: int) -> None:
        self._requests = requests
        self._period = period_us * 1000
        self._next = 0
        self._left = 0
        self._now = self._budget = self._deadline = 0
        self.responses_ns: list[int] = []
        self.used_ns = self.throttled = 0

    def go_on(self, until: int, runtime: int) -> None:
        """Go on until an instant, with a runtime, in nanoseconds.

        The loops are one function: it runs some million times.
        """
        arrivals, works = self._requests.arrivals_ns, self._requests.works_ns
        count, period = len(arrivals), self._period
        at, left, now = self._next, self._left, self._now
        budget, deadline = self._budget, self._deadline
        while now < until:
            if not left:
                if at == count or arrivals[at] >= until:
                    break
                if arrivals[at] > now:
                    now = arrivals[at]
                    slack = deadline - now
                    if slack <= 0 or budget * period > slack * runtime:
                        budget, deadline = runtime, now + period
                left = works[at]
            if not budget:
                if deadline >= until:
                    break
                now = max(now, deadline)
                budget, deadline = runtime, now + period
            run = min(left, budget, until - now)
            now += run
            left -= run
            budget -= run
            self.used_ns += run
            if not budget:
                self.throttled += 1
            if not left:
                self.responses_ns.append(now - arrivals[at])
                at += 1
        self._next, self._left, self._now = at, left, now
        self._budget, self._deadline = budget, deadline


def simulate(
    requests: Requests, bounds: Bounds, runtime_us: int, law: Law | None
) -> Run:
    """Simulate a service.

    :param runtime_us: at first
    :param law: None to keep the runtime
    :returns: the outcome
    """
    server = _Server(requests, bounds.period_us)
    meter = Meter()
    run = Run(server.responses_ns, [], [])
    for until in range(_SAMPLE_NS, requests.until_ns + 1, _SAMPLE_NS):
        run.runtimes_us.append(runtime_us)
        server.go_on(until, runtime_us * 1000)
        if law is None:
            continue
        counters = Counters(server.used_ns // 1000, server.throttled)
        limit = runtime_us / bounds.period_us
        sample = meter.read(
            {0: counters}, until / 1e9, limit, bounds.period_us / 1e6
        )
        if sample is not None:
            wanted = law.step(sample, limit)
            if wanted != limit:
                runtime_us = bounds.clamp(wanted)
    run.waiting_ns = [
        requests.until_ns - arrival
        for arrival in requests.arrivals_ns[len(run.responses_ns) :]
    ]
    return run

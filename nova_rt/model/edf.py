# SPDX-License-Identifier: Apache-2.0
"""Deadline servers on one CPU, earliest deadline first, event by event.

Written from the kernel's rules and not from :mod:`nova_rt.model.cbs`, which
has no neighbours, only their worst effect. The rule for waking up can be
replaced, so that tests can inject faults.
"""

from collections.abc import Callable, Iterable, Sequence
import math

import numpy

from nova_rt.model.schedule import Nanoseconds
from nova_rt.model.supply import NS_PER_US
from nova_rt.reservation.reservation import Reservation

# More work than there is time.
_FOREVER_NS = 1 << 62


class SimulatedServer:
    """A deadline server and the requests of its container, in order.

    :ivar runtime: Q, in ns like all times here
    :ivar period: P
    :ivar rule: the rule for waking up, such as :func:`kernel`
    :ivar done: completion times of the requests so far
    """

    def __init__(
        self,
        runtime: int,
        period: int,
        arrivals: Sequence[int],
        works: Sequence[int],
        rule: Callable[['SimulatedServer', int], None] | None = None,
    ) -> None:
        self.runtime, self.period = runtime, period
        self.rule = rule or kernel
        self.arrivals, self.works = list(arrivals), list(works)
        self.budget, self.deadline = 0, -1
        self.awake = False
        self.left = 0
        self.done: list[int] = []

    @classmethod
    def busy(cls, reservation: Reservation) -> 'SimulatedServer':
        """A server that never sleeps.

        :returns: the server
        """
        return cls(
            reservation.runtime_us * NS_PER_US,
            reservation.period_us * NS_PER_US,
            [0],
            [_FOREVER_NS],
        )

    @property
    def next_arrival(self) -> float:
        """Arrival of the first request that is not done; else infinite."""
        if len(self.done) < len(self.arrivals):
            return self.arrivals[len(self.done)]
        return math.inf

    def settle(self, now: int) -> None:
        """Wake up, and replenish the budget, if it is time to do so."""
        if not self.awake and self.next_arrival <= now:
            self.awake = True
            self.left = self.works[len(self.done)]
            # Throttled, it stays so: the timer is set for its deadline.
            if self.budget or now >= self.deadline:
                self.rule(self, now)
        if self.awake and not self.budget and now >= self.deadline:
            self.budget = self.runtime
            self.deadline += self.period

    def run(self, until: float, now: int) -> int:
        """Run on the CPU until an instant at most.

        :returns: the instant at which it stops
        """
        step = int(min(self.left, self.budget, until - now))
        self.left -= step
        self.budget -= step
        now += step
        if not self.left:
            self.done.append(now)
            self.awake = self.next_arrival <= now
            if self.awake:
                self.left = self.works[len(self.done)]
        return now


def kernel(server: SimulatedServer, now: int) -> None:
    """update_dl_entity(): a new period unless both can be kept."""
    left = server.deadline - now
    if left <= 0 or server.budget * server.period > left * server.runtime:
        server.budget = server.runtime
        server.deadline = now + server.period


def run(*servers: SimulatedServer) -> list[int]:
    """Schedule servers until the first one has done all its requests.

    :returns: completion times of its requests
    """
    now = 0
    while len(servers[0].done) < len(servers[0].arrivals):
        until = math.inf
        first = None
        for server in servers:
            server.settle(now)
            if server.awake and server.budget:
                if first is None or server.deadline < first.deadline:
                    first = server
            else:
                until = min(
                    until,
                    server.deadline if server.awake else server.next_arrival,
                )
        # An event is still to come, or the first one would be done.
        now = int(until) if first is None else first.run(until, now)
    return servers[0].done


def fifo_ns(
    reservation: Reservation,
    neighbours: Iterable[SimulatedServer],
    arrivals_ns: Nanoseconds,
    works_ns: Nanoseconds,
) -> Nanoseconds:
    """Completion times of the requests beside other servers.

    :param arrivals_ns: times that do not fall
    :param works_ns: CPU times of at least 1
    :returns: times, as many as requests
    """
    ours = SimulatedServer(
        reservation.runtime_us * NS_PER_US,
        reservation.period_us * NS_PER_US,
        arrivals_ns.tolist(),
        works_ns.tolist(),
    )
    return numpy.array(run(ours, *neighbours), dtype=numpy.int64)

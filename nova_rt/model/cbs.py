# SPDX-License-Identifier: Apache-2.0
"""The scheduler itself, simulated: a hard CBS as in SCHED_DEADLINE."""

import heapq
import random

import numpy

from nova_rt.model import inputs
from nova_rt.model.schedule import Nanoseconds, Position
from nova_rt.model.supply import NS_PER_US
from nova_rt.reservation.reservation import Reservation


class DeadlineServer:
    """The deadline server of a container on one CPU.

    The rules of Linux, kernel/sched/deadline.c:

    - When work comes to an idle server whose deadline is over, or whose
      budget q is too much for the time left, q/(d - t) > Q/P, a period
      begins: q = Q, d = t + P. Otherwise the server keeps both
      (update_dl_entity()).
    - While it runs, its budget falls. When it is used up, the server waits
      for its deadline, then has q = Q and d = d + P (replenish_dl_entity()).

    Beside other servers, by earliest deadline first, it has its budget some
    time before its deadline, by its position. The budget that is left runs in
    one piece.

    :ivar reservation: Q and P
    :ivar position: first, last or random
    """

    def __init__(
        self,
        reservation: Reservation,
        position: Position = Position.FIRST,
        seed: int = 0,
    ) -> None:
        self.reservation = reservation
        self.position = position
        self._random = random.Random(seed)  # noqa: S311
        self._runtime = reservation.runtime_us * NS_PER_US
        self._period = reservation.period_us * NS_PER_US

    def _delay(self, slack: int) -> int:
        """Time for which others go first, of the slack that they have."""
        if self.position == Position.FIRST:
            return 0
        if self.position == Position.LAST:
            return slack
        return int(self._random.random() * slack)

    def fifo_ns(
        self, arrivals_ns: Nanoseconds, works_ns: Nanoseconds
    ) -> Nanoseconds:
        """Completion times of the requests, first come, first served.

        :param arrivals_ns: times that do not fall
        :param works_ns: CPU times of at least 1
        :returns: times, as many as requests
        """
        return self.fifo_many_ns(arrivals_ns, works_ns, 1)

    def fifo_many_ns(
        self, arrivals_ns: Nanoseconds, works_ns: Nanoseconds, cpus: int
    ) -> Nanoseconds:
        """The same for several CPUs that share one queue.

        Each CPU has such a server. A request goes to the CPU that is free
        first, of several to the one with the lowest number, and stays there.

        :param cpus: number of them
        :returns: times, as many as requests
        """
        inputs.whole('the number of CPUs', cpus)
        runtime, period = self._runtime, self._period
        # Of each: time at which it is free, number, budget and deadline.
        free = [(-1, cpu, 0, -1) for cpu in range(cpus)]
        done = []
        for arrival, work in zip(
            arrivals_ns.tolist(), works_ns.tolist(), strict=True
        ):
            now, cpu, budget, deadline = free[0]
            if arrival > now:
                # It was idle, and wakes up.
                now = arrival
                left = deadline - now
                if left <= 0 or budget * period > left * runtime:
                    budget, deadline = runtime, now + period
                    left = period
                if budget:
                    now += self._delay(left - budget)
            if work <= budget:
                budget -= work
                now += work
            else:
                # It waits for its deadlines, n of them.
                more = work - budget
                periods = (more - 1) // runtime
                more -= periods * runtime
                now = deadline + periods * period
                deadline = now + period
                now += self._delay(period - runtime) + more
                budget = runtime - more
            heapq.heapreplace(free, (now, cpu, budget, deadline))
            done.append(now)
        return numpy.array(done, dtype=numpy.int64)

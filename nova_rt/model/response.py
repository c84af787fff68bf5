# SPDX-License-Identifier: Apache-2.0
"""Base of all models of response times, with its inversion.

A request's response time R is the time from sending it to having its answer.
Four numbers belong together: the rate of requests, the bandwidth of the
reservation, a deadline D, and the fraction of requests with R <= D. A model
gives each of them from the other three.
"""

import abc
import math

from nova_rt import exception
from nova_rt.model import inputs, nearest, roots

# Error that a sum of doubles may have: a bandwidth that is needed exactly is
# not refused for its last digits.
_ROUNDING = 1e-9
# End of a search for a time: anything longer is no response time.
_FOREVER_S = 1e15
# Of the capacity: with this rate, requests come one at a time.
_IDLE = 1e-9


class ResponseTime(abc.ABC):
    """Response times of a service in a container with a reservation.

    The CPU is fluid here: with bandwidth u = Q/P, work takes 1/u times as
    long (EDGE 2019, equation 2). With a real reservation on one CPU no
    response is later than that by more than P - Q, and none at all if the
    container is alone on its CPU; see :meth:`gap_s`.

    Requests are a Poisson process, served first come, first served. All
    methods refuse invalid quantities (``InvalidQuantity``) and rates at or
    above the capacity (``Unstable``).

    :ivar latency_s: delta, the one-way latency between client and service;
        every response time holds it twice
    :ivar tolerance: relative error, to the safe side, of the result of a
        search; 0 for the last bits
    :ivar gaps: how often P - Q is added: 2 for a service that never sleeps
    """

    tolerance = 0.0
    gaps = 1

    def __init__(self, latency_s: float = 0.0) -> None:
        self.latency_s = inputs.not_negative('the latency', latency_s)

    # Each model implements these. Arguments are checked, and stable; times
    # are without the latency.

    @abc.abstractmethod
    def _capacity_per_s(self, bandwidth: float) -> float: ...

    @abc.abstractmethod
    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float: ...

    @abc.abstractmethod
    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        """ln P(R > time), or of an upper bound; falls with time."""

    # A model may have these in closed form. ``log_late`` is ln(1 - fraction).

    def _percentile_s(
        self, rate_per_s: float, bandwidth: float, log_late: float
    ) -> float:
        high = self._mean_s(rate_per_s, bandwidth)
        while self._log_late(rate_per_s, bandwidth, high) > log_late:
            high *= 2
            if high > _FOREVER_S:
                raise exception.Unreachable(
                    'the percentile is longer than any response time',
                    'choose a lower percentile',
                )
        return roots.boundary(
            lambda t: self._log_late(rate_per_s, bandwidth, t) - log_late,
            0.0,
            high,
            self.tolerance,
        )

    def _max_rate_per_s(
        self, bandwidth: float, time_s: float, log_late: float
    ) -> float | None:
        """The highest rate; None if even the smallest is too high."""
        capacity = self._capacity_per_s(bandwidth)

        def missing(rate_per_s: float) -> float:
            if rate_per_s >= capacity:
                return math.inf
            return self._log_late(rate_per_s, bandwidth, time_s) - log_late

        idle = capacity * _IDLE
        if missing(idle) > 0:
            return None
        return roots.boundary(missing, capacity, idle, self.tolerance)

    def _min_bandwidth(
        self, rate_per_s: float, time_s: float, log_late: float
    ) -> float | None:
        """The smallest bandwidth; None if a whole CPU is too little."""

        def missing(bandwidth: float) -> float:
            if rate_per_s >= self._capacity_per_s(bandwidth):
                return math.inf
            return self._log_late(rate_per_s, bandwidth, time_s) - log_late

        at_most = missing(1.0)
        if at_most > 0:
            return 1.0 if at_most < _ROUNDING else None
        return roots.boundary(missing, inputs.LEAST, 1.0, self.tolerance)

    # Users of a model call these.

    def capacity_per_s(self, bandwidth: float) -> float:
        """The highest rate at which requests can be served.

        :returns: requests/s; a stable rate is below it
        """
        return self._capacity_per_s(inputs.bandwidth(bandwidth))

    def check_stable(self, rate_per_s: float, bandwidth: float) -> None:
        """Refuse rates with which the queue grows without end.

        :raises Unstable: if the rate is at or above the capacity
        """
        inputs.positive('the rate', rate_per_s)
        capacity = self.capacity_per_s(bandwidth)
        if rate_per_s >= capacity:
            raise exception.Unstable(rate_per_s, capacity)

    def mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        """E[R], the mean response time.

        :returns: seconds
        :raises Unanswerable: see the class
        """
        self.check_stable(rate_per_s, bandwidth)
        return 2 * self.latency_s + self._mean_s(rate_per_s, bandwidth)

    def percentile_s(
        self, rate_per_s: float, bandwidth: float, fraction: float
    ) -> float:
        """The time within which a fraction of the requests is answered.

        :param fraction: phi, such as 0.99
        :returns: the smallest deadline D with P(R <= D) >= phi, seconds
        :raises Unanswerable: see the class
        """
        self.check_stable(rate_per_s, bandwidth)
        log_late = _log_late(fraction)
        return 2 * self.latency_s + self._percentile_s(
            rate_per_s, bandwidth, log_late
        )

    def fraction(
        self, rate_per_s: float, bandwidth: float, deadline_s: float
    ) -> float:
        """The fraction of requests answered within a deadline.

        :returns: P(R <= D), from 0 to 1
        :raises Unanswerable: see the class
        """
        late = self.log_late(rate_per_s, bandwidth, deadline_s)
        return -math.expm1(late)

    def log_late(
        self, rate_per_s: float, bandwidth: float, deadline_s: float
    ) -> float:
        """ln of the fraction that misses a deadline, precise for small ones.

        :returns: ln P(R > D), from 0 downwards
        :raises Unanswerable: see the class
        """
        self.check_stable(rate_per_s, bandwidth)
        inputs.positive('the deadline', deadline_s)
        time_s = deadline_s - 2 * self.latency_s
        if time_s <= 0:
            return 0.0
        return min(0.0, self._log_late(rate_per_s, bandwidth, time_s))

    def gap_s(self, period_s: float, bandwidth: float) -> float:
        """The largest lateness of a response against a fluid CPU.

        P - Q, for a hard CBS with the wake-up rule of Linux beside any
        neighbours that are admitted. Let v = d - q/u. Work moves it by 1/u,
        a new budget leaves it where it is, and the wake-up rule is
        v := max(v, t). So behind each request v is at most the end on the
        fluid CPU, and earliest deadline first ends the budget by t <= d - q
        = v + q (1/u - 1) <= v + (P - Q).

        Proved for one CPU, request by request, and reached. Not proved for
        several CPUs that share a queue, where it held in simulation for mean
        and percentiles.

        A server that polls never wakes up, and its budget burns while there
        is nothing to do. So it can be over just when work comes: 2 (P - Q)
        then, as for the periodic resource of Shin and Lee (RTSS 2003).

        :returns: P - Q once or twice, seconds
        """
        return self.gaps * period_s * (1 - bandwidth)

    def max_rate_per_s(
        self, bandwidth: float, deadline_s: float, fraction: float
    ) -> float:
        """The highest rate at which the fraction meets the deadline.

        :returns: requests/s
        :raises Unreachable: if a single request takes too long
        :raises Unanswerable: see the class
        """
        found = self.fastest_per_s(bandwidth, deadline_s, fraction)
        if found is None:
            light = self._capacity_per_s(bandwidth) * _IDLE
            least = nearest.deadline(
                self.percentile_s(light, bandwidth, fraction),
                lambda each: (
                    self.fastest_per_s(bandwidth, each, fraction) is not None
                ),
            )
            wish = nearest.Wish(light, deadline_s, fraction)
            raise exception.Unreachable(
                f'with bandwidth {bandwidth:.6g}, '
                + wish.missed(
                    self.latency_s, 'the requests', ' even one at a time'
                ),
                f'the shortest deadline they meet is {least}',
            )
        return found

    def fastest_per_s(
        self, bandwidth: float, deadline_s: float, fraction: float
    ) -> float | None:
        """The same, with None instead of ``Unreachable``.

        :returns: requests/s; None if a single request takes too long
        :raises InvalidQuantity: see the class
        """
        inputs.bandwidth(bandwidth)
        log_late = _log_late(fraction)
        time_s = inputs.positive('the deadline', deadline_s)
        time_s -= 2 * self.latency_s
        if time_s <= 0:
            return None
        found = self._max_rate_per_s(bandwidth, time_s, log_late)
        if found is None or found < self._capacity_per_s(bandwidth) * _IDLE:
            return None
        return found

    def min_bandwidth(
        self, rate_per_s: float, deadline_s: float, fraction: float
    ) -> float:
        """The smallest bandwidth with which the fraction meets the deadline.

        :returns: Q/P of each CPU, above 0 and at most 1
        :raises Unreachable: if a whole CPU is too little
        :raises Unanswerable: see the class
        """
        wish = nearest.Wish(
            inputs.positive('the rate', rate_per_s), deadline_s, fraction
        )
        found = self._least(wish)
        if found is None:
            raise exception.Unreachable(
                wish.missed(self.latency_s, within=' with whole CPUs'),
                nearest.tell(
                    self,
                    wish,
                    [nearest.Offer(0.0, 1.0)],
                    lambda each: self._least(each) is not None,
                ),
            )
        return min(found, 1.0)

    def _least(self, wish: nearest.Wish) -> float | None:
        """The smallest bandwidth, or None if a whole CPU is too little."""
        log_late = _log_late(wish.fraction)
        time_s = inputs.positive('the deadline', wish.deadline_s)
        time_s -= 2 * self.latency_s
        if time_s <= 0:
            return None
        found = self._min_bandwidth(wish.rate_per_s, time_s, log_late)
        return None if found is None or found > 1 + _ROUNDING else found


def _log_late(fraction: float) -> float:
    """ln(1 - fraction), the logarithm of the fraction that may be late."""
    return math.log1p(-inputs.fraction(fraction))

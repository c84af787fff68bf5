# SPDX-License-Identifier: Apache-2.0
"""Response times that are never exceeded, from real-time calculus.

Beside a percentile, which some requests miss, there is a bound that none
misses, if the requests keep to a token bucket and none costs more than a known
CPU time. All in integers, so that nothing is rounded the wrong way.
"""

import dataclasses
import math

from nova_rt import exception
from nova_rt.model import inputs, supply
from nova_rt.reservation.reservation import MIN_RUNTIME_US, Reservation

# Requests looked at one by one, before a bound on all later ones is taken.
_MAX_LOOKS = 20_000


@dataclasses.dataclass(frozen=True)
class Arrivals:
    """Requests that keep to a token bucket, each with a bounded cost.

    In any interval of length t there are at most burst + t/interval requests,
    rounded down.

    :ivar burst: requests that can come at the same instant
    :ivar interval_ns: time in which a token comes back: 1/r
    :ivar cost_ns: CPU time of each request at most, at full speed
    """

    burst: int
    interval_ns: int
    cost_ns: int

    def __post_init__(self) -> None:
        inputs.whole('the burst', self.burst)
        inputs.whole('the interval in ns', self.interval_ns)
        inputs.whole('the CPU time in ns', self.cost_ns)

    @classmethod
    def of(cls, burst: int, rate_per_s: float, cost_s: float) -> 'Arrivals':
        """Convert a rate and a CPU time, rounded so as to be harder to serve.

        :returns: the arrivals
        :raises InvalidQuantity: for invalid quantities, and rates above 1/ns
        """
        inputs.positive('the rate', rate_per_s)
        inputs.positive('the CPU time', cost_s)
        return cls(
            burst,
            math.floor(min(supply.NS_PER_S / rate_per_s, 1e18)),
            math.ceil(min(cost_s * supply.NS_PER_S, 1e18)),
        )


def delay_ns(arrivals: Arrivals, reservation: Reservation) -> int:
    """The longest response time without the network.

    The largest horizontal distance between the work that has come and the
    supply: the k-th request of a burst comes max(0, k - b) intervals after
    the first one, and is done when k C are supplied::

        max over k >= b of S^-1(k C) - (k - b)/r
        S^-1(w) = (P - Q) ceil(w/Q) + w <= w/u + (P - Q)

    so it is at most b C/u + (P - Q). Source: Le Boudec and Thiran, Network
    Calculus, theorem 1.4.2, with :func:`nova_rt.model.supply.supplied_ns` as
    the service curve from the wake-up that began the server's period; Thiele,
    Chakraborty and Naedele, Real-time calculus, ISCAS 2000. First come, first
    served, on one CPU, beside any neighbours that are admitted.

    After as many requests as fill whole budgets, delays repeat or are
    shorter. Proved, and reached to the nanosecond by neighbours that take
    all that a deadline leaves, unless more than 20000 requests would have to
    be looked at; then it is at most P - Q more.

    :returns: nanoseconds
    :raises Unstable: if the rate times the CPU time is above Q/P
    """
    return _delay_ns(arrivals, reservation, 0)


def _delay_ns(
    arrivals: Arrivals, reservation: Reservation, enough_ns: int
) -> int:
    """The same, or, with ``enough_ns``, a number on the same side of it."""
    runtime = reservation.runtime_us
    period = reservation.period_us
    cost, interval = arrivals.cost_ns, arrivals.interval_ns
    if cost * period > interval * runtime:
        raise exception.Unstable(
            supply.NS_PER_S / interval,
            supply.NS_PER_S * runtime / (cost * period),
        )
    whole = runtime * supply.NS_PER_US
    worst = linear = 0
    for after in range(_MAX_LOOKS):
        if after * cost % whole == 0 and after:
            return worst
        work = (arrivals.burst + after) * cost
        # No later request can take longer: the supply is above this line.
        linear = (
            supply.gap_us(reservation) * supply.NS_PER_US
            - (-work * period // runtime)
            - after * interval
        )
        if linear <= max(worst, enough_ns) or 0 < enough_ns < worst:
            return worst
        done = supply.time_for_ns(work, reservation)
        worst = max(worst, done - after * interval)
    return max(worst, linear)


def min_runtime_us(
    arrivals: Arrivals, deadline_ns: int, period_us: int
) -> int | None:
    """The smallest Q with which no request takes longer than a deadline.

    :param deadline_ns: without the network
    :returns: microseconds, or None if the whole CPU is too little
    :raises InvalidReservation: for an invalid period
    """

    def enough(runtime_us: int) -> bool:
        reservation = Reservation(runtime_us, period_us)
        try:
            return _delay_ns(arrivals, reservation, deadline_ns) <= deadline_ns
        except exception.Unstable:
            return False

    if not enough(period_us):
        return None
    bad, good = MIN_RUNTIME_US - 1, period_us
    while good - bad > 1:
        middle = (good + bad) // 2
        if enough(middle):
            good = middle
        else:
            bad = middle
    return good


def min_interval_ns(
    burst: int, cost_ns: int, deadline_ns: int, reservation: Reservation
) -> int | None:
    """The shortest interval, so the highest rate, that meets a deadline.

    :param deadline_ns: without the network
    :returns: nanoseconds, or None if even one burst takes longer
    :raises InvalidQuantity: for invalid quantities
    """

    def enough(interval_ns: int) -> bool:
        try:
            arrivals = Arrivals(burst, interval_ns, cost_ns)
            found = _delay_ns(arrivals, reservation, deadline_ns)
        except exception.Unstable:
            return False
        return found <= deadline_ns

    # In this time a whole burst is served, so the next begins anew.
    good = supply.time_for_ns(burst * cost_ns, reservation)
    if not enough(good):
        return None
    bad = 0
    while good - bad > 1:
        middle = (good + bad) // 2
        if enough(middle):
            good = middle
        else:
            bad = middle
    return good

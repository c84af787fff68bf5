# SPDX-License-Identifier: Apache-2.0
"""From a service and its deadline to a reservation in whole microseconds."""

from collections.abc import Callable
import dataclasses
import math

from nova_rt import exception
from nova_rt.model import guarantee, inputs, roots, supply
from nova_rt.model.response import ResponseTime
from nova_rt.reservation import MAX_PERIOD_US, MIN_PERIOD_US, Reservation


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a reservation can be.

    :ivar min_period_us: shortest period; the default of the option
    :ivar max_period_us: longest period; the default of the option
    :ivar max_bandwidth: the most of a CPU that a host can promise
    :ivar overhead_us: what switching takes of each budget. A reservation
        loses 3 to 4 us of each period on the CPU of the manual's chapter on
        performance, which executes one instruction per nanosecond; cold
        caches can make it more.
    """

    min_period_us: int = 1_000
    max_period_us: int = 1_000_000
    max_bandwidth: float = 1.0
    overhead_us: float = 5.0

    def __post_init__(self) -> None:
        inputs.whole('the shortest period in us', self.min_period_us)
        inputs.bandwidth(self.max_bandwidth)
        inputs.not_negative('the overhead in us', self.overhead_us)
        if not (
            MIN_PERIOD_US
            <= self.min_period_us
            <= self.max_period_us
            <= MAX_PERIOD_US
        ):
            raise exception.InvalidQuantity(
                f'periods from {self.min_period_us} to {self.max_period_us} '
                f'us: they must be from {MIN_PERIOD_US} to {MAX_PERIOD_US} us'
            )

    def periods_us(self) -> list[int]:
        """Periods to choose from: two digits and zeros, and the limits.

        :returns: microseconds, shortest first
        """
        found = {self.min_period_us, self.max_period_us}
        for power in range(7):
            for digits in range(10, 100):
                period = digits * 10**power
                if self.min_period_us <= period <= self.max_period_us:
                    found.add(period)
        return sorted(found)

    def fit(self, runtime_us: float, period_us: int) -> Reservation | None:
        """A reservation of at least this runtime, with the overhead added.

        :returns: None if it is more than a host can promise
        """
        # At least what the kernel takes: Reservation says why.
        runtime = max(2, math.ceil(runtime_us + self.overhead_us))
        if runtime > self.max_bandwidth * period_us:
            return None
        return Reservation(runtime, period_us)


@dataclasses.dataclass(frozen=True)
class Sizing:
    """A reservation that meets a deadline, and what to expect of it.

    :ivar reservation: for each CPU
    :ivar bandwidth: what of Q/P is left after the overhead, as a fraction
    :ivar gap_s: what the period can add to each response time at most: P - Q
        of what is left after the overhead, for each reservation on the way
    :ivar shift_s: what it does to mean and percentiles, to first order: a
        container alone on its CPUs is faster by this, one that always comes
        last is slower by this, and one beside others is in between. It is
        (P - Q)/2 for each reservation on the way: in a period that begins
        with Q, work is done (P - Q)/2 before the fluid CPU on average. Fair
        where Q is short against the response time.
    :ivar mean_s: E[R] on a CPU that is always there with this bandwidth
    :ivar alone_s: E[R] of a container that is alone on its CPUs, see
        :func:`mean_alone_s`
    :ivar percentile_s: the percentile on such a CPU; that of the reservation
        is at most ``gap_s`` more, and that sum at most the deadline
    """

    reservation: Reservation
    bandwidth: float
    gap_s: float
    shift_s: float
    mean_s: float
    alone_s: float
    percentile_s: float


def size(
    model: ResponseTime,
    rate_per_s: float,
    deadline_s: float,
    fraction: float,
    limits: Limits | None = None,
    period_us: int | None = None,
) -> Sizing:
    """Choose runtime and period for a deadline.

    No response of (Q, P) is later than on a CPU with bandwidth u = Q/P by
    more than P - Q (see :meth:`nova_rt.model.response.ResponseTime.gap_s`),
    so a percentile that holds for D - (P - Q) on the fluid CPU holds for D on
    the real one. With a shorter period u can be smaller, but the overhead o
    of each period weighs more. The period is the one with the smallest sum
    u + o/P; then Q = ceil(u P + o).

    This is proved for models of one CPU and for chains of them. For several
    CPUs (:class:`nova_rt.model.many.ManyCPUs`) it is not: there it held in
    simulation.

    :param fraction: phi, such as 0.99
    :param limits: of the cloud; default: :class:`Limits` as it is
    :param period_us: take this one instead of choosing
    :returns: the reservation, and what to expect
    :raises Unreachable: if no reservation meets the deadline
    :raises Unanswerable: for what is no quantity, or not stable
    """
    limits = limits or Limits()
    inputs.positive('the rate', rate_per_s)
    inputs.positive('the deadline', deadline_s)
    inputs.fraction(fraction)

    def runtime_us(period: int) -> float | None:
        found = _bandwidth(
            model, rate_per_s, deadline_s, math.log1p(-fraction), period
        )
        return None if found is None else found * period

    best = _best(runtime_us, limits, period_us, _shortest_sum)
    if best is None:
        if limits.max_bandwidth == 1:
            # A whole CPU without any period may be too little already.
            model.min_bandwidth(rate_per_s, deadline_s, fraction)
        raise exception.Unreachable(
            f'{fraction:.6g} of {rate_per_s:.6g} requests/s do not meet '
            f'{deadline_s:.6g} s with a bandwidth of at most '
            f'{limits.max_bandwidth:.6g} and periods from '
            f'{period_us or limits.min_period_us} us',
            model.nearest(
                rate_per_s, deadline_s, fraction, limits.max_bandwidth
            ),
        )
    return expect(model, rate_per_s, fraction, best, limits)


def net_bandwidth(
    reservation: Reservation, limits: Limits | None = None
) -> float:
    """What of a reservation is left for the service.

    :returns: (Q - o)/P, a fraction of a CPU
    :raises InvalidQuantity: if nothing is left
    """
    overhead_us = (limits or Limits()).overhead_us
    if overhead_us >= reservation.runtime_us:
        raise exception.InvalidQuantity(
            f'a runtime of {reservation.runtime_us} us is used up by an '
            f'overhead of {overhead_us:g} us'
        )
    return (reservation.runtime_us - overhead_us) / reservation.period_us


def expect(
    model: ResponseTime,
    rate_per_s: float,
    fraction: float,
    reservation: Reservation,
    limits: Limits | None = None,
) -> Sizing:
    """What to expect of a reservation that is given.

    :returns: mean, percentile and what the period can add
    :raises Unanswerable: for what is no quantity, or not stable
    """
    bandwidth = net_bandwidth(reservation, limits)
    gap_s = model.gap_s(reservation.period_us / 1e6, bandwidth)
    return Sizing(
        reservation,
        bandwidth,
        gap_s,
        gap_s / 2,
        model.mean_s(rate_per_s, bandwidth),
        mean_alone_s(model, rate_per_s, bandwidth, gap_s / 2),
        model.percentile_s(rate_per_s, bandwidth, fraction),
    )


def mean_alone_s(
    model: ResponseTime, rate_per_s: float, bandwidth: float, shift_s: float
) -> float:
    """E[R] of a container alone on its CPUs, whatever its period.

    With E[R] of the fluid CPU, and G what a whole CPU would take off it::

        E[R] - G(1 - exp(-shift / G))

    Source: none; it connects two limits. A short period takes off the shift,
    as :class:`Sizing` has it. With a very long one no budget is ever used up,
    and the container has the whole CPU.

    Valid for one CPU. Held against the simulated scheduler with bandwidths
    from 0.2 to 0.9 and loads from 0.3 to 0.9, it is at most 5 % off where the
    shift is at most half of the fluid mean. Beyond that it can be half of the
    truth: simulate then.

    :param bandwidth: what is left of Q/P after the overhead
    :param shift_s: (P - Q)/2, seconds
    :returns: seconds
    """
    fluid_s = model.mean_s(rate_per_s, bandwidth)
    gain_s = fluid_s - model.mean_s(rate_per_s, 1.0)
    if gain_s <= 0:
        return fluid_s
    return fluid_s + gain_s * math.expm1(-shift_s / gain_s)


def size_for_all(
    arrivals: guarantee.Arrivals,
    deadline_s: float,
    latency_s: float = 0.0,
    limits: Limits | None = None,
    period_us: int | None = None,
) -> Reservation:
    """Choose runtime and period so that no request misses the deadline.

    :param latency_s: delta, one way, at most
    :param limits: of the cloud; default: :class:`Limits` as it is
    :param period_us: take this one instead of choosing
    :returns: the reservation with the least bandwidth
    :raises Unreachable: if there is none
    :raises InvalidQuantity: for what is no quantity, or not in the limits
    """
    limits = limits or Limits()
    inputs.positive('the deadline', deadline_s)
    inputs.not_negative('the latency', latency_s)
    time_ns = math.floor((deadline_s - 2 * latency_s) * supply.NS_PER_S)

    def runtime_us(period: int) -> float | None:
        return guarantee.min_runtime_us(arrivals, time_ns, period)

    best = _best(runtime_us, limits, period_us, _least_of_all)
    if best is None:
        burst_s = arrivals.burst * arrivals.cost_ns / supply.NS_PER_S
        raise exception.Unreachable(
            f'a burst of {arrivals.burst} requests is {burst_s:.6g} s of '
            f'work, every {arrivals.interval_ns / 1e9:.6g} s another one '
            f'comes, and the deadline leaves {time_ns / 1e9:.6g} s',
            'ask for a longer deadline, a smaller burst or a lower rate',
        )
    return best


_Runtime = Callable[[int], float | None]
_Choice = Callable[[Callable[[int], float], list[int]], int]


def _best(
    runtime_us: _Runtime,
    limits: Limits,
    period_us: int | None,
    choose: _Choice,
) -> Reservation | None:
    """The reservation of the best period; None if no period will do."""

    def cost(period: int) -> float:
        found = runtime_us(period)
        if found is None:
            return math.inf
        return (found + limits.overhead_us) / period

    if period_us is None:
        period_us = choose(cost, limits.periods_us())
    elif not limits.min_period_us <= period_us <= limits.max_period_us:
        raise exception.InvalidQuantity(
            f'a period of {period_us} us: it must be from '
            f'{limits.min_period_us} to {limits.max_period_us} us'
        )
    runtime = runtime_us(period_us)
    return None if runtime is None else limits.fit(runtime, period_us)


def _shortest_sum(cost: Callable[[int], float], periods: list[int]) -> int:
    """The period with the least cost, where costs fall and then rise."""
    low, high = 0, len(periods) - 1
    while low < high:
        middle = (low + high) // 2
        here, next_one = cost(periods[middle]), cost(periods[middle + 1])
        # Periods that are too long have no cost at all.
        if here <= next_one:
            high = middle
        else:
            low = middle + 1
    return periods[low]


def _least_of_all(cost: Callable[[int], float], periods: list[int]) -> int:
    """The period with the least cost, the longest one of equals."""
    return min(reversed(periods), key=cost)


def _bandwidth(
    model: ResponseTime,
    rate_per_s: float,
    deadline_s: float,
    log_late: float,
    period_us: int,
) -> float | None:
    """The smallest bandwidth that will do with a period, or None."""

    def missing(bandwidth: float) -> float:
        left_s = deadline_s - model.gap_s(period_us / 1e6, bandwidth)
        if left_s < inputs.LEAST or rate_per_s >= model.capacity_per_s(
            bandwidth
        ):
            return math.inf
        return model.log_late(rate_per_s, bandwidth, left_s) - log_late

    if missing(1.0) > 0:
        return None
    return roots.boundary(missing, inputs.LEAST, 1.0)

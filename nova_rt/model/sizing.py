# SPDX-License-Identifier: Apache-2.0
"""From a service and its deadline to a reservation in whole microseconds."""

from collections.abc import Callable
import dataclasses
import math

from nova_rt import exception
from nova_rt.model import (
    guarantee,
    inputs,
    nearest,
    periods,
    roots,
    supply,
    units,
)
from nova_rt.model.limits import Limits
from nova_rt.model.response import ResponseTime
from nova_rt.reservation.reservation import MIN_RUNTIME_US, Reservation

#: Of the fluid mean: :func:`mean_alone_s` is valid up to this shift.
MODERATE_SHIFT = 0.5


@dataclasses.dataclass(frozen=True)
class Sizing:
    """A reservation that meets a deadline, and its expected response times.

    :ivar reservation: for each CPU
    :ivar bandwidth: Q/P less the overhead, as a fraction
    :ivar gap_s: most that the period can add to a response time: P - Q, with
        Q less the overhead, for each reservation on the way
    :ivar shift_s: its effect on mean and percentiles, to first order: a
        container alone on its CPUs is faster by this, one that always comes
        last is slower by this, and one beside others is in between. It is
        (P - Q)/2 for each reservation on the way: in a period that begins
        with Q, work is done (P - Q)/2 before the fluid CPU on average. Fair
        where Q is short against the response time.
    :ivar mean_s: E[R] on a CPU that is always there with this bandwidth
    :ivar alone_s: E[R] of a container that is alone on its CPUs, see
        :func:`mean_alone_s`; None where that is not valid
    :ivar percentile_s: the percentile on such a CPU; that of the reservation
        is at most ``gap_s`` more, and that sum at most the deadline
    :ivar rule: reason for its period; None if the reservation was given
    """

    reservation: Reservation
    bandwidth: float
    gap_s: float
    shift_s: float
    mean_s: float
    alone_s: float | None
    percentile_s: float
    rule: periods.Rule | None = dataclasses.field(default=None, compare=False)


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
    u + o/P, or the longest one with P - Q <= 0.05 D if that is shorter:
    neighbours can add no more than that to a response time.
    Q = ceil(u P + o).

    This is proved for models of one CPU. For CPUs that share a queue
    (:class:`nova_rt.model.many.ManyCPUs`) it is not: there it held in
    simulation.

    :param fraction: phi, such as 0.99
    :param limits: limits of the cloud; by default, those of :class:`Limits`
    :param period_us: the only period, if it is given
    :returns: the reservation, and its expected response times
    :raises Unreachable: if no reservation meets the deadline
    :raises Unanswerable: for invalid quantities, or an unstable queue
    """
    limits = limits or Limits()
    inputs.positive('the rate', rate_per_s)
    inputs.positive('the deadline', deadline_s)
    inputs.fraction(fraction)

    wish = nearest.Wish(rate_per_s, deadline_s, fraction)
    best = _choose(model, wish, limits, period_us)
    if best is None:
        raise exception.Unreachable(
            wish.missed(model.latency_s, within=limits.tell(period_us)),
            nearest.tell(
                model,
                wish,
                limits.offers(period_us),
                lambda each: (
                    _choose(model, each, limits, period_us) is not None
                ),
            ),
        )
    found = expect(model, rate_per_s, fraction, best[0], limits)
    return dataclasses.replace(found, rule=best[1])


def _choose(
    model: ResponseTime,
    wish: nearest.Wish,
    limits: Limits,
    period_us: int | None,
) -> tuple[Reservation, periods.Rule] | None:
    log_late = math.log1p(-wish.fraction)

    def runtime_us(period: int) -> float | None:
        found = _bandwidth(
            model, wish.rate_per_s, wish.deadline_s, log_late, period
        )
        return None if found is None else found * period

    return periods.best(
        runtime_us,
        limits,
        period_us,
        periods.shortest_sum,
        1e6 * periods.SHORT * wish.deadline_s,
    )


def net_bandwidth(
    reservation: Reservation, limits: Limits | None = None
) -> float:
    """Bandwidth of a reservation that is left for the service.

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
    """Predict the response times of a given reservation.

    :returns: mean, percentile and the most that the period can add
    :raises Unanswerable: for invalid quantities, or an unstable queue
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
) -> float | None:
    """E[R] of a container alone on its CPUs.

    With E[R] of the fluid CPU, and G the part of it that a whole CPU saves::

        E[R] - G(1 - exp(-shift / G))

    Source: none; it connects two limits. A short period takes off the shift,
    as :class:`Sizing` has it. With a very long one no budget is ever used up,
    and the container has the whole CPU.

    Valid for one CPU and shifts up to :data:`MODERATE_SHIFT` of the fluid
    mean: compared with the simulated scheduler at bandwidths from 0.2 to 0.9
    and loads from 0.3 to 0.9, it is at most 5 % off there. Beyond, it can be
    half of the truth: simulate then.

    :param bandwidth: Q/P less the overhead
    :param shift_s: (P - Q)/2, seconds
    :returns: seconds; None where it is not valid
    """
    fluid_s = model.mean_s(rate_per_s, bandwidth)
    if shift_s > MODERATE_SHIFT * fluid_s:
        return None
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
    :param limits: limits of the cloud; by default, those of :class:`Limits`
    :param period_us: the only period, if it is given
    :returns: the reservation with the least bandwidth
    :raises Unreachable: if there is none
    :raises InvalidQuantity: for quantities that are invalid or off limits
    """
    limits = limits or Limits()
    inputs.positive('the deadline', deadline_s)
    inputs.not_negative('the latency', latency_s)

    def choose(
        arrivals: guarantee.Arrivals, deadline_s: float
    ) -> Reservation | None:
        time_ns = math.floor((deadline_s - 2 * latency_s) * supply.NS_PER_S)
        found = periods.best(
            lambda period: guarantee.min_runtime_us(arrivals, time_ns, period),
            limits,
            period_us,
            periods.least_of_all,
        )
        return None if found is None else found[0]

    best = choose(arrivals, deadline_s)
    if best is not None:
        return best
    burst_s = arrivals.burst * arrivals.cost_ns / supply.NS_PER_S
    left_s = max(0.0, deadline_s - 2 * latency_s)
    raise exception.Unreachable(
        f'a burst of {arrivals.burst} requests is '
        f'{units.tell_duration(burst_s)} of work, another one comes every '
        f'{units.tell_duration(arrivals.interval_ns / supply.NS_PER_S)}, and '
        f'the deadline leaves {units.tell_duration(left_s)}'
        + limits.tell(period_us),
        _nearest_for_all(
            arrivals, deadline_s, latency_s, limits.offers(period_us), choose
        ),
    )


def _nearest_for_all(
    arrivals: guarantee.Arrivals,
    deadline_s: float,
    latency_s: float,
    offers: list[nearest.Offer],
    choose: Callable[[guarantee.Arrivals, float], Reservation | None],
) -> str:
    if not offers:
        return 'a longer period or more of a CPU is needed'
    cost_s = arrivals.cost_ns / supply.NS_PER_S

    def net(offer: nearest.Offer) -> Reservation:
        period_us = round(offer.period_s * 1e6)
        runtime_us = int(offer.bandwidth * period_us + 1e-6)
        return Reservation(max(MIN_RUNTIME_US, runtime_us), period_us)

    def longest_s(offer: nearest.Offer) -> float:
        try:
            return guarantee.delay_ns(arrivals, net(offer)) / supply.NS_PER_S
        except exception.Unstable:
            return math.inf

    def slowest_s(offer: nearest.Offer) -> float:
        time_ns = math.floor((deadline_s - 2 * latency_s) * supply.NS_PER_S)
        found = guarantee.min_interval_ns(
            arrivals.burst, arrivals.cost_ns, time_ns, net(offer)
        )
        return math.inf if found is None else found / supply.NS_PER_S

    def bears(rate_per_s: float) -> bool:
        changed = guarantee.Arrivals.of(arrivals.burst, rate_per_s, cost_s)
        return choose(changed, deadline_s) is not None

    shortest = nearest.deadline(
        2 * latency_s + min(map(longest_s, offers)),
        lambda each: choose(arrivals, each) is not None,
    )
    highest = nearest.rate(1 / min(map(slowest_s, offers)), bears)
    found = []
    if shortest is not None:
        found.append(f'the shortest deadline is {shortest}')
    if highest is not None:
        found.append(f'the highest rate is {highest}')
    return ', '.join(found) or 'ask for a smaller burst and a longer deadline'


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
    return roots.boundary(missing, inputs.LEAST, 1.0, model.tolerance)

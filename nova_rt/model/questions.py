# SPDX-License-Identifier: Apache-2.0
"""Rates, deadlines and bounds for all requests of a given reservation.

``sizing`` goes from a deadline to a reservation; these go back. Their
promises hold beside any neighbours that are admitted, by the same argument:
a response takes at most P - Q longer than on a CPU that is always there.
"""

import math

from nova_rt import exception
from nova_rt.model import guarantee, inputs, nearest, sizing, supply
from nova_rt.model.limits import Limits
from nova_rt.model.response import ResponseTime
from nova_rt.reservation.reservation import Reservation


def max_rate_per_s(
    model: ResponseTime,
    reservation: Reservation,
    deadline_s: float,
    fraction: float,
    limits: Limits | None = None,
) -> float:
    """The highest rate at which a fraction is promised to meet a deadline.

    :returns: requests/s
    :raises Unreachable: if even requests that come alone are late
    :raises Unanswerable: for invalid quantities
    """
    bandwidth = sizing.net_bandwidth(reservation, limits)
    inputs.positive('the deadline', deadline_s)
    gap_s = model.gap_s(reservation.period_us / 1e6, bandwidth)

    def bears(deadline_s: float) -> float | None:
        left_s = deadline_s - gap_s
        if left_s < inputs.LEAST:
            return None
        return model.fastest_per_s(bandwidth, left_s, fraction)

    found = bears(deadline_s)
    if found is not None:
        return found
    alone = model.capacity_per_s(bandwidth) * 1e-9
    least = nearest.deadline(
        model.percentile_s(alone, bandwidth, fraction) + gap_s,
        lambda each: bears(each) is not None,
    )
    wish = nearest.Wish(alone, deadline_s, fraction)
    raise exception.Unreachable(
        f'with the reservation {reservation}, '
        + wish.missed(model.latency_s, 'the requests', ' even one at a time'),
        f'the shortest deadline they meet is {least}',
    )


def min_deadline_s(
    model: ResponseTime,
    reservation: Reservation,
    rate_per_s: float,
    fraction: float,
    limits: Limits | None = None,
) -> float:
    """The shortest deadline that a fraction is promised to meet.

    :returns: seconds
    :raises Unanswerable: for invalid quantities, or an unstable queue
    """
    found = sizing.expect(model, rate_per_s, fraction, reservation, limits)
    return found.percentile_s + found.gap_s


def fraction(
    model: ResponseTime,
    reservation: Reservation,
    rate_per_s: float,
    deadline_s: float,
    limits: Limits | None = None,
) -> float:
    """The fraction of requests that is promised to meet a deadline.

    :returns: from 0 to 1
    :raises Unanswerable: for invalid quantities, or an unstable queue
    """
    bandwidth = sizing.net_bandwidth(reservation, limits)
    inputs.positive('the deadline', deadline_s)
    gap_s = model.gap_s(reservation.period_us / 1e6, bandwidth)
    left_s = max(deadline_s - gap_s, inputs.LEAST)
    return model.fraction(rate_per_s, bandwidth, left_s)


def longest_s(
    arrivals: guarantee.Arrivals,
    reservation: Reservation,
    latency_s: float = 0.0,
    limits: Limits | None = None,
) -> float:
    """The response time that no request exceeds.

    :param latency_s: delta, one way, at most
    :returns: seconds
    :raises Unstable: if the rate times the CPU time is above what is left
        of Q/P
    :raises InvalidReservation: if nothing is left
    """
    inputs.not_negative('the latency', latency_s)
    overhead_us = math.ceil((limits or Limits()).overhead_us)
    net = Reservation(
        reservation.runtime_us - overhead_us, reservation.period_us
    )
    return guarantee.delay_ns(arrivals, net) / supply.NS_PER_S + 2 * latency_s

# SPDX-License-Identifier: Apache-2.0
"""Which period is the best one."""

from collections.abc import Callable
import math

from nova_rt.model.limits import Limits
from nova_rt.reservation import Reservation

# How many periods next to the best one are tried, on either side.
_NEAR = 6

Runtime = Callable[[int], float | None]
Choice = Callable[[Callable[[int], float], list[int]], int]


def best(
    runtime_us: Runtime,
    limits: Limits,
    period_us: int | None,
    choose: Choice,
) -> Reservation | None:
    """The reservation of the best period.

    :param runtime_us: by period; None where no runtime will do
    :param period_us: take this one
    :param choose: the best one, by its cost
    :returns: None if no period will do
    :raises InvalidQuantity: for a period that the cloud does not allow
    """

    def cost(period: int) -> float:
        found = runtime_us(period)
        if found is None:
            return math.inf
        return (found + limits.overhead_us) / period

    def fit(period: int) -> Reservation | None:
        found = runtime_us(period)
        return None if found is None else limits.fit(found, period)

    if period_us is not None:
        limits.check_period(period_us)
        return fit(period_us)
    periods = limits.periods_us()
    chosen = choose(cost, periods)
    # Rounded up, the chosen one may be too much, and a little worse one not.
    at = periods.index(chosen)
    near = periods[max(0, at - _NEAR) : at + _NEAR + 1]
    near.sort(key=lambda period: abs(period - chosen))
    return next(filter(None, map(fit, near)), None)


def shortest_sum(cost: Callable[[int], float], periods: list[int]) -> int:
    """Find the period with the least cost, where costs fall and then rise.

    :returns: microseconds
    """
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


def least_of_all(cost: Callable[[int], float], periods: list[int]) -> int:
    """Find the period with the least cost, the longest one of equals.

    :returns: microseconds
    """
    return min(reversed(periods), key=cost)

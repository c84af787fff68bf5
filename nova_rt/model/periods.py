# SPDX-License-Identifier: Apache-2.0
"""Choice of the best period."""

from collections.abc import Callable
import enum
import math

from nova_rt.model import supply, units
from nova_rt.model.limits import Limits
from nova_rt.reservation.reservation import Reservation

#: Of the deadline: neighbours may add so much to a response time.
SHORT = 0.05

Runtime = Callable[[int], float | None]
Choice = Callable[[Callable[[int], float], list[int]], int]


class Rule(enum.Enum):
    """Reason for the choice of a period."""

    GIVEN = enum.auto()
    #: it needs the least bandwidth
    LEAST = enum.auto()
    #: it is the longest with a short gap
    SHORT = enum.auto()


def best(
    runtime_us: Runtime,
    limits: Limits,
    period_us: int | None,
    choose: Choice,
    gap_us: float = math.inf,
) -> tuple[Reservation, Rule] | None:
    """The reservation of the best period.

    :param runtime_us: smallest runtime for a period; None if there is none
    :param period_us: the only period, if it is given
    :param choose: finds the best period, by its cost
    :param gap_us: a shorter one is taken if P - Q is longer than this, and
        there is one with which it is not
    :returns: it and the rule that chose it; None if no period will do
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
        found = fit(period_us)
        return None if found is None else (found, Rule.GIVEN)
    periods = limits.periods_us()
    chosen = choose(cost, periods)
    if runtime_us(chosen) is None:
        return None
    # Rounded up, the chosen one may be too much, and a little worse one not.
    near = sorted(periods, key=lambda period: abs(period - chosen))
    found = next(filter(None, map(fit, near)), None)
    if found is None:
        return None
    if supply.gap_us(found) <= gap_us:
        return found, Rule.LEAST
    short = _shorter(periods[: periods.index(found.period_us)], fit, gap_us)
    return (found, Rule.LEAST) if short is None else (short, Rule.SHORT)


def _shorter(
    periods: list[int],
    fit: Callable[[int], Reservation | None],
    gap_us: float,
) -> Reservation | None:
    """The longest of these periods with a short gap."""
    best = None
    low, high = 0, len(periods) - 1
    while low <= high:
        middle = (low + high) // 2
        found = fit(periods[middle])
        if found is not None and supply.gap_us(found) <= gap_us:
            best, low = found, middle + 1
        else:
            high = middle - 1
    return best


def tell(rule: Rule, reservation: Reservation, limits: Limits) -> str:
    """Explain why a period was chosen.

    :returns: a sentence
    """
    period = units.tell_duration(reservation.period_us / 1e6)
    switching = f'each one costs {limits.overhead_us:g} us of switching'
    if rule is Rule.GIVEN:
        return f'{period} was asked for.'
    if rule is Rule.SHORT:
        return (
            f'{period} is the longest with P - Q of at most '
            f'{100 * SHORT:g} % of the deadline, which is what neighbours can '
            f'add. A longer one needs less of a CPU: {switching}.'
        )
    if reservation.period_us == limits.min_period_us:
        return (
            f'{period} is the shortest that the cloud allows. A longer one '
            'needs more of a CPU, to make up for P - Q.'
        )
    if reservation.period_us == limits.max_period_us:
        return (
            f'{period} is the longest that the cloud allows. A shorter one '
            f'needs more of a CPU: {switching}.'
        )
    return (
        f'{period} needs the least of a CPU: a longer one has to make up for '
        f'P - Q, and {switching}.'
    )


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

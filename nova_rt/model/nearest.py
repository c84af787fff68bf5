# SPDX-License-Identifier: Apache-2.0
"""The nearest possible requests, for a refusal, ready to be typed back.

Each number is rounded to the safe side and tried as it is printed, so that a
refusal never names a value that would be refused again.
"""

from collections.abc import Callable, Sequence
import dataclasses
import decimal
from typing import Any

from nova_rt import exception
from nova_rt.model import inputs, units

# Steps that double, from the fourth digit on: three digits more than enough.
_TRIES = 16
# Of many periods, every 24th is tried at first, then those near the best.
_STRIDES = (24, 6, 1)
# A rate at which requests come alone.
_IDLE = 1e-9


@dataclasses.dataclass(frozen=True)
class Wish:
    """A rate, a deadline and a fraction that somebody asked for.

    :ivar fraction: fraction of the requests that must be in time
    """

    rate_per_s: float
    deadline_s: float
    fraction: float

    def missed(
        self, latency_s: float, requests: str = '', within: str = ''
    ) -> str:
        """Describe its refusal.

        :param latency_s: one way
        :param requests: the requests, in words; default: their rate
        :param within: the end of the clause
        :returns: a clause
        """
        requests = requests or f'{self.rate_per_s:.6g} requests/s'
        text = (
            f'{units.tell_percentile(self.fraction)} % of {requests} do not '
            f'meet {units.tell_duration(self.deadline_s)}{within}'
        )
        if self.deadline_s <= 2 * latency_s:
            trip = units.tell_duration(units.round_up(2 * latency_s))
            text += f', since the round trip takes {trip}'
        return text


@dataclasses.dataclass(frozen=True)
class Offer:
    """The most bandwidth that is available with one period.

    :ivar period_s: 0 for a CPU that is always there
    :ivar bandwidth: bandwidth that is left for the service
    """

    period_s: float
    bandwidth: float


Accepts = Callable[[Wish], bool]
# A nova_rt.model.response.ResponseTime, which imports this module.
_Model = Any


def tell(
    model: _Model,
    wish: Wish,
    offers: Sequence[Offer],
    accepts: Accepts,
) -> str:
    """Describe the alternatives if one of three wishes is given up.

    :param offers: the available bandwidth, by period
    :param accepts: whether a wish is granted
    :returns: a clause
    """
    if not offers:
        return 'a longer period or more of a CPU is needed'
    found = [
        f'the {name} is {text}'
        for name, text in (
            ('shortest deadline', _deadline(model, wish, offers, accepts)),
            ('highest rate', _rate(model, wish, offers, accepts)),
            ('highest percentile', _percentile(model, wish, offers, accepts)),
        )
        if text is not None
    ]
    if found:
        return ', '.join(found)
    # Both the rate and the deadline are out of reach.
    most = max(model.capacity_per_s(offer.bandwidth) for offer in offers)
    rate = units.tell_rate(most / 2)
    wish = dataclasses.replace(wish, rate_per_s=units.rate_per_s(rate))
    text = _deadline(model, wish, offers, accepts)
    if text is None:
        return 'ask for a longer deadline and a lower rate'
    return f'with a rate of {rate} the shortest deadline is {text}'


def deadline(least_s: float, meets: Callable[[float], bool]) -> str | None:
    """The shortest deadline that will do, as people write it.

    :param least_s: an estimate of it
    :param meets: whether a deadline will do
    :returns: such as ``15.36ms``; None if none near it will do
    """
    return _typed(
        least_s, 1, units.round_up, _write_duration, units.duration_s,
        meets,
    )  # fmt: skip


def rate(most_per_s: float, bears: Callable[[float], bool]) -> str | None:
    """The highest rate that will do, as people write it.

    :param most_per_s: an estimate of it
    :param bears: whether a rate will do
    :returns: such as ``457.5/s``; None if none near it will do
    """
    return _typed(
        most_per_s, -1, units.round_down, units.tell_rate, units.rate_per_s,
        bears,
    )  # fmt: skip


def _write_duration(seconds: float) -> str:
    """Write a time as one word, for a shell."""
    return units.tell_duration(seconds).replace(' ', '')


def _typed(
    value: float,
    way: int,
    rounded: Callable[[float], float],
    write: Callable[[float], str],
    read: Callable[[str], float],
    accepts: Callable[[float], bool],
) -> str | None:
    if not inputs.LEAST <= value <= inputs.MOST:
        return None
    number = decimal.Decimal(repr(rounded(value)))
    digit = decimal.Decimal((0, (1,), number.adjusted() - 3))
    for step in range(_TRIES):
        text = write(float(number))
        if accepts(read(text)):
            return text
        number += way * digit * 2**step
        if number <= 0:
            break
    return None


def _left_s(model: _Model, wish: Wish, offer: Offer) -> float:
    """Part of the deadline that P - Q leaves."""
    gap_s: float = model.gap_s(offer.period_s, offer.bandwidth)
    return wish.deadline_s - gap_s


def _deadline(
    model: _Model,
    wish: Wish,
    offers: Sequence[Offer],
    accepts: Accepts,
) -> str | None:
    def cost(offer: Offer) -> float:
        if wish.rate_per_s >= model.capacity_per_s(offer.bandwidth):
            return float('inf')
        try:
            least_s: float = model.percentile_s(
                wish.rate_per_s, offer.bandwidth, wish.fraction
            )
        except exception.Unreachable:
            return float('inf')
        return least_s + float(model.gap_s(offer.period_s, offer.bandwidth))

    return deadline(
        least(cost, offers),
        lambda found: accepts(dataclasses.replace(wish, deadline_s=found)),
    )


def _rate(
    model: _Model,
    wish: Wish,
    offers: Sequence[Offer],
    accepts: Accepts,
) -> str | None:
    def cost(offer: Offer) -> float:
        left_s = _left_s(model, wish, offer)
        if left_s < inputs.LEAST:
            return 0.0
        found = model.fastest_per_s(offer.bandwidth, left_s, wish.fraction)
        return -(found or 0.0)

    return rate(
        -least(cost, offers),
        lambda found: accepts(dataclasses.replace(wish, rate_per_s=found)),
    )


def _percentile(
    model: _Model,
    wish: Wish,
    offers: Sequence[Offer],
    accepts: Accepts,
) -> str | None:
    def cost(offer: Offer) -> float:
        left_s = _left_s(model, wish, offer)
        if left_s < inputs.LEAST or wish.rate_per_s >= model.capacity_per_s(
            offer.bandwidth
        ):
            return 1.0
        found = model.fraction(wish.rate_per_s, offer.bandwidth, left_s)
        return 1 - float(found)

    late = least(cost, offers)
    if not 0 < late < 1:
        return None
    percent = 100 * (1 - late)
    # Down, so that more may be late.
    for digits in (2, 1, 0):
        down = decimal.Decimal(percent).quantize(
            decimal.Decimal((0, (1,), -digits)), decimal.ROUND_FLOOR
        )
        if not 1 <= down < 100:
            continue
        text = f'{down.normalize():f}'
        found = dataclasses.replace(wish, fraction=units.percentile(text))
        if accepts(found):
            return text
    return None


def least(cost: Callable[[Offer], float], offers: Sequence[Offer]) -> float:
    """Look for the least cost, where neighbours cost much the same.

    :param offers: at least one, by period
    :returns: the cost
    """
    found: dict[int, float] = {}
    low, high = 0, len(offers) - 1
    for stride in _STRIDES:
        for at in (*range(low, high, stride), high):
            if at not in found:
                found[at] = cost(offers[at])
        best = min(found, key=found.__getitem__)
        low = max(0, best - stride)
        high = min(len(offers) - 1, best + stride)
    return min(found.values())

# SPDX-License-Identifier: Apache-2.0
"""Hours of servers, added up until a conductor has them.

All amounts are whole numbers: what is spread over several hours adds up to
exactly what was read.
"""

from collections.abc import Callable, Collection, Iterator
import dataclasses
from typing import Any

from nova_rt.formats.reports import ServerHour

HOUR_US = 3_600_000_000
#: Hours that are kept while no conductor takes them: a week of 500 servers.
MOST = 84_000
_PPM = 1_000_000


@dataclasses.dataclass(frozen=True)
class Amounts:
    """CPU time that a server held and used in a span of time.

    :ivar reserved: microseconds times ppm of a CPU
    :ivar used_us: CPU time; None where the kernel does not count it, as the
        next two
    :ivar periods: budgets that it was given
    :ivar throttled: budgets that it used up
    """

    reserved: int = 0
    used_us: int | None = None
    periods: int | None = None
    throttled: int | None = None

    def __add__(self, other: 'Amounts') -> 'Amounts':
        return Amounts(
            self.reserved + other.reserved,
            _add(self.used_us, other.used_us),
            _add(self.periods, other.periods),
            _add(self.throttled, other.throttled),
        )

    def __neg__(self) -> 'Amounts':
        return self._map(lambda each: -each)

    def split(self, part: int, whole: int) -> 'Amounts':
        """Return a part of all amounts, rounded down."""
        return self._map(lambda each: each * part // whole)

    def _map(self, function: Callable[[int], int]) -> 'Amounts':
        def each(amount: int | None) -> int | None:
            return None if amount is None else function(amount)

        return Amounts(
            function(self.reserved),
            each(self.used_us),
            each(self.periods),
            each(self.throttled),
        )


def _add(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other


#: Number of the meter, UUID of the server, hours since 1970.
Key = tuple[int, str, int]


class Ledger:
    """The hours of this host's servers that are open or not yet reported."""

    def __init__(self) -> None:
        self._hours: dict[Key, Amounts] = {}

    def add(
        self, meter: int, uuid: str, begin_us: int, end_us: int, new: Amounts
    ) -> None:
        """Add what a server held and used in a span of time.

        :param begin_us: microseconds since 1970
        :param end_us: not before
        """
        span_us = end_us - begin_us
        rest = new
        for hour, length_us in _split(begin_us, end_us):
            if (hour + 1) * HOUR_US >= end_us:
                part = rest
            else:
                part = new.split(length_us, span_us)
                rest += -part
            key = meter, uuid, hour
            self._hours[key] = self._hours.get(key, Amounts()) + part

    def list_closed(self, now_us: int) -> list[ServerHour]:
        """List the hours that are over."""
        return [
            _make(key, amounts)
            for key, amounts in self._hours.items()
            if key[2] < now_us // HOUR_US
        ]

    def list_all(self) -> list[ServerHour]:
        """List all hours, as they stand."""
        return [_make(key, amounts) for key, amounts in self._hours.items()]

    def settle(self, taken: Collection[ServerHour], now_us: int) -> None:
        """Drop the hours that are over and that a conductor has taken."""
        for each in taken:
            key = each.meter, each.uuid, each.hour
            if each.hour < now_us // HOUR_US and key in self._hours:
                if _make(key, self._hours[key]) == each:
                    del self._hours[key]

    def shorten(self) -> int:
        """Drop the oldest hours above MOST.

        :returns: how many were dropped
        """
        surplus = len(self._hours) - MOST
        for key in sorted(self._hours, key=lambda each: each[2])[:surplus]:
            del self._hours[key]
        return max(0, surplus)

    def copy(self) -> 'Ledger':
        """Return a ledger with the same hours, which stays as it is."""
        other = Ledger()
        other._hours = dict(self._hours)
        return other

    def dump(self) -> list[list[Any]]:
        """Return plain values of all hours."""
        return [
            [*key, *dataclasses.astuple(amounts)]
            for key, amounts in self._hours.items()
        ]

    @classmethod
    def load(cls, rows: list[list[Any]]) -> 'Ledger':
        """Read what :meth:`dump` wrote.

        :raises TypeError: or ValueError, if it is anything else
        """
        found = cls()
        for meter, uuid, hour, reserved, *counts in rows:
            used, periods, throttled = (
                None if each is None else int(each) for each in counts
            )
            found._hours[int(meter), str(uuid), int(hour)] = Amounts(
                int(reserved), used, periods, throttled
            )
        return found


def _make(key: Key, amounts: Amounts) -> ServerHour:
    return ServerHour(
        *key,
        reserved_us=amounts.reserved // _PPM,
        used_us=amounts.used_us,
        periods=amounts.periods,
        throttled=amounts.throttled,
    )


def _split(begin_us: int, end_us: int) -> Iterator[tuple[int, int]]:
    """Yield each hour of a span, and how long the span lasts in it."""
    hour = begin_us // HOUR_US
    while True:
        border_us = min((hour + 1) * HOUR_US, end_us)
        yield hour, border_us - begin_us
        if border_us == end_us:
            return
        begin_us = border_us
        hour += 1

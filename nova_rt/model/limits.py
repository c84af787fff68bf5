# SPDX-License-Identifier: Apache-2.0
"""Limits of a cloud on reservations."""

import dataclasses
import math

from nova_rt import exception
from nova_rt.model import inputs, nearest, units
from nova_rt.reservation.reservation import (
    MAX_PERIOD_US,
    MIN_PERIOD_US,
    MIN_RUNTIME_US,
    Reservation,
)


@dataclasses.dataclass(frozen=True)
class Limits:
    """Range of the reservations that a cloud allows.

    :ivar min_period_us: shortest period; the default of the option
    :ivar max_period_us: longest period; the default of the option
    :ivar max_bandwidth: the most of a CPU that a host can promise
    :ivar overhead_us: time that switching takes of each budget. A reservation
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

    def check_period(self, period_us: int) -> None:
        """Refuse a period that the cloud does not allow.

        :raises InvalidQuantity: if it does not
        """
        if not self.min_period_us <= period_us <= self.max_period_us:
            raise exception.InvalidQuantity(
                f'a period of {period_us} us: it must be from '
                f'{self.min_period_us} to {self.max_period_us} us'
            )

    def fit(self, runtime_us: float, period_us: int) -> Reservation | None:
        """A reservation of at least this runtime, with the overhead added.

        :returns: None if it is more than a host can promise
        """
        # At least the kernel's minimum, see Reservation.
        runtime = max(2, math.ceil(runtime_us + self.overhead_us))
        if runtime > self.max_bandwidth * period_us:
            return None
        return Reservation(runtime, period_us)

    def offers(self, period_us: int | None) -> list[nearest.Offer]:
        """The most that a service can have, for each period.

        :param period_us: the only one, if it is given
        :returns: those with something left after the overhead
        """
        found = []
        for period in [period_us] if period_us else self.periods_us():
            runtime_us = math.floor(self.max_bandwidth * period)
            net = (runtime_us - self.overhead_us) / period
            if runtime_us >= MIN_RUNTIME_US and net >= inputs.LEAST:
                found.append(nearest.Offer(period / 1e6, net))
        return found

    def tell(self, period_us: int | None) -> str:
        """Describe the range in which a reservation was looked for.

        :param period_us: the only one, if it is given
        :returns: the end of a clause
        """
        text = ' with whole CPUs'
        if self.max_bandwidth < 1:
            percent = units.tell_percentile(self.max_bandwidth)
            text = f' with {percent} % of a CPU'
        if period_us is not None:
            text += f' in periods of {units.tell_duration(period_us / 1e6)}'
        return text

# SPDX-License-Identifier: Apache-2.0
"""From the kernel's counters of a reservation to samples for a law."""

import collections
from collections.abc import Mapping
from typing import Protocol

from nova_rt.feedback.law import SAMPLE_S, Sample

#: Part of the given time that is all of it: instants of reading are not those
#: of the periods.
_ALL = 0.95
#: Seconds: a sample over a longer time is none.
_LONGEST_S = 5 * SAMPLE_S


class Counters(Protocol):
    """Counters of a reservation on a CPU, which only grow."""

    @property
    def used_us(self) -> int:
        """Consumed time, microseconds."""

    @property
    def throttled(self) -> int | None:
        """Budgets used up; None where the kernel does not count them."""


class Meter:
    """The counters of one container, and their differences."""

    def __init__(self) -> None:
        #: Times and counters, the oldest first.
        self._readings: collections.deque[
            tuple[float, Mapping[int, Counters]]
        ] = collections.deque()
        self._begun_s = 0.0

    def read(
        self,
        counters: Mapping[int, Counters],
        now_s: float,
        limit: float,
        period_s: float = 0.0,
    ) -> Sample | None:
        """Compute the use since the last reading, or in a longer period.

        A server has used all that it was given if it consumed as much, and
        the kernel has counted a budget that was used up, if it counts. In a
        part of a period it may consume all of it, or nothing.

        :param counters: CPU -> counters
        :param now_s: the time, seconds
        :param limit: its bandwidth in this time, in CPUs
        :param period_s: of its reservation, seconds
        :returns: the sample; None if the last reading was too long ago, or is
            none of these counters, or the first was less than a period ago
        """
        readings = self._readings
        if not readings or not self._goes_on(counters, now_s):
            readings.clear()
            self._begun_s = now_s
        readings.append((now_s, counters))
        while len(readings) > 2 and _ALL * (now_s - readings[0][0]) > period_s:
            readings.popleft()
        at_s, last = readings[0]
        elapsed_s = now_s - at_s
        if not elapsed_s or now_s - self._begun_s < _ALL * period_s:
            return None
        used_us, exhausted = 0, False
        for cpu, now in counters.items():
            before = last[cpu]
            consumed_us = now.used_us - before.used_us
            used_us = max(used_us, consumed_us)
            if consumed_us >= _ALL * limit * elapsed_s * 1_000_000:
                exhausted |= (
                    now.throttled is None or now.throttled != before.throttled
                )
        return Sample(used_us / elapsed_s / 1_000_000, exhausted)

    def _goes_on(self, counters: Mapping[int, Counters], now_s: float) -> bool:
        """Tell whether counters continue those of the last reading."""
        at_s, last = self._readings[-1]
        return (
            bool(counters)
            and 0 < now_s - at_s <= _LONGEST_S
            and all(
                cpu in last and last[cpu].used_us <= now.used_us
                for cpu, now in counters.items()
            )
        )

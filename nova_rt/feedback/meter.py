# SPDX-License-Identifier: Apache-2.0
"""From the kernel's counters of a reservation to samples for a law."""

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
        self._last: Mapping[int, Counters] = {}
        self._at_s = 0.0

    def read(
        self, counters: Mapping[int, Counters], now_s: float, limit: float
    ) -> Sample | None:
        """Compute the use since the last reading.

        A server has used all that it was given if it consumed as much, and
        the kernel has counted a budget that was used up, if it counts.

        :param counters: CPU -> counters
        :param now_s: the time, seconds
        :param limit: its bandwidth in this time, in CPUs
        :returns: the sample; None if the last reading was too long ago, or is
            none of these counters
        """
        last, elapsed_s = self._last, now_s - self._at_s
        self._last, self._at_s = counters, now_s
        if not 0 < elapsed_s <= _LONGEST_S or not counters:
            return None
        used_us, exhausted = 0, False
        for cpu, now in counters.items():
            before = last.get(cpu)
            if before is None or now.used_us < before.used_us:
                return None
            consumed_us = now.used_us - before.used_us
            used_us = max(used_us, consumed_us)
            if consumed_us >= _ALL * limit * elapsed_s * 1_000_000:
                exhausted |= (
                    now.throttled is None or now.throttled != before.throttled
                )
        return Sample(used_us / elapsed_s / 1_000_000, exhausted)

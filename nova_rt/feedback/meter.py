# SPDX-License-Identifier: Apache-2.0
"""From the kernel's counters of a reservation to samples for a law."""

import collections
from collections.abc import Mapping
from typing import Protocol

from nova_rt.feedback.law import SAMPLE_S, Sample

#: Part of the given time that is all of it: instants of reading are not those
#: of the periods.
_ALL = 0.95
#: Part of a time that must be whole periods. It may be too short by this part
#: of a period, and at most by these seconds.
_WHOLE = 0.9
_JITTER = 0.05
_JITTER_S = 0.005
#: Readings of 10 s: in any period, one of these times is of whole ones.
_KEPT = 100
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
        ] = collections.deque(maxlen=_KEPT)

    def read(
        self,
        counters: Mapping[int, Counters],
        now_s: float,
        limit: float,
        period_s: float,
    ) -> Sample | None:
        """Compute the use since the last reading, or one before it.

        A server has used all that it was given if it consumed as much, and
        the kernel has counted a budget that was used up, if it counts. In a
        part of a period it may consume all of its runtime, or nothing, so
        the time is one of nearly whole periods.

        :param counters: CPU -> counters
        :param now_s: the time, seconds
        :param limit: its bandwidth in this time, in CPUs
        :param period_s: of its reservation, seconds
        :returns: the sample; None if the last reading was too long ago, or is
            none of these counters, or there are too few
        """
        if self._readings and not self._goes_on(counters, now_s):
            self._readings.clear()
        found = self._find(now_s, period_s)
        self._readings.append((now_s, counters))
        if found is None:
            return None
        last, elapsed_s, given_s = found
        used_us, exhausted = 0, False
        for cpu, now in counters.items():
            before = last[cpu]
            consumed_us = now.used_us - before.used_us
            used_us = max(used_us, consumed_us)
            if consumed_us >= _ALL * limit * given_s * 1_000_000:
                exhausted |= (
                    now.throttled is None or now.throttled != before.throttled
                )
        return Sample(used_us / elapsed_s / 1_000_000, exhausted)

    def _find(
        self, now_s: float, period_s: float
    ) -> tuple[Mapping[int, Counters], float, float] | None:
        """Find the latest reading that is nearly whole periods old.

        :returns: its counters, its age, and the periods, seconds
        """
        short_s = min(_JITTER * period_s, _JITTER_S)
        for at_s, last in reversed(self._readings):
            elapsed_s = now_s - at_s
            whole_s = period_s * int((elapsed_s + short_s) / period_s)
            if whole_s and whole_s >= _WHOLE * elapsed_s:
                return last, elapsed_s, whole_s
        return None

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

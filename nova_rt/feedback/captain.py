# SPDX-License-Identifier: Apache-2.0
"""The law of Autothrottle's Captain: a target for the share of exhausted time.

Source: Z. Wang et al., "Autothrottle: A Practical Bi-Level Approach to
Resource Management for SLO-Targeted Microservices", NSDI 2024, section 3.2.
There a sample is a period of CFS bandwidth control, of 0.1 s. Here a
reservation may have any period, so that a sample of 0.1 s stands for one: it
is exhausted or not. The bandwidth shrinks only after a full window, the margin
has an upper bound, and the target is fixed, where Autothrottle learns it from
the latency of a service.
"""

import collections
import statistics

from nova_rt.feedback import law

#: Share of exhausted samples that is aimed at.
TARGET = 0.1
#: The bandwidth grows from this multiple of the target on.
_TOLERATED = 3
#: A proposal is taken if it is at most this part of the bandwidth, and never
#: less than that part of it.
_WORTH = 0.9
_LEAST = 0.5
#: Standard deviations above the largest use, at first and at most. Without a
#: bound, a server that was short of bandwidth for a long time would keep all
#: it gets for as long.
_MARGIN = 3.0
_LARGEST_MARGIN = 6.0


class Captain:
    """A :class:`.law.Law`.

    :param target: share of exhausted samples to aim at
    """

    def __init__(self, target: float = TARGET) -> None:
        self._target = target
        self._margin = _MARGIN
        self.reset()

    def reset(self) -> None:
        """Forget the samples; the margin was learnt, and stays."""
        self._used: collections.deque[float] = collections.deque(
            maxlen=law.WINDOW
        )
        self._exhausted = 0
        self._count = 0
        #: The bandwidth before the last decision, if that was to shrink.
        self._before: float | None = None

    def step(self, sample: law.Sample, limit: float) -> float:
        """See :class:`.law.Law`."""
        self._used.append(sample.used)
        self._exhausted += sample.exhausted
        self._count += 1
        excess = self._exhausted / law.DECIDE - _TOLERATED * self._target
        if self._before is not None and excess > 0:
            # Undo the cut, and add as much on top.
            limit = max(limit, 2 * self._before - limit)
            self._learn()
        elif self._count >= law.DECIDE:
            limit = self._decide(limit, excess)
        return limit

    def _decide(self, limit: float, excess: float) -> float:
        self._learn()
        if excess > 0:
            return limit * (1 + excess)
        if len(self._used) < law.WINDOW:
            return limit
        wanted = max(self._used) + self._margin * statistics.stdev(self._used)
        if wanted > _WORTH * limit:
            return limit
        self._before = limit
        return max(wanted, _LEAST * limit)

    def _learn(self) -> None:
        """Adjust the margin, and begin to count again."""
        share = self._exhausted / law.DECIDE
        margin = self._margin + share - self._target
        self._margin = min(max(0.0, margin), _LARGEST_MARGIN)
        self._exhausted = self._count = 0
        self._before = None

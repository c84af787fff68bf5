# SPDX-License-Identifier: Apache-2.0
"""A law of the LFS++ kind: a quantile of the consumed time, and a surplus.

Source: T. Cucinotta, F. Checconi, L. Abeni, L. Palopoli, "Self-tuning
schedulers for legacy real-time applications", EuroSys 2010. A server that uses
all it has shows no more than that: the surplus lets it grow.
"""

import collections

from nova_rt.feedback import law

#: The quantile, and the surplus as a part of it.
QUANTILE = 0.95
SURPLUS = 0.25
#: A smaller bandwidth is taken if it is at most this part of the present one.
_WORTH = 0.9


class Quantile:
    """A :class:`.law.Law`.

    :param quantile: of the use in the window, from 0 to 1
    :param surplus: as a part of that quantile
    """

    def __init__(
        self, quantile: float = QUANTILE, surplus: float = SURPLUS
    ) -> None:
        self._quantile = quantile
        self._surplus = surplus
        self.reset()

    def reset(self) -> None:
        """Forget the samples."""
        self._used: collections.deque[float] = collections.deque(
            maxlen=law.WINDOW
        )
        self._count = 0

    def step(self, sample: law.Sample, limit: float) -> float:
        """See :class:`.law.Law`."""
        self._used.append(sample.used)
        self._count += 1
        if self._count < law.DECIDE:
            return limit
        self._count = 0
        rank = int(self._quantile * (len(self._used) - 1))
        wanted = sorted(self._used)[rank] * (1 + self._surplus)
        if wanted > limit:
            return wanted
        if wanted > _WORTH * limit or len(self._used) < law.WINDOW:
            return limit
        return wanted

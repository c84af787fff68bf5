# SPDX-License-Identifier: Apache-2.0
"""Measured CPU times: their statistics, and the limits of these."""

from collections.abc import Sequence
import math

import numpy

from nova_rt.model.general import GeneralQueue

#: Samples that are drawn from a sample: 9 of 10 truths are between the lowest
#: and the highest answer, if the sample has seen the tail.
_ROUNDS = 19
# Fewer times have no order that means something.
_FEWEST = 50


def autocorrelation(times: Sequence[float]) -> float | None:
    """The correlation of the ranks of each time and the next one.

    :param times: in the order in which they came
    :returns: from -1 to 1; None if it is not significant (3.3 standard
        deviations), or below 0.05 and so without much effect
    """
    count = len(times)
    if count < _FEWEST:
        return None
    ranks = numpy.argsort(numpy.argsort(times, kind='stable')).astype(float)
    one, other = ranks[:-1], ranks[1:]
    # Equal times have an order that means nothing.
    _, where, number = numpy.unique(
        times, return_inverse=True, return_counts=True
    )
    if number.max() > 1:
        mean = numpy.bincount(where, ranks) / number
        one, other = mean[where[:-1]], mean[where[1:]]
    if one.std() == 0 or other.std() == 0:
        return None
    found = float(numpy.corrcoef(one, other)[0, 1])
    return found if abs(found) > max(0.05, 3.3 / math.sqrt(count)) else None


def interval_s(
    times_s: Sequence[float],
    queue: GeneralQueue,
    rate_per_s: float,
    bandwidth: float,
    fraction: float,
) -> tuple[float, float]:
    """The percentile with other samples of this size, by the bootstrap.

    Nine of ten truths are between both if the sample has seen the tail; a tail
    beyond the longest time is not known to it.

    :returns: seconds; infinite where such a sample is too much
    """
    rng = numpy.random.default_rng(1)
    times = numpy.array(times_s)
    found = []
    for _ in range(_ROUNDS):
        other = GeneralQueue(
            rng.choice(times, times.size), queue.latency_s, queue.batch,
            queue.link_s,
        )  # fmt: skip
        if rate_per_s >= other.capacity_per_s(bandwidth):
            found.append(math.inf)
        else:
            found.append(other.percentile_s(rate_per_s, bandwidth, fraction))
    return min(found), max(found)

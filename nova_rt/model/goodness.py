# SPDX-License-Identifier: Apache-2.0
"""Measured service times: their parameters, and the model that suits."""

from collections.abc import Sequence
import dataclasses
import math

from nova_rt import exception
from nova_rt.model import inputs
from nova_rt.model.services import Times

# Significance levels, and the points of Stephens' statistic that it exceeds
# with these probabilities if the times are exponential.
_POINTS = (
    (0.15, 0.926), (0.10, 0.990), (0.05, 1.094), (0.025, 1.190),
    (0.01, 1.308),
)  # fmt: skip
#: Times are not taken for exponential if so unlikely under that assumption.
LEVEL = 0.05
#: Fewer times are too few to find their distribution.
LEAST = 20
# All times within 1 % of their mean, or nearly: M/D/1 is right to that.
_CONSTANT = 1e-4


@dataclasses.dataclass(frozen=True)
class Goodness:
    """Distance of a sample from exponential times with the same mean.

    :ivar distance: D, the largest difference of the distribution functions
    :ivar statistic: D, made independent of the size of the sample
    :ivar below: an upper bound on the probability of at least this statistic
        if the times were exponential; 1 where it is above 0.15
    """

    distance: float
    statistic: float
    below: float


@dataclasses.dataclass(frozen=True)
class Fit:
    """Parameters of service times, estimated from a sample.

    :ivar number: number of times
    :ivar mean_s: their mean
    :ivar variation: squared coefficient of variation: 0 if all are equal,
        1 for exponential times
    :ivar shortest_s: the shortest
    :ivar longest_s: the longest
    :ivar times_s: all, in ascending order
    :ivar goodness: against exponential times
    :ivar suits: the model that suits
    :ivar why: the reason, a sentence
    """

    number: int
    mean_s: float
    variation: float
    shortest_s: float
    longest_s: float
    times_s: Sequence[float] = dataclasses.field(repr=False)
    goodness: Goodness
    suits: Times
    why: str

    def percentile_s(self, fraction: float) -> float:
        """The time that a fraction of the sample does not exceed.

        :returns: one of the times, seconds
        """
        rank = math.ceil(inputs.fraction(fraction) * self.number)
        return self.times_s[max(1, rank) - 1]


def fit(times_s: Sequence[float]) -> Fit:
    """Describe service times.

    :param times_s: the times in seconds, in any order
    :returns: parameters, and the model that suits
    :raises InvalidQuantity: for a sample of fewer than :data:`LEAST` times,
        and for invalid times
    """
    ordered = sorted(times_s)
    if len(ordered) < LEAST:
        raise exception.InvalidQuantity(
            f'{len(ordered)} service times are too few: there must be at '
            f'least {LEAST}'
        )
    for time_s in (ordered[0], ordered[-1]):
        inputs.positive('a service time', time_s)
    number = len(ordered)
    mean_s = math.fsum(ordered) / number
    variation = (
        math.fsum((time_s / mean_s - 1) ** 2 for time_s in ordered) / number
    )
    goodness = _against_exponential(ordered, mean_s)
    suits, why = _judge(variation, goodness)
    return Fit(
        number, mean_s, variation, ordered[0], ordered[-1], ordered,
        goodness, suits, why,
    )  # fmt: skip


def _against_exponential(ordered: list[float], mean_s: float) -> Goodness:
    """The test of Kolmogorov and Smirnov with an estimated mean.

    The usual critical values are too large where the mean comes from the
    sample itself (H. W. Lilliefors, On the Kolmogorov-Smirnov test for the
    exponential distribution with mean unknown, JASA 64, 1969). With

        T = (D - 0.2/n) (sqrt(n) + 0.26 + 0.5/sqrt(n))

    those of M. A. Stephens (EDF statistics for goodness of fit and some
    comparisons, JASA 69, 1974) hold for any n.
    """
    number = len(ordered)
    distance = 0.0
    for rank, time_s in enumerate(ordered):
        share = -math.expm1(-time_s / mean_s)
        distance = max(
            distance, share - rank / number, (rank + 1) / number - share
        )
    root = math.sqrt(number)
    statistic = (distance - 0.2 / number) * (root + 0.26 + 0.5 / root)
    below = 1.0
    for level, point in _POINTS:
        if statistic > point:
            below = level
    return Goodness(distance, statistic, below)


def _judge(variation: float, goodness: Goodness) -> tuple[Times, str]:
    if variation < _CONSTANT:
        return Times.CONSTANT, 'the times hardly vary'
    if goodness.below > LEVEL:
        return Times.EXPONENTIAL, (
            'nothing in the sample is against exponential times'
        )
    kind = 'less' if variation < 1 else 'more'
    return Times.MEASURED, (
        f'exponential times are unlikely (p < {goodness.below:g}), and these '
        f'vary {kind} than such times do'
    )

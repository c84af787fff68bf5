# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals of simulated or measured numbers: batch means.

Response times that follow each other are alike, since they meet the same
queue, so their own variance is too small. The run is cut into batches
that are long against that memory; their means, or percentiles, are nearly
independent, and Student's t gives the interval. Source: Law and Kelton,
Simulation Modeling and Analysis, section 9.5.
"""

from collections.abc import Callable
import dataclasses
import math

import numpy
import numpy.typing

from nova_rt import exception

BATCHES = 30
#: Student's t with 29 degrees of freedom: 99.9 % within, on both sides.
T_999 = 3.6594
#: The same for 95 %.
T_95 = 2.0452
# In each batch, at least.
_LENGTH = 100
#: Fewer values have no confidence interval.
FEWEST = _LENGTH * (BATCHES + 1)
# Values of each batch that must be beyond a percentile to estimate it.
_BEYOND = 5

Numbers = numpy.typing.NDArray[numpy.float64 | numpy.int64 | numpy.bool]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number with its confidence interval.

    :ivar value: the mean of the batches
    :ivar half_width: the number is within ``value`` +- this, with the
        confidence that was asked for
    """

    value: float
    half_width: float

    @property
    def low(self) -> float:
        """The lower end."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """The upper end."""
        return self.value + self.half_width


def estimate(
    values: Numbers, of: Callable[[Numbers], float], t: float = T_999
) -> Estimate:
    """Estimate a statistic of a run, with 99.9 % confidence by default.

    The first of 31 batches is not used: the queue was empty at first.

    :param values: the values, in the order in which they came
    :param of: computes the statistic of one batch
    :param t: Student's t for the confidence, such as :data:`T_95`
    :returns: the statistic with its interval
    :raises InvalidQuantity: for fewer than :data:`FEWEST` values
    """
    length = _length(len(values))
    used = values[len(values) - BATCHES * length :].reshape(BATCHES, length)
    return of_batches(numpy.array([of(batch) for batch in used]), t)


def of_batches(found: Numbers, t: float) -> Estimate:
    """Estimate a number from its values in the batches.

    :param found: :data:`BATCHES` numbers, nearly independent
    :param t: Student's t for the confidence, such as :data:`T_95`
    :returns: the number with its interval
    :raises InvalidQuantity: for another number of them
    """
    if len(found) != BATCHES:
        raise exception.InvalidQuantity(
            f'expected {BATCHES} batches, found {len(found)}'
        )
    spread = float(found.std(ddof=1)) / math.sqrt(BATCHES)
    return Estimate(float(found.mean()), t * spread)


def highest_fraction(count: int) -> float:
    """The highest percentile that a run can estimate.

    :param count: values in the run
    :returns: such as 0.995: at least five values of each batch are beyond it
    :raises InvalidQuantity: for fewer than :data:`FEWEST` values
    """
    return 1 - _BEYOND / _length(count)


def _length(count: int) -> int:
    """Values in each batch."""
    length = count // (BATCHES + 1)
    if length < _LENGTH:
        raise exception.InvalidQuantity(
            f'{count} values are too few: there must be at least {FEWEST}'
        )
    return length


def mean(values: Numbers, t: float = T_999) -> Estimate:
    """Estimate the mean.

    :returns: the mean with its interval
    """
    return estimate(values, lambda batch: float(batch.mean()), t)


def percentile(values: Numbers, fraction: float, t: float = T_999) -> Estimate:
    """Estimate a percentile.

    :param fraction: such as 0.99
    :returns: the percentile with its interval
    """
    return estimate(
        values, lambda batch: float(numpy.quantile(batch, fraction)), t
    )

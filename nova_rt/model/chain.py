# SPDX-License-Identifier: Apache-2.0
"""Services that a request passes one after another."""

from collections.abc import Sequence
import dataclasses
import math

from nova_rt import exception
from nova_rt.model import inputs
from nova_rt.model.response import ResponseTime

_Matrix = list[list[float]]
# The time to compute grows with the cube.
MAX_STAGES = 16


@dataclasses.dataclass(frozen=True)
class Stage:
    """One queue of a chain.

    :ivar service_s: mean time of a request, seconds at full speed of its CPU
        or link
    :ivar share: its part of the bandwidth that a question is about: 1 where
        all containers get the same, less for smaller ones; 0 for a link,
        which has no reservation and is always at full speed
    """

    service_s: float
    share: float = 1.0

    def __post_init__(self) -> None:
        inputs.positive('the service time of a stage', self.service_s)
        inputs.not_negative('the share of a stage', self.share)
        if self.share > 1:
            raise exception.InvalidQuantity(
                f'the share of a stage is {self.share:g}: it must be at most '
                '1, the share of the largest reservation'
            )

    def rate_per_s(self, bandwidth: float) -> float:
        """Highest rate that it can serve.

        :returns: requests/s
        """
        return (bandwidth * self.share or 1.0) / self.service_s


def log_tail_of_sum(rates_per_s: Sequence[float], time_s: float) -> float:
    """ln P(X_1 + ... + X_n > t) for independent exponential times.

    The sum is the time to absorption of a Markov chain that goes through n
    states, so its tail is a sum over the first row of exp(t G), G having the
    rates with a minus sign on its diagonal and plain beside it. With the
    slowest rate taken out and the diagonal written in closed form, scaling,
    Taylor's series and squaring work on numbers that are not negative:
    nothing cancels, however near to each other the rates are.

    Source: phase-type distributions, M. F. Neuts, 1981; A. H. Al-Mohy and
    N. J. Higham, SIAM J. Matrix Anal. Appl. 31 (2009), for the diagonal.

    :param rates_per_s: one rate for each, in any order
    :returns: the logarithm, from 0 downwards
    """
    slow = min(rates_per_s)
    order = sorted(rates_per_s)
    halvings = max(0, math.ceil(math.log2(max(order[-1] * time_s, 1e-9))) + 1)
    step_s = math.ldexp(time_s, -halvings)
    power = _small_exponential([rate - slow for rate in order], order, step_s)
    for _ in range(halvings):
        step_s *= 2
        power = _square(power)
        for number, rate in enumerate(order):
            power[number][number] = math.exp(-(rate - slow) * step_s)
    return min(0.0, math.log(math.fsum(power[0])) - slow * time_s)


def _small_exponential(
    leaving: list[float], rates_per_s: list[float], step_s: float
) -> _Matrix:
    """exp(t G) for a step of at most half the shortest mean."""
    size = len(leaving)
    shift = max(leaving) * step_s
    base = [[0.0] * size for _ in range(size)]
    for row in range(size):
        base[row][row] = shift - leaving[row] * step_s
        if row + 1 < size:
            base[row][row + 1] = rates_per_s[row] * step_s
    total = [[float(row == column) for column in range(size)]
             for row in range(size)]  # fmt: skip
    term = total
    for order in range(1, size + 24):
        term = [
            [
                (
                    row[column] * base[column][column]
                    + (row[column - 1] * base[column - 1][column]
                       if column else 0.0)
                ) / order
                for column in range(size)
            ]
            for row in term
        ]  # fmt: skip
        total = [
            [one + other for one, other in zip(*rows, strict=True)]
            for rows in zip(total, term, strict=True)
        ]
    factor = math.exp(-shift)
    return [[factor * each for each in row] for row in total]


def _square(matrix: _Matrix) -> _Matrix:
    """The square of an upper triangular matrix."""
    size = len(matrix)
    found = [[0.0] * size for _ in range(size)]
    for row in range(size):
        for column in range(row, size):
            found[row][column] = sum(
                matrix[row][middle] * matrix[middle][column]
                for middle in range(row, column + 1)
            )
    return found


class Chain(ResponseTime):
    """M/M/1 queues in a row: a chain of servers, and of links between them.

    Source: EDGE 2019, figure 1, for the topology; Burke's and Reich's
    theorems make the sojourn times in a row of M/M/1 queues independent, each
    exponential with the rate (stage's rate - lambda)::

        E[R] = 2 delta + sum of 1/(rate_i - lambda)

    and :func:`log_tail_of_sum` for the percentile. Valid for lambda below the
    rate of each stage, Poisson arrivals, exponential service times that are
    independent from stage to stage, and requests that pass all stages in
    order. A server that asks the next one and waits for the answer, holding
    a worker, is not a chain.

    :ivar stages: the queues, in any order
    :ivar latency_s: half of all latencies on the way there and back
    """

    def __init__(
        self, stages: Sequence[Stage], latency_s: float = 0.0
    ) -> None:
        super().__init__(latency_s)
        self.stages = tuple(stages)
        if not 1 <= len(self.stages) <= MAX_STAGES:
            raise exception.InvalidQuantity(
                f'a chain of {len(self.stages)} stages: there must be from '
                f'1 to {MAX_STAGES}'
            )

    def _capacity_per_s(self, bandwidth: float) -> float:
        return min(stage.rate_per_s(bandwidth) for stage in self.stages)

    def _rates(self, rate_per_s: float, bandwidth: float) -> list[float]:
        return [
            stage.rate_per_s(bandwidth) - rate_per_s for stage in self.stages
        ]

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        rates = self._rates(rate_per_s, bandwidth)
        return math.fsum(1 / rate for rate in rates)

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        if time_s <= 0:
            return 0.0
        return log_tail_of_sum(self._rates(rate_per_s, bandwidth), time_s)

    def gap_s(self, period_s: float, bandwidth: float) -> float:
        # A stage that gets its requests later, each by at most x, is done
        # with each at most x later: the P - Q of its own come on top.
        return math.fsum(
            period_s * (1 - stage.share * bandwidth)
            for stage in self.stages
            if stage.share > 0
        )

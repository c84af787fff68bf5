# SPDX-License-Identifier: Apache-2.0
"""One CPU and service times that were measured."""

from collections.abc import Sequence
import math

import numpy

from nova_rt import exception
from nova_rt.model import inputs, roots
from nova_rt.model.response import ResponseTime

# More times than these are put into bins.
_BINS = 2048


class MeasuredQueue(ResponseTime):
    """M/G/1 with the distribution of a sample: exact mean, bounded percentile.

    Source of the mean: Pollaczek and Khinchine. With S the service time
    divided by u, and rho = lambda E[S]::

        E[R] = 2 delta + E[S] + lambda E[S^2] / (2 (1 - rho))

    Source of the percentile: J. F. C. Kingman, A martingale inequality in the
    theory of queues, Proc. Cambridge Phil. Soc. 60 (1964). The waiting time W
    is the maximum of a random walk with the steps S - A, A the time between
    arrivals. With theta > 0 such that E[exp(theta (S - A))] = 1, that is
    lambda (E[exp(theta S)] - 1) = theta, exp(theta (walk)) is a martingale,
    and Doob's inequality gives P(W > x) <= exp(-theta x). W does not depend
    on the request's own S, hence::

        P(R > t) <= E[min(1, exp(-theta (t - 2 delta - S)))]

    So the percentile and the bandwidth are never too low, the rate and the
    fraction never too high. For exponential times the bound on P(R > t) is
    exact in its rate and too high by a factor of at most 1/rho.

    Valid for lambda E[S] < 1, Poisson arrivals and service times that do not
    depend on each other. It does not cover times longer than the longest in
    the sample: a percentile that is too near to 1 for the size of the sample
    has no meaning. Of more than 2048 times, the percentile takes bins, rounded
    to the safe side.

    :ivar mean_service_s: mean of the sample, seconds at full speed
    :ivar variation: squared coefficient of variation of the sample: 0 if all
        times are equal, 1 for exponential ones
    :ivar longest_s: longest time of the sample
    """

    def __init__(
        self, samples_s: Sequence[float], latency_s: float = 0.0
    ) -> None:
        super().__init__(latency_s)
        times = numpy.sort(numpy.asarray(samples_s, dtype=float))
        if times.ndim != 1 or times.size == 0:
            raise exception.InvalidQuantity('there are no service times')
        for time_s in (times[0], times[-1]):
            inputs.positive('a service time', float(time_s))
        self.mean_service_s = float(times.mean())
        self._square_s2 = float(numpy.square(times).mean())
        self.variation = max(0.0, self._square_s2 / self.mean_service_s**2 - 1)
        self.longest_s = float(times[-1])
        bins = numpy.array_split(times, min(_BINS, times.size))
        shares = numpy.array([each.size / times.size for each in bins])
        first, last, mean = (
            numpy.array([of(each) for each in bins])
            for of in (numpy.min, numpy.max, numpy.mean)
        )
        # P(R > t) rises with S: each bin at its longest time is safe.
        self._times_s, self._log_shares = last, numpy.log(shares)
        # exp is convex: each bin at both ends, with the same mean, is safe
        # for theta, and has the same load.
        width = numpy.where(last > first, last - first, 1.0)
        upper = numpy.clip((mean - first) / width, 0, 1)
        weights = numpy.concatenate([shares * (1 - upper), shares * upper])
        there = weights > 0
        self._ends_s = numpy.concatenate([first, last])[there]
        self._weights = weights[there]

    def _capacity_per_s(self, bandwidth: float) -> float:
        return bandwidth / self.mean_service_s

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        service_s = self.mean_service_s / bandwidth
        square_s2 = self._square_s2 / bandwidth**2
        return service_s + rate_per_s * square_s2 / (
            2 * (1 - rate_per_s * service_s)
        )

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        theta = self._decay_per_s(rate_per_s, bandwidth)
        powers = numpy.minimum(
            0.0, theta * (self._times_s / bandwidth - time_s)
        )
        return _log_sum(powers + self._log_shares)

    def _decay_per_s(self, rate_per_s: float, bandwidth: float) -> float:
        """theta, not above the root of Kingman's equation."""
        times_s = self._ends_s / bandwidth
        # E[A] - E[S]. What is left of the equation has positive terms only,
        # so it is as exact near saturation as this difference.
        slack_s = 1 / rate_per_s - self.mean_service_s / bandwidth
        if slack_s <= 0:
            return 0.0

        def growth(theta: float) -> float:
            found = _exp_beyond_line(theta * times_s) @ self._weights
            return float(found) - theta * slack_s

        # Right for heavy traffic.
        low = high = 2 * slack_s / (self._square_s2 / bandwidth**2)
        while growth(low) > 0:
            low /= 2
        while growth(high) <= 0:
            high *= 2
        return roots.boundary(growth, high, low)


def _exp_beyond_line(x: numpy.ndarray) -> numpy.ndarray:
    """exp(x) - 1 - x, for x of at least 0."""
    with numpy.errstate(over='ignore'):
        found = numpy.expm1(x) - x
    series = x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6))))
    chosen: numpy.ndarray = numpy.where(x < 0.01, series, found)
    return chosen


def _log_sum(powers: numpy.ndarray) -> float:
    """ln of the sum of exp, without overflow."""
    highest = float(powers.max())
    return highest + math.log(float(numpy.exp(powers - highest).sum()))

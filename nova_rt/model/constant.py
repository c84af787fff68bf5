# SPDX-License-Identifier: Apache-2.0
"""One CPU and requests that all take the same time."""

import functools
import math

from nova_rt.model import inputs, roots
from nova_rt.model.response import ResponseTime

# Terms of a Poisson distribution of mean below 1 that are worth adding: the
# next are below 1e-49.
_TERMS = 40
# Queue lengths after which each is the same factor less likely than the one
# before, to the last bit of a double: the other poles of the generating
# function are more than 7 times further away.
_LENGTHS = 64


@functools.lru_cache(maxsize=64)
def _poisson(mean: float) -> tuple[list[float], list[float]]:
    """P(A = j) and P(A > j) of a Poisson number of mean at most 1."""
    terms = [math.exp(-mean)]
    for number in range(1, 2 * _TERMS):
        terms.append(terms[-1] * mean / number)
    tails = [0.0]
    for term in reversed(terms[1:]):
        tails.append(tails[-1] + term)
    return terms[:_TERMS], tails[::-1][:_TERMS]


def _decay(load: float) -> float:
    """ln of the factor by which each further length is less likely.

    The generating function has its pole at z with exp(rho (z - 1)) = z. With
    x = ln z that is exp(x) - 1 - x = x (1 - rho)/rho.
    """

    def growth(x: float) -> float:
        if x < 0.01:
            tail = 1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6)))
            return x / 2 * tail - slope
        return (math.expm1(x) - x) / x - slope

    slope = (1 - load) / load
    return roots.boundary(growth, 2 + 2 * math.log1p(slope), 0.0)


class _Lengths:
    """Distribution of the number of requests in an M/D/1 system."""

    def __init__(self, load: float) -> None:
        terms, tails = _poisson(load)
        lengths = [1 - load]
        for last in range(_LENGTHS):
            # As many requests pass from length `last` upwards as come back.
            up = lengths[0] * tails[last] if last < _TERMS else 0.0
            for length in range(max(1, last + 2 - _TERMS), last + 1):
                up += lengths[length] * tails[last + 1 - length]
            lengths.append(up / terms[0])
        self._decay = _decay(load)
        self._more = [lengths[-1] / math.expm1(self._decay)]
        for share in lengths[:0:-1]:
            self._more.append(self._more[-1] + share)
        self._more.reverse()

    def more_than(self, length: int) -> float:
        """P(N > length), for a length of at least 0."""
        over = length - (len(self._more) - 1)
        if over <= 0:
            return self._more[length]
        return self._more[-1] * math.exp(-self._decay * over)


@functools.lru_cache(maxsize=16)
def _lengths(load: float) -> _Lengths:
    return _Lengths(load)


def log_tail_of_waiting(load: float, services: float) -> float:
    """ln P(W > x) in M/D/1, for a waiting time W.

    Source: G. J. Franx, A simple solution for the M/D/c waiting time
    distribution, Operations Research Letters 29 (2001), for c = 1. With x
    and k such that (k - 1) D <= x < k D and v = k D - x::

        P(W <= x) = sum over j < k of Poisson(lambda v; j) P(L <= k - 1 - j)

    where L is the number of requests that wait. All terms are positive,
    unlike those of Erlang's formula, so it is exact at any load. The lengths
    come from the balance of crossings, in positive terms as well.

    :param load: rho = lambda D, below 1
    :param services: x/D, at least 0
    :returns: the logarithm, from 0 downwards
    """
    lengths = _lengths(load)
    rounds = math.floor(services) + 1
    terms, tails = _poisson(load * (rounds - services))
    late = tails[rounds - 1] if rounds <= _TERMS else 0.0
    for number in range(min(rounds, _TERMS)):
        # More than m wait when more than m + 1 are there.
        late += terms[number] * lengths.more_than(rounds - number)
    return math.log(late) if late > 0 else -math.inf


class ConstantQueue(ResponseTime):
    """M/D/1: every request takes the same CPU time.

    Source: Pollaczek and Khinchine for the mean, Franx for the percentile;
    see :func:`log_tail_of_waiting`. With d = service_s/u and rho = lambda d::

        E[R]     = 2 delta + d + rho d / (2 (1 - rho))
        P(R > t) = P(W > t - 2 delta - d)

    Valid for lambda < u/service_s, Poisson arrivals and one constant CPU
    time. R is never shorter than d, so where the queue is often empty the
    percentile is d itself, and no deadline below d is met by any request.

    :ivar service_s: CPU time of every request, seconds at full speed
    """

    def __init__(self, service_s: float, latency_s: float = 0.0) -> None:
        super().__init__(latency_s)
        self.service_s = inputs.positive('the service time', service_s)

    def _capacity_per_s(self, bandwidth: float) -> float:
        return bandwidth / self.service_s

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        service_s = self.service_s / bandwidth
        load = rate_per_s * service_s
        return service_s * (1 + load / (2 * (1 - load)))

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        service_s = self.service_s / bandwidth
        if time_s < service_s:
            return 0.0
        load = min(rate_per_s * service_s, 1 - 1e-15)
        return log_tail_of_waiting(load, (time_s - service_s) / service_s)

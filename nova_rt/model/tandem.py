# SPDX-License-Identifier: Apache-2.0
"""A shaped link in front of one CPU, both with exponential times."""

import math

from nova_rt import exception
from nova_rt.model import inputs
from nova_rt.model.response import ResponseTime


def transmission_s(size_bit: float, link_bit_per_s: float) -> float:
    """1/nu = E[s]/sigma, the mean time that a request takes on a link.

    :param size_bit: E[s], mean size of a request with all its headers
    :param link_bit_per_s: sigma, the rate to which the link is shaped
    :returns: seconds
    :raises InvalidQuantity: unless both are finite and above 0
    """
    inputs.positive('the size of a request', size_bit)
    inputs.positive('the rate of the link', link_bit_per_s)
    return size_bit / link_bit_per_s


def bucket_bit(
    size_bit: float, link_bit_per_s: float, rate_per_s: float, lost: float
) -> float:
    """B = E[s] ln(1/p) / (1 - rho), the burst with which few are lost.

    A cloud that polices a link has no queue there: a request that finds too
    little in the bucket is dropped instead of waiting. Bits that are missing
    in the bucket are bits that would wait on a shaped link, so with
    rho = lambda E[s] / sigma::

        P(dropped) <= P(sojourn on the link > B/sigma)
                   = exp(-(nu - lambda) B/sigma)

    Source: the sojourn time of M/M/1; what is dropped does not wait, so the
    bucket is never emptier than that queue is full. Valid for rho < 1, Poisson
    arrivals and exponential sizes.

    :param size_bit: E[s], mean size of a request with all its headers
    :param link_bit_per_s: sigma, the rate to which the link is policed
    :param lost: p, the fraction of requests that may be lost
    :returns: bits
    :raises InvalidQuantity: unless all are above 0, and p below 1
    :raises Unstable: if the link cannot bear the rate
    """
    link_per_s = 1 / transmission_s(size_bit, link_bit_per_s)
    inputs.positive('the rate', rate_per_s)
    inputs.fraction(lost)
    if rate_per_s >= link_per_s:
        raise exception.Unstable(rate_per_s, link_per_s)
    return -size_bit * math.log(lost) / (1 - rate_per_s / link_per_s)


def log_tail_of_two(a_per_s: float, b_per_s: float, time_s: float) -> float:
    """ln P(X + Y > t) for independent exponential X and Y.

    The sum is hypoexponential: F(t) = 1 - (b e^(-a t) - a e^(-b t))/(b - a).
    This form of it has positive terms only, so nothing cancels where the
    rates are equal or nearly so: with a <= b and x = (b - a) t,

        P = e^(-a t) (1 + a t (1 - e^(-x))/x).

    :param a_per_s: rate of X
    :param b_per_s: rate of Y
    :returns: the logarithm, from 0 downwards
    """
    slow, fast = sorted((a_per_s, b_per_s))
    gap = (fast - slow) * time_s
    ratio = -math.expm1(-gap) / gap if gap > 0 else 1.0
    return -slow * time_s + math.log1p(slow * time_s * ratio)


class Tandem(ResponseTime):
    """Two M/M/1 queues in a row, with the exact percentile.

    Source: EDGE 2019, equations 7 to 9, for the mean; Burke's theorem makes
    the two sojourn times independent, so the sum is hypoexponential. With
    a = mu u - lambda and b = nu - lambda::

        E[R] = 2 delta + 1/a + 1/b

    and :func:`log_tail_of_two` for the percentiles, which the papers only
    bound; see :class:`TandemBound`.

    Valid for lambda < mu u and lambda < nu, Poisson arrivals, exponential
    service times and exponential request sizes. A request is served when its
    last bit is there. Constant sizes wait less than in this model.

    :ivar service_s: 1/mu, mean CPU time of a request, seconds at full speed
    :ivar transmission_s: 1/nu, mean time of a request on the link, seconds
    """

    def __init__(
        self, service_s: float, transmission_s: float, latency_s: float = 0.0
    ) -> None:
        super().__init__(latency_s)
        self.service_s = inputs.positive('the service time', service_s)
        self.transmission_s = inputs.positive(
            'the transmission time', transmission_s
        )

    def _rates(self, rate_per_s: float, bandwidth: float) -> tuple[float, ...]:
        return (
            bandwidth / self.service_s - rate_per_s,
            1 / self.transmission_s - rate_per_s,
        )

    def _capacity_per_s(self, bandwidth: float) -> float:
        return min(bandwidth / self.service_s, 1 / self.transmission_s)

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        a, b = self._rates(rate_per_s, bandwidth)
        return 1 / a + 1 / b

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        a, b = self._rates(rate_per_s, bandwidth)
        return log_tail_of_two(a, b, time_s)

    def min_bandwidth(
        self, rate_per_s: float, deadline_s: float, fraction: float
    ) -> float:
        # No bandwidth of the CPU makes up for a link that is too slow.
        inputs.positive('the rate', rate_per_s)
        if rate_per_s * self.transmission_s >= 1:
            raise exception.Unstable(rate_per_s, 1 / self.transmission_s)
        return super().min_bandwidth(rate_per_s, deadline_s, fraction)


class TandemBound(Tandem):
    """The same queues with the papers' conservative percentile.

    Source: EDGE 2019, equations 10 to 12, with the two errors of the texts
    corrected. With 1/alpha = 1/a + 1/b and
    beta = -ln(1 - sqrt(phi))/(D - 2 delta)::

        P(R <= t) >= (1 - exp(-alpha (t - 2 delta)))^2
        R_phi     <= 2 delta - ln(1 - sqrt(phi))/alpha
        lambda    <= m - beta - sqrt(beta^2 + d^2)
        m = (mu u + nu)/2, d = (mu u - nu)/2
        u         >= (lambda + 1/(1/beta - 1/(nu - lambda))) / mu

    The bandwidth and the percentile are never below the exact ones, the rate
    and the fraction never above. Valid where :class:`Tandem` is.
    """

    def _alpha_per_s(self, rate_per_s: float, bandwidth: float) -> float:
        a, b = self._rates(rate_per_s, bandwidth)
        return 1 / (1 / a + 1 / b)

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        # 1 - (1 - x)^2 = x (2 - x) for x = exp(-alpha t)
        power = -self._alpha_per_s(rate_per_s, bandwidth) * time_s
        return power + math.log1p(-math.expm1(power))

    def _percentile_s(
        self, rate_per_s: float, bandwidth: float, log_late: float
    ) -> float:
        alpha = self._alpha_per_s(rate_per_s, bandwidth)
        return _needed(log_late) / alpha

    def _max_rate_per_s(
        self, bandwidth: float, time_s: float, log_late: float
    ) -> float | None:
        beta = _needed(log_late) / time_s
        mu, nu = bandwidth / self.service_s, 1 / self.transmission_s
        return (mu + nu) / 2 - beta - math.hypot(beta, (mu - nu) / 2)

    def _min_bandwidth(
        self, rate_per_s: float, time_s: float, log_late: float
    ) -> float | None:
        beta = _needed(log_late) / time_s
        on_link_s = 1 / (1 / self.transmission_s - rate_per_s)
        if on_link_s * beta >= 1:
            return None
        return self.service_s * (rate_per_s + 1 / (1 / beta - on_link_s))


def _needed(log_late: float) -> float:
    """-ln(1 - sqrt(phi)), from ln(1 - phi), without cancellation."""
    root = math.sqrt(-math.expm1(log_late))
    return math.log1p(root) - log_late

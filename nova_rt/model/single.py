# SPDX-License-Identifier: Apache-2.0
"""One CPU, exponential service times, a network that does not matter."""

from nova_rt.model import inputs
from nova_rt.model.response import ResponseTime


class SingleQueue(ResponseTime):
    """M/M/1: the first model of the papers.

    Source: EDGE 2019, equations 4 to 6; CLOSER 2020, section 3. With the
    service rate mu = 1/service_s of a whole CPU and a = mu u - lambda::

        E[R]     = 2 delta + 1/a
        P(R > t) = exp(-a (t - 2 delta))
        R_phi    = 2 delta - ln(1 - phi)/a
        u       >= (lambda - ln(1 - phi)/(D - 2 delta)) / mu
        lambda  <= mu u + ln(1 - phi)/(D - 2 delta)

    Valid for lambda < mu u, Poisson arrivals, exponential service times, and
    transmission times that are small against the response time.

    :ivar service_s: 1/mu, mean CPU time of a request, seconds at full speed
    """

    def __init__(self, service_s: float, latency_s: float = 0.0) -> None:
        super().__init__(latency_s)
        self.service_s = inputs.positive('the service time', service_s)

    def _capacity_per_s(self, bandwidth: float) -> float:
        return bandwidth / self.service_s

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        return 1 / (bandwidth / self.service_s - rate_per_s)

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        return -(bandwidth / self.service_s - rate_per_s) * time_s

    def _percentile_s(
        self, rate_per_s: float, bandwidth: float, log_late: float
    ) -> float:
        return -log_late / (bandwidth / self.service_s - rate_per_s)

    def _max_rate_per_s(
        self, bandwidth: float, time_s: float, log_late: float
    ) -> float | None:
        return bandwidth / self.service_s + log_late / time_s

    def _min_bandwidth(
        self, rate_per_s: float, time_s: float, log_late: float
    ) -> float | None:
        return (rate_per_s - log_late / time_s) * self.service_s

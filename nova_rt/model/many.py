# SPDX-License-Identifier: Apache-2.0
"""A container of several CPUs that share one queue."""

import math

from nova_rt.model import inputs
from nova_rt.model.response import ResponseTime
from nova_rt.model.tandem import log_tail_of_two


def waiting_probability(cpus: int, load: float) -> float:
    """Erlang's C: the probability that a request finds all CPUs busy.

    C = n B / (n - a (1 - B)), with Erlang's B from the recursion
    B_k = a B_(k-1) / (k + a B_(k-1)), B_0 = 1: positive terms only.

    Source: A. K. Erlang, 1917; Kleinrock, Queueing Systems I, section 3.5.

    :param cpus: n
    :param load: a = lambda/mu, above 0 and at most n
    :returns: a probability
    :raises InvalidQuantity: for other numbers
    """
    inputs.whole('the number of CPUs', cpus)
    inputs.positive('the load', load)
    inputs.not_negative('the capacity that is left', cpus - load)
    blocked = 1.0
    for number in range(1, cpus + 1):
        blocked = load * blocked / (number + load * blocked)
    return cpus * blocked / (cpus - load * (1 - blocked))


class ManyCPUs(ResponseTime):
    """M/M/n: n CPUs with the same reservation, each slowed to u = Q/P.

    Source: M/M/n as in Kleinrock, Queueing Systems I, section 3.5. With
    m = mu u, g = n m - lambda and Erlang's C, a request waits with
    probability C, then for an exponential time of rate g, and is served for
    an exponential time of rate m::

        E[R]     = 2 delta + 1/m + C/g
        P(R > t) = (1 - C) exp(-m t) + C P(X_m + X_g > t)

    :func:`nova_rt.model.tandem.log_tail_of_two` has the last term, also for
    m = g. With one CPU this is :class:`nova_rt.model.single.SingleQueue`.

    Valid for lambda < n mu u, exponential service times and a service with at
    least n workers that share one queue. It is conservative on kernels that
    move a request to another CPU of the container when the budget of its own
    is used up: while fewer than n requests are there, that serves them faster.

    :ivar cpus: n, the server's vCPUs
    :ivar service_s: 1/mu, mean CPU time of a request, seconds at full speed
    """

    def __init__(
        self, cpus: int, service_s: float, latency_s: float = 0.0
    ) -> None:
        super().__init__(latency_s)
        self.cpus = inputs.whole('the number of CPUs', cpus)
        self.service_s = inputs.positive('the service time', service_s)

    def _waits(self, rate_per_s: float, bandwidth: float) -> tuple[float, ...]:
        """C, m and g."""
        m = bandwidth / self.service_s
        return (
            waiting_probability(self.cpus, rate_per_s / m),
            m,
            self.cpus * m - rate_per_s,
        )

    def _capacity_per_s(self, bandwidth: float) -> float:
        return self.cpus * bandwidth / self.service_s

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        waits, m, g = self._waits(rate_per_s, bandwidth)
        return 1 / m + waits / g

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        waits, m, g = self._waits(rate_per_s, bandwidth)
        # Relative to exp(-m t), which is a part of both terms.
        at_once = -m * time_s
        more = log_tail_of_two(m, g, time_s) - at_once
        if more > 500:
            return at_once + more + math.log(waits)
        return at_once + math.log1p(waits * math.expm1(more))

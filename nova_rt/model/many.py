# SPDX-License-Identifier: Apache-2.0
"""A container of several CPUs that share one queue."""

import math

from nova_rt import exception
from nova_rt.model import inputs
from nova_rt.model.response import ResponseTime
from nova_rt.model.tandem import log_tail_of_two

_LARGE = 1e100


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


def mean_shared_s(
    cpus: int, service_s: float, rate_per_s: float, bandwidth: float
) -> float:
    """E[R] without 2 delta, if requests move to CPUs that have budget left.

    This project's kernel moves a task to another CPU of its container when the
    budget of its own is used up. So k requests get k whole CPUs as long as
    n u >= k, and n u CPUs otherwise: a birth-death process with the rates of
    departure::

        mu min(k, n u),  L = sum k p_k,  E[R] = L/lambda

    Source: Kleinrock, Queueing Systems I, section 3.2, and Little's law. With
    one CPU it is M/M/1, and with whole CPUs M/M/n.

    Valid for lambda < n mu u, exponential service times, at least n workers
    that share one queue, no other container on the CPUs, and a period that is
    short against the service time.

    :param cpus: n
    :param service_s: 1/mu, seconds at full speed
    :param bandwidth: u = Q/P of each CPU
    :returns: seconds; at most those of M/M/n
    :raises InvalidQuantity: for invalid quantities
    :raises Unstable: if the CPUs cannot bear the rate
    """
    inputs.whole('the number of CPUs', cpus)
    load = inputs.positive('the rate', rate_per_s) * inputs.positive(
        'the service time', service_s
    )
    speed = cpus * inputs.bandwidth(bandwidth)
    if load >= speed:
        raise exception.Unstable(rate_per_s, speed / service_s)
    # Up to this many requests have a CPU each; the rest is geometric.
    each = math.floor(speed)
    weight = total = 1.0
    requests = 0.0
    for number in range(1, each + 1):
        weight *= load / number
        total += weight
        requests += number * weight
        if total > _LARGE:
            # Relative to it: of thousands of CPUs it would overflow.
            weight, requests, total = weight / total, requests / total, 1.0
    ratio = load / speed
    more = weight * ratio / (1 - ratio)
    total += more
    requests += more * (each + 1 / (1 - ratio))
    return requests / total / rate_per_s


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

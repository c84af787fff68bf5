# SPDX-License-Identifier: Apache-2.0
"""The mean of a container of several CPUs whose requests move between them."""

import math

from nova_rt import exception
from nova_rt.model import inputs

_LARGE = 1e100


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

# SPDX-License-Identifier: Apache-2.0
"""Simulated runs that the tests of the models share."""

import numpy

from nova_rt.model import confidence, simulation

COUNT = 300_000


def slowed(works_ns, bandwidth):
    """CPU times on a CPU of this speed that is always there."""
    return numpy.ceil(works_ns / bandwidth).astype(numpy.int64)


def rng(seed: int = 1) -> numpy.random.Generator:
    return numpy.random.default_rng(seed)


def check(test, model, rate, bandwidth, times_ns, fractions=(0.5, 0.9, 0.99)):
    """Hold a model against simulated response times on a fluid CPU.

    Mean and percentiles are within the 99.9 % confidence interval of the
    simulation, which is itself narrow enough to mean something.
    """
    slack_ns = 400
    found = confidence.mean(times_ns)
    wanted = model.mean_s(rate, bandwidth) * 1e9
    test.assertLess(found.half_width, 0.1 * found.value)
    test.assertLess(abs(found.value - wanted), found.half_width + slack_ns)
    for fraction in fractions:
        found = confidence.percentile(times_ns, fraction)
        wanted = model.percentile_s(rate, bandwidth, fraction) * 1e9
        test.assertLess(abs(found.value - wanted), found.half_width + slack_ns)


def constant_ns(time_s, count):
    return numpy.full(count, round(time_s * 1e9))


def single(rate, service_s, bandwidth, count=COUNT, seed=1):
    """Response times of Poisson requests with exponential service."""
    random = rng(seed)
    arrivals = simulation.poisson_ns(rate, count, random)
    works = simulation.exponential_ns(service_s, count, random)
    return simulation.fifo_ns(arrivals, slowed(works, bandwidth)) - arrivals


def shaped_ns(arrivals_ns, burst, interval_ns):
    """Times at which requests leave a token bucket, as early as they may."""
    found, level, last = [], burst * interval_ns, 0
    for arrival in arrivals_ns.tolist():
        now = max(arrival, last)
        level = min(burst * interval_ns, level + now - last)
        wait = max(0, interval_ns - level)
        level += wait - interval_ns
        last = now + wait
        found.append(last)
    return numpy.array(found, dtype=numpy.int64)

# SPDX-License-Identifier: Apache-2.0
"""Simulated runs that the tests of the models share."""

import numpy

from nova_rt.model import confidence, schedule, simulation

COUNT = 300_000
#: A period so short that the reservation is all but fluid.
FINE_NS = 100


def fluid(bandwidth: float) -> schedule.Schedule:
    """A schedule that gives this bandwidth in periods of 100 ns."""
    return schedule.Schedule(round(bandwidth * FINE_NS), FINE_NS)


def rng(seed: int = 1) -> numpy.random.Generator:
    return numpy.random.default_rng(seed)


def check(test, model, rate, bandwidth, times_ns, fractions=(0.5, 0.9, 0.99)):
    """Hold a model against simulated response times on a fluid CPU.

    Mean and percentiles are within the 99.9 % confidence interval of the
    simulation, which is itself narrow enough to mean something.
    """
    slack_ns = 4 * FINE_NS
    found = confidence.mean(times_ns)
    wanted = model.mean_s(rate, bandwidth) * 1e9
    test.assertLess(found.half_width, 0.1 * found.value)
    test.assertLess(abs(found.value - wanted), found.half_width + slack_ns)
    for fraction in fractions:
        found = confidence.percentile(times_ns, fraction)
        wanted = model.percentile_s(rate, bandwidth, fraction) * 1e9
        test.assertLess(abs(found.value - wanted), found.half_width + slack_ns)


def single(rate, service_s, bandwidth, count=COUNT, seed=1):
    """Response times of Poisson requests with exponential service."""
    random = rng(seed)
    arrivals = simulation.poisson_ns(rate, count, random)
    works = simulation.exponential_ns(service_s, count, random)
    return simulation.fifo_ns(arrivals, works, fluid(bandwidth)) - arrivals

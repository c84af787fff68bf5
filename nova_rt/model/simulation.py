# SPDX-License-Identifier: Apache-2.0
"""Requests, and queues of them on a schedule: simulated, not computed.

Times are whole nanoseconds, so that a simulated response time can be compared
with a guaranteed bound without a rounding error. Each function that
draws numbers takes a generator, ``numpy.random.default_rng(seed)``: the same
seed gives the same requests.
"""

from collections.abc import Sequence
import heapq

import numpy

from nova_rt import exception
from nova_rt.model import inputs
from nova_rt.model.schedule import Nanoseconds, Position, Schedule
from nova_rt.model.supply import NS_PER_S

# A whole CPU, or a link: what comes is served at once.
WHOLE = Schedule(1, 1)
# After this a sum of nanoseconds could overflow.
_END_S = 4e9


def exponential_ns(
    mean_s: float, count: int, rng: numpy.random.Generator
) -> Nanoseconds:
    """Exponential times, such as CPU times, rounded up.

    :returns: times of at least 1 ns, as many as asked for
    :raises InvalidQuantity: for invalid quantities, or for more than 4e9 s
    """
    inputs.positive('the mean time', mean_s)
    inputs.whole('the number of requests', count)
    if mean_s * count > _END_S:
        raise exception.InvalidQuantity(
            f'{count} times of {mean_s:g} s are more than {_END_S:g} s'
        )
    times = numpy.ceil(rng.exponential(mean_s * NS_PER_S, count))
    return numpy.maximum(times, 1).astype(numpy.int64)


def constant_ns(time_s: float, count: int) -> Nanoseconds:
    """The same time for each request, rounded up.

    :returns: times of at least 1 ns, as many as asked for
    :raises InvalidQuantity: for invalid quantities
    """
    inputs.positive('the time', time_s)
    inputs.whole('the number of requests', count)
    time_ns = int(numpy.ceil(time_s * NS_PER_S))
    return numpy.full(count, time_ns, dtype=numpy.int64)


def drawn_ns(
    samples_s: Sequence[float], count: int, rng: numpy.random.Generator
) -> Nanoseconds:
    """Times drawn from a sample, rounded up.

    :returns: times of at least 1 ns, as many as asked for
    """
    times = numpy.ceil(numpy.asarray(samples_s, dtype=float) * NS_PER_S)
    return rng.choice(numpy.maximum(times, 1).astype(numpy.int64), count)


def poisson_ns(
    rate_per_s: float, count: int, rng: numpy.random.Generator
) -> Nanoseconds:
    """Instants of a Poisson process.

    :returns: times from 0 on, rising, as many as asked for
    """
    inputs.positive('the rate', rate_per_s)
    return numpy.cumsum(exponential_ns(1 / rate_per_s, count, rng))


def shaped_ns(
    arrivals_ns: Nanoseconds, burst: int, interval_ns: int
) -> Nanoseconds:
    """Times at which requests leave a token bucket, as early as they may.

    :param arrivals_ns: times that do not fall
    :param burst: tokens that the bucket holds; it is full at first
    :param interval_ns: time in which a token comes back
    :returns: times, as many as arrivals, that keep to
        :class:`nova_rt.model.guarantee.Arrivals`
    """
    inputs.whole('the burst', burst)
    inputs.whole('the interval in ns', interval_ns)
    count = len(arrivals_ns)
    found = arrivals_ns.copy()
    if count > burst:
        # Request k needs the token that came back after request k - burst.
        tokens = numpy.arange(count, dtype=numpy.int64) * interval_ns
        latest = numpy.maximum.accumulate(arrivals_ns - tokens)[:-burst]
        earliest = latest + tokens[burst:] - (burst - 1) * interval_ns
        found[burst:] = numpy.maximum(found[burst:], earliest)
    return found


def fifo_ns(
    arrivals_ns: Nanoseconds,
    works_ns: Nanoseconds,
    schedule: Schedule = WHOLE,
) -> Nanoseconds:
    """Completion times of the requests of a queue, first come, first served.

    Lindley's recursion in the time of the work (see :class:`Schedule`):
    done_k = max(S(arrival_k), done_(k-1)) + C_k, with the maximum taken for
    all requests at once: done_k = T_k + max over j <= k of
    (S(arrival_j) - T_(j-1)), T the running sum of C.

    :param arrivals_ns: times that do not fall
    :param works_ns: C, CPU times of at least 1
    :returns: times, as many as requests
    """
    total = numpy.cumsum(works_ns)
    ready = schedule.supplied_ns(arrivals_ns) - (total - works_ns)
    return schedule.done_ns(total + numpy.maximum.accumulate(ready))


def through_link_ns(
    arrivals_ns: Nanoseconds, times_ns: Nanoseconds, ahead_ns: int
) -> Nanoseconds:
    """Times at which the last bit of each request leaves a shaped link.

    A token bucket shapes it, and delays requests but drops none.
    A bucket of B bits is full as long as nothing waits, so a request leaves
    B/sigma before a queue without tokens would have sent it, but not before it
    came.

    :param arrivals_ns: times that do not fall
    :param times_ns: time of each request at the rate of the link, sigma
    :param ahead_ns: B/sigma
    :returns: times that do not fall, as many as requests
    """
    sent_ns = fifo_ns(arrivals_ns, times_ns)
    return numpy.maximum(arrivals_ns, sent_ns - ahead_ns)


def fifo_many_ns(
    arrivals_ns: Nanoseconds,
    works_ns: Nanoseconds,
    cpus: int,
    schedule: Schedule = WHOLE,
) -> Nanoseconds:
    """Completion times of the requests if several CPUs share one queue.

    A request goes to the CPU that is free first and stays there. All CPUs
    have the same schedule.

    :param cpus: number of them
    :param schedule: schedule of each CPU; its position is first or last
    :returns: times, as many as requests
    :raises InvalidQuantity: for another position
    """
    inputs.whole('the number of CPUs', cpus)
    runtime, period = schedule.runtime_ns, schedule.period_ns
    try:
        offset = {Position.FIRST: 0, Position.LAST: period - runtime}[
            schedule.position
        ]
    except KeyError as err:
        raise exception.InvalidQuantity(
            f'several CPUs have no budgets at position {schedule.position}'
        ) from err
    free = [0] * cpus
    done = []
    for arrival, work in zip(
        arrivals_ns.tolist(), works_ns.tolist(), strict=True
    ):
        # The same as Schedule.supplied_ns() and done_ns(), for one request.
        periods, into = divmod(max(free[0], arrival), period)
        before = periods * runtime + min(max(into - offset, 0), runtime)
        periods, into = divmod(before + work - 1, runtime)
        end = periods * period + offset + into + 1
        heapq.heapreplace(free, end)
        done.append(end)
    return numpy.array(done, dtype=numpy.int64)

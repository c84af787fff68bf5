# SPDX-License-Identifier: Apache-2.0
"""Requests, and queues of them: simulated, not computed.

Times are whole nanoseconds, so that a simulated response time can be compared
with a guaranteed bound without a rounding error. Each function that
draws numbers takes a generator, ``numpy.random.default_rng(seed)``: the same
seed gives the same requests.
"""

import numpy
import numpy.typing

from nova_rt import exception
from nova_rt.model import inputs
from nova_rt.model.schedule import Nanoseconds
from nova_rt.model.supply import NS_PER_S

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


def whole_ns(times_s: numpy.typing.NDArray[numpy.float64]) -> Nanoseconds:
    """Seconds in whole nanoseconds, rounded up.

    :returns: as many
    :raises InvalidQuantity: for more than 4e9 s
    """
    if times_s.max() > _END_S:
        raise exception.InvalidQuantity(
            f'the times are more than {_END_S:g} s'
        )
    return numpy.ceil(times_s * NS_PER_S).astype(numpy.int64)


def poisson_ns(
    rate_per_s: float, count: int, rng: numpy.random.Generator
) -> Nanoseconds:
    """Instants of a Poisson process.

    :returns: times from 0 on, rising, as many as asked for
    """
    inputs.positive('the rate', rate_per_s)
    return numpy.cumsum(exponential_ns(1 / rate_per_s, count, rng))


def fifo_ns(arrivals_ns: Nanoseconds, works_ns: Nanoseconds) -> Nanoseconds:
    """Completion times of the requests of a queue, first come, first served.

    Lindley's recursion: done_k = max(arrival_k, done_(k-1)) + C_k, with the
    maximum taken for all requests at once: done_k = T_k + max over j <= k of
    (arrival_j - T_(j-1)), T the running sum of C.

    :param arrivals_ns: times that do not fall
    :param works_ns: C, of at least 1: times of a link, or of a whole CPU
    :returns: times, as many as requests
    """
    total = numpy.cumsum(works_ns)
    ready: Nanoseconds = arrivals_ns - (total - works_ns)
    return total + numpy.maximum.accumulate(ready)


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

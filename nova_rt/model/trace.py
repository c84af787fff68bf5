# SPDX-License-Identifier: Apache-2.0
"""Requests one by one, recorded or drawn, on a fluid CPU."""

import dataclasses
import functools
import math

import numpy
import numpy.typing

from nova_rt import exception
from nova_rt.model import confidence
from nova_rt.model.response import ResponseTime
from nova_rt.model.service import Service

Numbers = numpy.typing.NDArray[numpy.float64]

#: Requests that are drawn for an answer.
REQUESTS = 31 * 10_000
# Events that have not been seen in N tries have a probability of at most this
# over N, with 99.9 % confidence.
_UNSEEN = -math.log(0.001)
# Of a response time: rounding.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """Requests in order.

    :ivar ticks: instants, in mean times between two requests
    :ivar works_s: CPU times at full speed
    :ivar jitter_s: delay of each, which may change their order; or 0
    :ivar chosen: the CPU of each; None if they are all for one
    :ivar random: whether they are drawn, or all that there are
    """

    ticks: Numbers
    works_s: Numbers
    jitter_s: Numbers | float = 0.0
    chosen: numpy.typing.NDArray[numpy.int64] | None = None
    random: bool = True

    def instants_s(self, rate_per_s: float) -> Numbers:
        """Instants of the requests at a rate.

        :returns: seconds that do not fall
        """
        come: Numbers = self.ticks / rate_per_s + self.jitter_s
        if not isinstance(self.jitter_s, float):
            come.sort(kind='stable')
        return come

    def responses_s(self, rate_per_s: float, bandwidth: float) -> Numbers:
        """Response times on a fluid CPU, or one for each queue.

        Lindley's recursion for all requests at once: done_k = T_k + max over
        j <= k of (arrival_j - T_(j-1)), T being the running sum of C/u.

        :returns: seconds, queue by queue
        """
        come, works = self.instants_s(rate_per_s), self.works_s / bandwidth
        if self.chosen is not None:
            order = numpy.argsort(self.chosen, kind='stable')
            # Queues are so far from each other that they do not meet.
            apart_s = come[-1] + works.sum() + 1
            come = (come + self.chosen * apart_s)[order]
            works = works[order]
        total = numpy.cumsum(works)
        ready = numpy.maximum.accumulate(come - (total - works))
        found: Numbers = total + ready - come
        return found


def draw(
    service: Service, count: int, seed: int, one_queue: bool = False
) -> Trace:
    """Draw what is not recorded.

    :param one_queue: of a split service, only the requests of one CPU
    :returns: the same requests for the same seed
    """
    rng = numpy.random.default_rng(seed)
    split = service.cpus if service.split else 1
    jitter_s: Numbers | float = 0.0
    if service.instants_s:
        since_s = numpy.array(service.instants_s) - service.instants_s[0]
        count = len(since_s)
        ticks = since_s * (count - 1) / since_s[-1]
    else:
        batches = -(-count // service.batch)
        # In batches that go to the same CPU, all or every n-th at random.
        part = split if one_queue else 1
        gaps = numpy.ones(batches)
        if service.periodic:
            if part > 1:
                gaps = rng.geometric(1 / part, batches).astype(float)
        else:
            gaps = rng.exponential(part, batches)
        begin = (numpy.cumsum(gaps) - gaps[0]) * service.batch
        ticks = numpy.repeat(begin, service.batch)[:count]
        if service.jitter_s:
            late_s = rng.uniform(0, service.jitter_s, batches)
            jitter_s = numpy.repeat(late_s, service.batch)[:count]
    works_s = _works_s(service, count, rng)
    chosen = None
    if split > 1 and not one_queue:
        batch = 1 if service.instants_s else service.batch
        drawn = rng.integers(split, size=-(-count // batch))
        chosen = numpy.repeat(drawn, batch)[:count]
    random = not (service.paired or service.even)
    return Trace(ticks, works_s, jitter_s, chosen, random)


def swinging(
    service: Service, rate_per_s: float, swing: float, phase_s: float
) -> Trace:
    """Draw requests whose rate swings.

    :param swing: the rate is (1 + swing) or (1 - swing) times the mean, in
        turns
    :param phase_s: mean time of each phase, an exponential one
    :returns: requests with this mean rate
    """
    rng = numpy.random.default_rng(1)
    works_s = _works_s(service, REQUESTS, rng)
    length_s = REQUESTS / rate_per_s
    phases = rng.exponential(phase_s, 2 * math.ceil(length_s / phase_s) + 20)
    rates = numpy.resize([1 + swing, 1 - swing], phases.size)
    # In the time in which the process has one request in each second.
    passed = numpy.concatenate([[0], numpy.cumsum(phases * rates)])
    clock = numpy.concatenate([[0], numpy.cumsum(phases)])
    come = numpy.cumsum(rng.exponential(1, REQUESTS)) / rate_per_s
    return Trace(numpy.interp(come, passed, clock) * rate_per_s, works_s)


def _works_s(
    service: Service, count: int, rng: numpy.random.Generator
) -> Numbers:
    if service.paired:
        return numpy.array(service.samples_s)
    if service.samples_s:
        return rng.choice(numpy.array(service.samples_s), count)
    if service.constant:
        return numpy.full(count, service.service_s)
    return rng.exponential(service.service_s, count)


class TraceQueue(ResponseTime):
    """The share of late requests of a trace, counted.

    If these are all requests that there are, the answers are exact for them.
    By the theorem no request is later than on the fluid CPU by more than
    P - Q, whatever the requests are. If they are drawn, the share that may be
    late is the upper end of a 99.9 % confidence interval from 30 batches,
    which is unbiased for a share, unlike for a percentile.

    :ivar mean_service_s: mean CPU time, seconds at full speed
    """

    tolerance = 1e-7

    def __init__(
        self, trace: Trace, mean_service_s: float, cpus: int = 1,
        latency_s: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(latency_s)
        self._trace, self._cpus = trace, cpus
        self.mean_service_s = mean_service_s

    def _capacity_per_s(self, bandwidth: float) -> float:
        return self._cpus * bandwidth / self.mean_service_s

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        return float(_responses_s(self, rate_per_s, bandwidth).mean())

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        late = self.late(rate_per_s, bandwidth, time_s)
        return math.log(late) if late > 0 else -math.inf

    def late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        """The share that is late, at most.

        :returns: from 0 to 1
        """
        times_s = _responses_s(self, rate_per_s, bandwidth)
        late = times_s > time_s * (1 + _ROUNDING)
        if not self._trace.random:
            return float(late.mean())
        found = confidence.mean(late)
        return min(1.0, found.high + _UNSEEN / late.size)


@functools.lru_cache(maxsize=2)
def _responses_s(
    queue: TraceQueue, rate_per_s: float, bandwidth: float
) -> Numbers:
    return queue._trace.responses_s(rate_per_s, bandwidth)


def rate_of(instants_s: list[float]) -> float:
    """The rate of recorded instants.

    :returns: requests/s
    :raises InvalidQuantity: if they are no requests in order
    """
    if len(instants_s) < confidence.FEWEST:
        raise exception.InvalidQuantity(
            f'{len(instants_s)} requests are too few: there must be at least '
            f'{confidence.FEWEST}'
        )
    gaps_s = numpy.diff(instants_s)
    if gaps_s.min() < 0:
        raise exception.InvalidQuantity(
            f'instant {int(gaps_s.argmin()) + 2} is before the one in front '
            'of it'
        )
    length_s = instants_s[-1] - instants_s[0]
    if not 0 < length_s <= 4e9:
        raise exception.InvalidQuantity(
            f'the instants are within {length_s:g} s: it must be above 0, '
            'and less than a century'
        )
    return (len(instants_s) - 1) / length_s

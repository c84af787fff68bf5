# SPDX-License-Identifier: Apache-2.0
"""The smallest reservation that meets a deadline in simulation.

For CPU times that were measured, the formula for the percentile is a bound
(:class:`nova_rt.model.measured.MeasuredQueue`), and the gap P - Q is added to
it as a whole. Here the requests themselves are simulated, on a server that has
each budget as late as earliest deadline first allows.
"""

from collections.abc import Sequence
import dataclasses
import functools
import math

import numpy

from nova_rt import exception
from nova_rt.model import confidence, inputs, judged, simulation
from nova_rt.model.confidence import Estimate
from nova_rt.model.limits import Limits
from nova_rt.model.schedule import Nanoseconds
from nova_rt.model.supply import NS_PER_S
from nova_rt.reservation.reservation import MIN_RUNTIME_US, Reservation

REQUESTS = 400_000


@dataclasses.dataclass(frozen=True)
class Tried:
    """A reservation, and its response times in simulation.

    :ivar reservation: Q and P, the overhead included
    :ivar percentile_s: the percentile with its 99.9 % confidence interval
    """

    reservation: Reservation
    percentile_s: Estimate


@dataclasses.dataclass(frozen=True)
class Trial:
    """Requests that are the same for every reservation that is tried.

    Arrivals are Poisson, CPU times are drawn from a sample, independently.

    :ivar samples_s: CPU times at full speed
    :ivar latency_s: one way
    :ivar seed: seed of the random numbers
    """

    samples_s: Sequence[float]
    rate_per_s: float
    deadline_s: float
    fraction: float
    latency_s: float = 0.0
    limits: Limits = dataclasses.field(default_factory=Limits)
    seed: int = 1

    def __post_init__(self) -> None:
        inputs.fraction(self.fraction)
        most = confidence.highest_fraction(REQUESTS)
        if self.fraction > most:
            raise exception.InvalidQuantity(
                f'{REQUESTS} requests are simulated, too few for a '
                f'percentile above {math.floor(1e4 * most) / 100}'
            )

    def size(self, enough: Reservation) -> Tried | None:
        """Find the smallest runtime, with the period of a reservation.

        By bisection: of the runtimes that were tried, it is the smallest whose
        interval is within the deadline, and one microsecond less was not.

        :param enough: a first reservation, such as the result of
            :func:`nova_rt.model.sizing.size`
        :returns: at most ``enough``; None if the interval of that is not
            within the deadline
        """
        best = self._try(enough.runtime_us, enough.period_us)
        if best is None:
            return None
        # With that, the queue is not stable, or there is no budget.
        low = max(
            MIN_RUNTIME_US - 1,
            math.floor(self._load * enough.period_us) + self._overhead_us,
        )
        high = enough.runtime_us
        while high - low > 1:
            middle = (low + high) // 2
            found = self._try(middle, enough.period_us)
            if found is not None:
                best, high = found, middle
            else:
                low = middle
        return best

    @property
    def _load(self) -> float:
        return self.rate_per_s * float(numpy.mean(self.samples_s))

    @property
    def _overhead_us(self) -> int:
        return math.ceil(self.limits.overhead_us)

    @functools.cached_property
    def _requests(self) -> tuple[Nanoseconds, Nanoseconds]:
        """Their arrivals and CPU times."""
        rng = numpy.random.default_rng(self.seed)
        return (
            simulation.poisson_ns(self.rate_per_s, REQUESTS, rng),
            simulation.drawn_ns(self.samples_s, REQUESTS, rng),
        )

    def _try(self, runtime_us: int, period_us: int) -> Tried | None:
        """Simulate; None if the interval is not within the deadline."""
        budget_us = runtime_us - self._overhead_us
        if budget_us < MIN_RUNTIME_US:
            return None
        come, works = self._requests
        done = judged.run(
            Reservation(budget_us, period_us), judged.Place(late=True),
            come, works,
        )  # fmt: skip
        found = confidence.percentile(
            (done - come) / NS_PER_S + 2 * self.latency_s, self.fraction
        )
        if found.high > self.deadline_s:
            return None
        return Tried(Reservation(runtime_us, period_us), found)

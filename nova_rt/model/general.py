# SPDX-License-Identifier: Apache-2.0
"""One CPU and any CPU times: measured, equal, or in batches."""

from collections.abc import Sequence
import functools
import math
from typing import Any

import numpy
import numpy.typing

from nova_rt import exception
from nova_rt.model import inputs, roots
from nova_rt.model.response import ResponseTime

_Numbers = numpy.typing.NDArray[numpy.float64]
_Complex = numpy.typing.NDArray[numpy.complex128]

# Damping of the last point of a transform: so little of what is beyond it
# comes back at its beginning.
_DAMPED = math.log(1e10)
# What rounding can make of a probability, damping included.
_SLACK = 1e-11
# Points of a grid, and how many of them each step of the waiting time has.
_FEWEST, _MOST, _EACH = 1 << 12, 1 << 16, 300
# So much further, a coarser grid has the lower bound again.
_NEAR = 1.01


class GeneralQueue(ResponseTime):
    """M/G/1, also in batches and behind a link: proved bounds, by FFT.

    With the CPU times S divided by u, rho = lambda E[S], and S' the rest of a
    CPU time that is met at a random instant (P(S' <= x) = E[min(S, x)]/E[S]),
    the formula of Pollaczek and Khinchine says that a request waits for a
    geometric number of independent S'. In generating functions, for batches
    of N requests that come at random instants, A being the requests of its
    own batch that are in front::

        E[z^R] = (1 - rho) / (1 - rho S'(z) A(z)) A(z) S(z) L(z)
        A(z) = (1 + S(z) + ... + S(z)^(N - 1)) / N
        E[R] = lambda (V + N E[S]^2) / (2 (1 - rho)) + (N + 1)/2 E[S] + E[L]

    where V is the variance of S, and L the time on a link. Sources: Kleinrock,
    Queueing Systems I, section 5.7; M. L. Chaudhry and J. G. C. Templeton, A
    First Course in Bulk Queues, 1983; E. Reich, Waiting times when queues are
    in tandem, 1957: what leaves an M/M/1 link is a Poisson process, and the
    time there does not depend on what came out before.

    All of it grows with each time. So if S, S' and L are rounded up to a grid,
    P(R > t) is an upper bound, and a lower one if they are rounded down. The
    percentile and the bandwidth are never too low, the rate and the fraction
    never too high. The grid is as fine as t allows, and times beyond t are
    known to be beyond: nothing is cut off. The transforms are damped, so that
    what wraps around is 1e-10 of the rest.

    Valid for lambda E[S] < 1, batches that come independently of each other,
    and CPU times that do not depend on each other; with a link, for
    exponential sizes and no batches. Percentiles above 1 - 1e-10 are out of
    reach.

    :ivar mean_service_s: mean CPU time, seconds at full speed
    :ivar batch: requests that come together
    :ivar link_s: mean time of a request on a link; 0 without one
    """

    tolerance = 1e-7

    def __init__(
        self,
        times_s: Sequence[float] | _Numbers | float,
        latency_s: float = 0.0,
        batch: int = 1,
        link_s: float = 0.0,
    ) -> None:
        """Take CPU times and the other properties of the queue.

        :param times_s: a sample; one time if all are the same; or the mean,
            a float, of exponential ones
        """
        super().__init__(latency_s)
        self.batch = inputs.whole('the batch', batch)
        self.link_s = inputs.not_negative('the time on the link', link_s)
        if batch > 1 and link_s:
            raise exception.InvalidQuantity(
                'no model covers batches on a link: leave out one of them'
            )
        self._times: _Numbers | None = None
        if isinstance(times_s, float | int):
            mean = inputs.positive('the service time', times_s)
            self._square_s2 = 2 * mean * mean
            self._step_s = mean * math.log(2)
        else:
            times = numpy.sort(numpy.asarray(times_s, dtype=float))
            if times.ndim != 1 or times.size == 0:
                raise exception.InvalidQuantity('there are no service times')
            for time_s in (times[0], times[-1]):
                inputs.positive('a service time', float(time_s))
            self._times = times
            self._sums = numpy.concatenate([[0.0], numpy.cumsum(times)])
            mean = float(self._sums[-1]) / times.size
            self._square_s2 = float(numpy.square(times).mean())
            # At least half of S' is in longer times than the median of work.
            half = numpy.searchsorted(self._sums, self._sums[-1] / 2)
            self._step_s = float(times[half - 1]) / 2
        self.mean_service_s = mean

    def _capacity_per_s(self, bandwidth: float) -> float:
        capacity = bandwidth / self.mean_service_s
        return min(capacity, 1 / self.link_s) if self.link_s else capacity

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        service_s = self.mean_service_s / bandwidth
        variance_s2 = self._square_s2 / bandwidth**2 - service_s**2
        found = (self.batch + 1) / 2 * service_s
        found += (
            rate_per_s
            * (variance_s2 + self.batch * service_s**2)
            / (2 * (1 - rate_per_s * service_s))
        )
        if self.link_s:
            found += 1 / (1 / self.link_s - rate_per_s)
        return found

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        late = self._late(rate_per_s, bandwidth, time_s, up=True)
        return math.log(late) if late < 1 else 0.0

    def bounds_s(
        self, rate_per_s: float, bandwidth: float, fraction: float
    ) -> tuple[float, float]:
        """A percentile between two proved bounds.

        :returns: seconds; the second is :meth:`percentile_s`
        :raises Unanswerable: see the class
        """
        most = self.percentile_s(rate_per_s, bandwidth, fraction)
        trip_s = 2 * self.latency_s

        def in_time(time_s: float) -> float:
            if not time_s:
                return -fraction
            late = self._late(rate_per_s, bandwidth, time_s, up=False)
            return 1 - fraction - late

        # From above, to the last time at which too many are late for certain.
        least = roots.boundary(in_time, most - trip_s, 0.0, 1e-6)
        return least + trip_s, most

    def _late(
        self, rate_per_s: float, bandwidth: float, time_s: float, up: bool
    ) -> float:
        """P(R > t), not below the truth or not above it."""
        # In time of the CPU at full speed, the CPU times are the same for
        # each bandwidth.
        reach_s = time_s * bandwidth
        wanted = max(_FEWEST, math.ceil(_EACH * reach_s / self._step_s))
        points = min(_MOST, 1 << (wanted - 1).bit_length())
        # A few widths, so that transforms can be used again.
        step = math.ceil(8 * math.log2(reach_s / points))
        steps = [step]
        if reach_s < _NEAR * points * 2 ** ((step - 1) / 8):
            # A finer grid ends just here: with its last point, the bound
            # does not rise where the width changes.
            steps.append(step - 1)
        found = []
        for step in steps:
            width_s = 2 ** (step / 8)
            last = min(points, int(reach_s / width_s))
            found.append(
                self._beyond(rate_per_s, bandwidth, points, width_s, last, up)
            )
        return min(found) if up else found[0]

    def _beyond(
        self, rate_per_s: float, bandwidth: float, points: int,
        width_s: float, last: int, up: bool,
    ) -> float:  # fmt: skip
        """P(R > t) on a grid, t being one of its points."""
        load = rate_per_s * self.mean_service_s / bandwidth
        rest, own = _transforms(self, points, width_s, up)
        found = (1 - load) / (1 - load * rest) * own
        if self.link_s:
            decay = (1 / self.link_s - rate_per_s) * width_s / bandwidth
            found = found * _exponential(decay, points, up)
        masses = numpy.fft.irfft(found)[: last + 1]
        in_time = float(masses @ _growth(points)[: masses.size])
        slack = _SLACK if up else -_SLACK
        return min(1.0, max(0.0, 1 - in_time) + slack)

    def _shares(
        self, edges_s: numpy.typing.NDArray[Any]
    ) -> tuple[_Numbers, _Numbers]:
        """P(S' <= x) and P(S <= x)."""
        if self._times is None:
            found = -numpy.expm1(-edges_s / self.mean_service_s)
            return found, found
        count = numpy.searchsorted(self._times, edges_s, 'right')
        beyond = edges_s * (self._times.size - count)
        return (
            (self._sums[count] + beyond) / self._sums[-1],
            count / self._times.size,
        )


@functools.lru_cache(maxsize=48)
def _transforms(
    queue: GeneralQueue, points: int, width_s: float, up: bool
) -> tuple[_Complex, _Complex]:
    """S'(z) A(z) and A(z) S(z) on a grid."""
    rest, whole = (
        _transform(numpy.diff(shares), points, up)
        for shares in queue._shares(width_s * numpy.arange(points + 1))
    )
    # The mean of the first N powers, by the digits of N.
    ahead, power, number = numpy.ones_like(whole), whole, 1
    for digit in f'{queue.batch:b}'[1:]:
        ahead, power, number = ahead * (1 + power) / 2, power**2, 2 * number
        if digit == '1':
            ahead = (number * ahead + power) / (number + 1)
            power, number = power * whole, number + 1
    return rest * ahead, whole * ahead


def _transform(masses: _Numbers, points: int, up: bool) -> _Complex:
    """Damped masses, each at the end of its cell or at the beginning."""
    placed = numpy.zeros(2 * points)
    placed[int(up) : points + up] = masses
    placed[: points + 1] /= _growth(points)
    found: _Complex = numpy.fft.rfft(placed)
    return found


def _exponential(decay: float, points: int, up: bool) -> _Complex:
    """The transform of an exponential time, ``decay`` in each cell."""
    steps = numpy.arange(points + 1) / (2 * points)
    z = numpy.exp(-_DAMPED / (2 * points) - 2j * math.pi * steps)
    found: _Complex = -math.expm1(-decay) / (1 - math.exp(-decay) * z)
    return found * z if up else found


@functools.lru_cache(maxsize=8)
def _growth(points: int) -> _Numbers:
    """Factors that undo the damping."""
    found: _Numbers = numpy.exp(
        _DAMPED / (2 * points) * numpy.arange(points + 1)
    )
    return found

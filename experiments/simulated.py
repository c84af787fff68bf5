# SPDX-License-Identifier: Apache-2.0
"""The very requests of a run: on a fluid CPU, scheduled, and their bound."""

from collections.abc import Iterator
import dataclasses
import math

import numpy

from experiments import noises, samples
from experiments.description import Point
from nova_rt.model import cbs, edf, guarantee, simulation
from nova_rt.model.limits import Limits
from nova_rt.reservation.reservation import MIN_PERIOD_US, Reservation

#: The token bucket's size: one frame.
BURST_BYTES = 1514
#: Instants at which busy neighbours can begin, spread over their longest
#: period: one of 24 ms in 100 ms disturbs from some of them only.
_PHASES = 20
#: Runtime and period of the client's deadline in experiments/guest/init.c.
_CLIENT_NS = 20_000
Nanoseconds = samples.Nanoseconds


def through_link_ns(
    arrivals_ns: Nanoseconds, sizes_bytes: Nanoseconds, bit_per_s: int
) -> Nanoseconds:
    """Times at which the last frames of requests leave the token bucket."""
    if not bit_per_s:
        return arrivals_ns
    times_ns = numpy.ceil(sizes_bytes * 8e9 / bit_per_s).astype(numpy.int64)
    ahead_ns = int(BURST_BYTES * 8e9 / bit_per_s)
    return simulation.through_link_ns(arrivals_ns, times_ns, ahead_ns)


def on_fluid_ns(
    arrivals_ns: Nanoseconds,
    works_ns: Nanoseconds,
    bandwidth: float,
    cpus: int = 1,
) -> Nanoseconds:
    """Completion times of the requests on CPUs that are always there."""
    slowed_ns = numpy.ceil(works_ns / bandwidth).astype(numpy.int64)
    if cpus > 1:
        whole = cbs.DeadlineServer(Reservation(MIN_PERIOD_US, MIN_PERIOD_US))
        return whole.fifo_many_ns(arrivals_ns, slowed_ns, cpus)
    return simulation.fifo_ns(arrivals_ns, slowed_ns)


def bound_s(
    reservation: Reservation, arrivals_ns: Nanoseconds, works_ns: Nanoseconds
) -> float:
    """Bound on the response times, without the network.

    From the largest CPU time, and the smallest token bucket that the arrivals
    keep to, at a rate of 0.98 of the capacity.

    :returns: seconds
    """
    cost_ns = int(works_ns.max())
    usable = Reservation(
        math.floor(reservation.runtime_us - Limits().overhead_us),
        reservation.period_us,
    )
    interval_ns = math.ceil(
        cost_ns * usable.period_us / usable.runtime_us / 0.98
    )
    # Request k needs k - j + 1 - (t_k - t_j)/interval tokens, for all j <= k.
    level = numpy.arange(len(arrivals_ns)) - arrivals_ns / interval_ns
    tokens = (level - numpy.minimum.accumulate(level)).max() + 1
    arrivals = guarantee.Arrivals(math.ceil(tokens), interval_ns, cost_ns)
    return guarantee.delay_ns(arrivals, usable) / 1e9


@dataclasses.dataclass(frozen=True)
class Jobs:
    """Jobs of a server, in order.

    A request is a job that comes with its last datagram. Datagrams before
    that one are a job of their own, which comes with the first of them.

    :ivar arrivals_ns: their arrivals
    :ivar works_ns: CPU times of at least 1
    :ivar last: positions of the jobs with which requests are done
    """

    arrivals_ns: Nanoseconds
    works_ns: Nanoseconds
    last: Nanoseconds

    @classmethod
    def of(cls, run: samples.Run) -> 'Jobs':
        """The jobs of a run."""
        arrivals_ns = numpy.column_stack([run.begun_ns, run.arrived_ns])
        works_ns = numpy.column_stack(
            [run.early_ns, numpy.maximum(run.service_ns - run.early_ns, 1)]
        )
        is_job = works_ns > 0
        return cls(
            arrivals_ns[is_job],
            works_ns[is_job],
            is_job.sum(axis=1).cumsum() - 1,
        )


def neighbours(point: Point) -> tuple[Reservation, ...]:
    """The neighbours in the simulation, which are always busy."""
    return point.beside if noises.KINDS[point.noise].busy else ()


def scheduled_ns(
    point: Point, run: samples.Run, jobs: Jobs
) -> Iterator[Nanoseconds]:
    """Completion times of the requests, for each instant of the neighbours.

    The client is a neighbour, too: its work for a request takes the CPU from
    the requests before.

    :returns: times, as many as requests; once where no neighbour is busy, or
        where the kernel does not treat them as neighbours
    """
    busy = neighbours(point)
    most_us = max((each.period_us for each in busy), default=0)
    several = most_us and point.kernel == 'hcbs'
    awake_ns = (run.until_ns - run.sent_ns).tolist()
    for phase in range(_PHASES if several else 1):
        # Neighbours begin at 0, so the requests are shifted instead.
        later_ns = most_us * 1000 * phase // _PHASES
        client = edf.SimulatedServer(
            _CLIENT_NS, _CLIENT_NS, (run.sent_ns + later_ns).tolist(), awake_ns
        )
        done_ns = edf.fifo_ns(
            point.reservation,
            [client, *map(edf.SimulatedServer.busy, busy)],
            jobs.arrivals_ns + later_ns,
            jobs.works_ns,
        )
        yield done_ns[jobs.last] - later_ns

# SPDX-License-Identifier: Apache-2.0
"""A simulated run of the scheduler, compared with the fluid CPU."""

from collections.abc import Sequence
import dataclasses
from fractions import Fraction
import math

import numpy
import numpy.typing

from nova_rt import exception
from nova_rt.model import cbs, edf, supply
from nova_rt.model.schedule import Nanoseconds, Position
from nova_rt.reservation.reservation import PPM, Reservation

# Most events to simulate beside neighbours: some seconds of computing.
_MOST_EVENTS = 20_000_000


@dataclasses.dataclass(frozen=True)
class Place:
    """Neighbours of a container on its CPUs.

    :ivar late: whether it has each budget as late as earliest deadline first
        allows
    :ivar neighbours: servers that never sleep, on each of its CPUs; with none
        it is alone
    """

    late: bool = False
    neighbours: tuple[Reservation, ...] = ()


def run(
    reservation: Reservation,
    place: Place,
    arrivals_ns: Nanoseconds,
    works_ns: Nanoseconds,
    cpus: int = 1,
) -> Nanoseconds:
    """Simulate the scheduler, first come, first served.

    :param arrivals_ns: times that do not fall
    :param works_ns: CPU times of at least 1
    :param cpus: number that share the queue, each with this reservation
    :returns: completion times of the requests
    :raises InvalidQuantity: for neighbours that are not admitted, or are
        beside several CPUs that share a queue, and runs that take too long
    """
    if not place.neighbours:
        position = Position.LAST if place.late else Position.FIRST
        server = cbs.DeadlineServer(reservation, position)
        return server.fifo_many_ns(arrivals_ns, works_ns, cpus)
    if cpus > 1:
        raise exception.InvalidQuantity(
            'no simulation covers neighbours beside several CPUs that share '
            'a queue'
        )
    _check_neighbours(reservation, place, len(arrivals_ns), arrivals_ns[-1])
    others = map(edf.SimulatedServer.busy, place.neighbours)
    return edf.fifo_ns(reservation, others, arrivals_ns, works_ns)


def run_split(
    reservation: Reservation,
    place: Place,
    arrivals_ns: Nanoseconds,
    works_ns: Nanoseconds,
    chosen: numpy.typing.NDArray[numpy.int64],
) -> tuple[Nanoseconds, Fraction]:
    """Simulate several CPUs, each with a queue of its own.

    :param chosen: the CPU of each request, which has this reservation
    :returns: completion times of the requests, and :func:`latest_ns` of the
        worst CPU
    :raises InvalidQuantity: see :func:`run`
    """
    order = numpy.argsort(chosen, kind='stable')
    ends = numpy.flatnonzero(numpy.diff(chosen[order])) + 1
    parts = numpy.split(order, ends)
    if place.neighbours:
        _check_neighbours(
            reservation, place, len(arrivals_ns), arrivals_ns[-1], len(parts)
        )
    done_ns = numpy.empty_like(arrivals_ns)
    latest = []
    for part in parts:
        come, works = arrivals_ns[part], works_ns[part]
        done_ns[part] = done = run(reservation, place, come, works)
        latest.append(
            latest_ns(
                reservation, come.tolist(), works.tolist(), done.tolist()
            )
        )
    return done_ns, max(latest)


def _check_neighbours(
    reservation: Reservation,
    place: Place,
    count: int,
    last_ns: int,
    cpus: int = 1,
) -> None:
    """Refuse neighbours that are not admitted, and runs that take too long.

    :param count: number of requests
    :param last_ns: arrival of the last one
    """
    total = reservation.ppm + sum(each.ppm for each in place.neighbours)
    if total > PPM:
        raise exception.InvalidQuantity(
            f'the reservation and its neighbours are {total / PPM:.6g} of a '
            'CPU together: they are admitted up to 1'
        )
    events = 2 * count + cpus * int(last_ns) * sum(
        2 / (each.period_us * supply.NS_PER_US)
        for each in (reservation, *place.neighbours)
    )
    if events > _MOST_EVENTS:
        raise exception.InvalidQuantity(
            f'about {events:.2g} events take too long: simulate fewer '
            'requests, or neighbours with longer periods'
        )


def latest_ns(
    reservation: Reservation,
    arrivals_ns: Sequence[int],
    works_ns: Sequence[int],
    done_ns: Sequence[int],
) -> Fraction:
    """The largest lateness of a request against the fluid CPU, exact.

    The fluid CPU has the speed Q/P and the same requests. By the theorem it is
    at most 0 alone and P - Q beside any neighbours.

    :returns: nanoseconds; negative if all are earlier
    """
    common = math.gcd(reservation.runtime_us, reservation.period_us)
    # In parts of a nanosecond, C/u is a whole number.
    parts = reservation.runtime_us // common
    slowed = reservation.period_us // common
    fluid, latest = 0, None
    for arrival, work, done in zip(
        arrivals_ns, works_ns, done_ns, strict=True
    ):
        fluid = max(fluid, arrival * parts) + work * slowed
        late = done * parts - fluid
        if latest is None or late > latest:
            latest = late
    if latest is None:
        raise exception.InvalidQuantity('there are no requests')
    return Fraction(latest, parts)

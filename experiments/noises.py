# SPDX-License-Identifier: Apache-2.0
"""Noise beside a server: tasks, and the reservations that they have.

experiments/guest/init.c starts the tasks. The papers' noise always reserves
the same. The others are the worst that the theorem allows (no response is
later than on a fluid CPU by more than P - Q, test_theorem.py): neighbours that
are always busy and leave nothing of the CPU, with periods that put their
deadlines before those of the server as often as possible.
"""

from collections.abc import Callable, Iterator
import dataclasses

from nova_rt.reservation.reservation import Reservation

#: Bandwidth of a CPU for reservations, in ppm: the fair server has the rest.
CEILING_PPM = 950_000
#: EDGE 2019, section IV: four tasks of 6 ms every 100 ms.
_PAPER = Reservation(24_000, 100_000)
#: Periods of many neighbours in those of the server, taken in turn; the
#: second is a microsecond shorter.
_PERIODS = (0.5, 1, 1, 2, 5)
_EACH_PPM = 50_000

Neighbours = tuple[Reservation, ...]


def _fill(period_us: int, free_ppm: int) -> Neighbours:
    """One neighbour that has all that is free."""
    runtime_us = period_us * free_ppm // 10**6
    return (Reservation(runtime_us, period_us),) if runtime_us else ()


def _many(server: Reservation, free_ppm: int) -> Iterator[Reservation]:
    """As many neighbours of a twentieth of the CPU as are admitted."""
    for number in range(free_ppm // _EACH_PPM):
        which = number % len(_PERIODS)
        period_us = int(server.period_us * _PERIODS[which]) - (which == 1)
        yield from _fill(period_us, _EACH_PPM)


@dataclasses.dataclass(frozen=True)
class Noise:
    """One kind of noise.

    :ivar words: the noise, in words
    :ivar tasks: its name in experiments/guest/init.c
    :ivar reserved: the neighbours of a server, from its reservation and the
        ppm of the CPU that are free
    :ivar longer: whether their periods are longer than the server's, so that
        it has its runtime first, as if it were alone
    :ivar busy: whether they always have something to do
    :ivar plain: whether it can be beside a server without a reservation, and
        then has none either
    """

    words: str
    tasks: str
    reserved: Callable[[Reservation, int], Neighbours]
    longer: bool = False
    busy: bool = True
    plain: bool = False


NONE = 'none'
KINDS = {
    NONE: Noise(
        'nothing else', 'none', lambda *_: (), busy=False, plain=True
    ),
    'periodic': Noise(
        'periodic tasks', 'periodic', lambda *_: (_PAPER,),
        longer=True, busy=False, plain=True,
    ),
    'hogs': Noise(
        'endless tasks', 'endless', lambda *_: (_PAPER,),
        longer=True, plain=True,
    ),
    'equal': Noise(
        'a busy neighbour of the same period', 'endless',
        lambda server, free_ppm: _fill(server.period_us, free_ppm),
    ),
    'shorter': Noise(
        'a busy neighbour of a shorter period', 'endless',
        lambda server, free_ppm: _fill(server.period_us - 1, free_ppm),
    ),
    'many': Noise(
        'as many busy neighbours as are admitted', 'endless',
        lambda server, free_ppm: tuple(_many(server, free_ppm)),
    ),
    'packets': Noise(
        'floods of packets', 'packets', lambda *_: (_PAPER,),
        longer=True, busy=False, plain=True,
    ),
}  # fmt: skip


def beside(kind: str, server: Reservation | None) -> Neighbours:
    """Return the reservations of a kind of noise.

    :param kind: a key of :data:`KINDS`
    :param server: None for a server without a reservation
    """
    if server is None:
        return ()
    return KINDS[kind].reserved(server, CEILING_PPM - server.ppm)

# SPDX-License-Identifier: Apache-2.0
"""CPU time of a container whose budget comes in fixed periods."""

import dataclasses
import enum

import numpy
import numpy.typing

from nova_rt.model import inputs
from nova_rt.model.supply import NS_PER_US
from nova_rt.reservation.reservation import Reservation

Nanoseconds = numpy.typing.NDArray[numpy.int64]


class Position(enum.StrEnum):
    """Position of a container's budget in its period."""

    #: at once: it is alone, or has the shortest period
    FIRST = 'first'
    #: as late as the guarantee allows: others go before it
    LAST = 'last'
    #: anywhere, each place as likely as the others
    RANDOM = 'random'
    #: first, then last, and so on: the longest gaps, one every two periods
    ALTERNATE = 'alternate'
    #: first in the first period, last in all others: from the end of that
    #: first budget on, this is the supply bound function
    WORST = 'worst'


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Supply in periods that begin at 0, P, 2 P, whatever the load.

    This is the periodic resource of Shin and Lee. The budget of a period is
    one piece, and is lost if there is nothing to do.

    The work that is done by the time t, if there always is some, is S(t). In
    the time of the work, a queue on this schedule is a queue on a whole CPU:
    requests come at S(arrival), and what is done at w there is done at
    S^-1(w) here. So one pass of numpy simulates any schedule.

    :ivar runtime_ns: Q
    :ivar period_ns: P
    :ivar position: position of the budget in the period
    :ivar seed: seed of random positions
    """

    runtime_ns: int
    period_ns: int
    position: Position = Position.FIRST
    seed: int = 0

    def __post_init__(self) -> None:
        inputs.whole('the runtime in ns', self.runtime_ns)
        inputs.whole('the period in ns', self.period_ns, self.runtime_ns)

    @classmethod
    def of(
        cls,
        reservation: Reservation,
        position: Position = Position.FIRST,
        seed: int = 0,
    ) -> 'Schedule':
        """The schedule of a reservation.

        :returns: the schedule
        """
        return cls(
            reservation.runtime_us * NS_PER_US,
            reservation.period_us * NS_PER_US,
            position,
            seed,
        )

    def supplied_ns(self, times_ns: Nanoseconds) -> Nanoseconds:
        """S(t), the work that is done by each time.

        :returns: CPU time, as many as times
        """
        periods, into = numpy.divmod(times_ns, self.period_ns)
        begun = into - self._offsets_ns(periods)
        return periods * self.runtime_ns + numpy.clip(
            begun, 0, self.runtime_ns
        )

    def done_ns(self, works_ns: Nanoseconds) -> Nanoseconds:
        """The inverse of S: the first time by which each work is done.

        :param works_ns: CPU times above 0
        :returns: times, as many as works
        """
        periods = (works_ns - 1) // self.runtime_ns
        into = works_ns - periods * self.runtime_ns
        return periods * self.period_ns + self._offsets_ns(periods) + into

    def _offsets_ns(self, periods: Nanoseconds) -> Nanoseconds:
        """Offset of each budget from the beginning of its period."""
        most = self.period_ns - self.runtime_ns
        if self.position == Position.FIRST or most == 0:
            return numpy.zeros_like(periods)
        if self.position == Position.LAST:
            return numpy.full_like(periods, most)
        if self.position == Position.ALTERNATE:
            return periods % 2 * most
        if self.position == Position.WORST:
            return numpy.where(periods > 0, most, 0)
        numbers = _mixed(periods.astype(numpy.uint64), self.seed)
        return (numbers % numpy.uint64(most + 1)).astype(numpy.int64)


def _mixed(
    numbers: numpy.typing.NDArray[numpy.uint64], seed: int
) -> numpy.typing.NDArray[numpy.uint64]:
    """A random number for each number, without state (SplitMix64)."""
    found = (
        numbers + numpy.uint64((1 + (seed << 32)) % 2**64)
    ) * numpy.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> numpy.uint64(shift))) * numpy.uint64(factor)
    return found ^ (found >> numpy.uint64(31))

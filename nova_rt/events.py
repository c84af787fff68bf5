# SPDX-License-Identifier: Apache-2.0
"""Typed events of reservations, to which others can listen.

Every event goes through the one :class:`Dispatcher` of a compute service. A
new consumer (a metric, a report, a notification) subscribes there; the code
that emits does not change.
"""

import collections
from collections.abc import Callable
import dataclasses
import enum
import logging
import threading
from typing import Self

from nova_rt import exception
from nova_rt.reservation.record import Record

LOG = logging.getLogger(__name__)


class Action(enum.StrEnum):
    """An action that a server can be refused."""

    REQUEST = 'request'
    CLAIM = 'claim'
    CHANGE = 'change'
    MOVE = 'move'
    RESCUE = 'rescue'
    SUSPEND = 'suspend'


def name_of(kind: 'type[Event]') -> str:
    """Name a type of event.

    :returns: a word, such as ``claimed``
    """
    return kind.__name__.lower()


@dataclasses.dataclass(frozen=True)
class Event:
    """Something happened to the reservation of a server.

    :ivar uuid: the server's UUID
    """

    uuid: str

    @property
    def kind(self) -> str:
        """Name of the event, such as ``claimed``."""
        return name_of(type(self))

    @property
    def held(self) -> Record | None:
        """The server's record according to the event, if it says one."""
        return None

    @property
    def details(self) -> str:
        """A sentence that goes with it, or nothing."""
        return ''

    @property
    def repeated(self) -> bool:
        """Whether it is counted alone: a known state that continues."""
        return False


@dataclasses.dataclass(frozen=True)
class _WithRecord(Event):
    """:ivar record: held by the server, or to be held"""

    record: Record

    @property
    def held(self) -> Record | None:
        """The server's record according to the event."""
        return self.record


@dataclasses.dataclass(frozen=True)
class Claimed(_WithRecord):
    """A server holds bandwidth of this host.

    :ivar record: with its CPUs
    """


@dataclasses.dataclass(frozen=True)
class Added(_WithRecord):
    """A server that holds bandwidth of this host holds more of it.

    For a resize on this host: until that is confirmed or reverted, it holds
    the old and the new.

    :ivar record: the additional one
    """


@dataclasses.dataclass(frozen=True)
class Dropped(_WithRecord):
    """A server holds one reservation of this host, no longer two.

    :ivar record: the one given up
    """


@dataclasses.dataclass(frozen=True)
class _Replaced(_WithRecord):
    """A server has another reservation than before.

    :ivar record: the new one
    :ivar before: runtime and period of the old one
    """

    before: str = ''

    @property
    def details(self) -> str:
        """The old reservation."""
        return f'it was {self.before}'


class Changed(_Replaced):
    """A server has another reservation than before, while it runs."""


class Adapted(_Replaced):
    """A server has another reservation than before, by its load.

    Once a minute at most, with the sum of what has happened since.
    """


class Boosted(_Replaced):
    """A server has more than its reservation while it starts."""


class Unboosted(_Replaced):
    """A server has its own reservation again, after a boost.

    Its start, a change of its reservation and its end are events enough.
    """


@dataclasses.dataclass(frozen=True)
class Frozen(Event):
    """The reservation of a server follows its load no longer.

    Its use cannot be read. It keeps the reservation that it has.

    :ivar reason: a sentence
    """

    reason: str

    @property
    def details(self) -> str:
        """The reason."""
        return self.reason


@dataclasses.dataclass(frozen=True)
class Released(_WithRecord):
    """A server no longer holds bandwidth of this host.

    :ivar record: the last one
    """


@dataclasses.dataclass(frozen=True)
class Applied(_WithRecord):
    """A container was started and the kernel holds its reservation.

    :ivar record: as the kernel holds it
    """


@dataclasses.dataclass(frozen=True)
class _WithDifference(_WithRecord):
    """:ivar difference: between kernel and record, a sentence"""

    difference: str

    @property
    def details(self) -> str:
        """The difference between kernel and record."""
        return self.difference


@dataclasses.dataclass(frozen=True)
class Drifted(_WithDifference):
    """A running container was found without its reservation.

    :class:`Repaired` follows, or :class:`Unverified` until the next check,
    or :class:`Stopped`.

    :ivar record: the required one
    :ivar difference: between kernel and record, a sentence
    :ivar again: whether the check before has found the same
    """

    again: bool = False

    @property
    def repeated(self) -> bool:
        """Whether the check before has found the same."""
        return self.again


@dataclasses.dataclass(frozen=True)
class Repaired(_WithDifference):
    """A container that had drifted has its reservation again.

    :ivar record: the restored one
    :ivar difference: before the repair, a sentence
    """


@dataclasses.dataclass(frozen=True)
class Promoted(Event):
    """The tasks of a running container were given their policy by a check.

    They had their reservation, and it was not known whether they had been
    given their policy when the container started: none was real-time. That
    is no drift, since tasks may also have left it by themselves.
    """

    @property
    def repeated(self) -> bool:
        """Always: nobody has to look at it."""
        return True


@dataclasses.dataclass(frozen=True)
class Stopped(Event):
    """A container was stopped because its reservation is not held.

    :ivar reason: why, a sentence with the numbers
    :ivar at_start: whether it was being started: its user has an
        error then, while nobody waits for the result of a check
    """

    reason: str
    at_start: bool = False

    @property
    def details(self) -> str:
        """The reason for the stop."""
        return self.reason


@dataclasses.dataclass(frozen=True)
class Unverified(Event):
    """A running container could not be verified or repaired; it runs on.

    The next check tries again.

    :ivar reason: the fault, a sentence
    :ivar again: whether the check before has had the same
    """

    reason: str
    again: bool = False

    @property
    def details(self) -> str:
        """The reason."""
        return self.reason

    @property
    def repeated(self) -> bool:
        """Whether the check before has had the same."""
        return self.again


@dataclasses.dataclass(frozen=True)
class Refused(Event):
    """A server was refused something; it stays as it was.

    The numbers are those of a claim that does not fit, else 0 and empty.

    :ivar action: the refused one
    :ivar reason: why, a sentence
    :ivar asked_ppm: bandwidth asked for on each CPU, in ppm of a CPU
    :ivar cpus: number of distinct CPUs asked for
    :ivar free_ppm: the largest bandwidths that were free, in ppm, largest
        first
    """

    action: Action
    reason: str
    asked_ppm: int = 0
    cpus: int = 0
    free_ppm: tuple[int, ...] = ()

    @classmethod
    def because(cls, uuid: str, action: Action, why: str | Exception) -> Self:
        """Make the event of an error, with its numbers, or of a sentence.

        :returns: the event
        """
        if isinstance(why, exception.InsufficientBandwidth):
            return cls(
                uuid, action, str(why), why.asked_ppm, why.cpus, why.free_ppm
            )
        return cls(uuid, action, str(why))

    @property
    def details(self) -> str:
        """The reason for the refusal."""
        return self.reason


#: Every type of event.
TYPES = (
    Claimed, Applied, Drifted, Repaired, Stopped, Released, Refused, Added,
    Dropped, Unverified, Promoted, Changed, Adapted, Frozen, Boosted,
    Unboosted,
)  # fmt: skip

Listener = Callable[[Event], None]


class Dispatcher:
    """Hands every event to every listener.

    Listeners run in the thread that emits, in the order in which they
    subscribed, and possibly in several threads at once: a listener has its
    own lock, and is quick. Some events are emitted under Nova's resource
    lock, so that a listener must not claim anything itself.

    :ivar failures: how often a listener has raised
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self.failures = 0

    def subscribe(self, listener: Listener) -> None:
        """Add a listener for every event from now on.

        :param listener: called with the event; may look at its type
        """
        with self._lock:
            self._listeners += (listener,)

    def emit(self, event: Event) -> None:
        """Call all listeners; their exceptions do not reach the caller."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                with self._lock:
                    self.failures += 1
                LOG.exception('%r failed to take %r', listener, event)


class Counter:
    """A listener that counts the events of each type."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[type[Event]] = collections.Counter()

    def __call__(self, event: Event) -> None:
        """Count an event."""
        with self._lock:
            self._counts[type(event)] += 1

    def get(self, kind: type[Event]) -> int:
        """Return how often a type of event was emitted.

        :param kind: one of the classes of this module
        :returns: the number since the counter subscribed
        """
        with self._lock:
            return self._counts[kind]

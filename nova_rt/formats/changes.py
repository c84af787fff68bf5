# SPDX-License-Identifier: Apache-2.0
"""Changes of running reservations: their states, and answers of a host.

The states are those of the database, of the RPC to nova-rt-compute and of the
commands. An answer came over the message bus: unknown fields are ignored.
"""

import dataclasses
import datetime
import enum
from typing import Any, Self

from nova_rt import exception
from nova_rt.formats import checks
from nova_rt.reservation.reservation import Reservation

#: The RPC of nova-rt-compute, on its queue of Nova's topic ``compute``.
NAMESPACE = 'nova_rt'
TOPIC = 'compute'
VERSION = '1.1'
#: Of a request that does not ask for a move, which older hosts know.
OLDER_VERSION = '1.0'

#: Type of a notification in the queue of the history: a change was asked for.
WAKE = 'nova_rt.change'


class Condition(enum.StrEnum):
    """The state of a change, in the words of its user."""

    APPLIED = 'Applied'
    IN_PROGRESS = 'InProgress'
    DEFERRED = 'Deferred'
    INFEASIBLE = 'Infeasible'


class OnNoRoom(enum.StrEnum):
    """The fate of a change for which its host has no room."""

    FAIL = 'fail'
    DEFER = 'defer'
    MIGRATE = 'migrate'


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of a host to the request for a change.

    :ivar condition: ``Deferred`` if it has no room now
    :ivar reason: a sentence; '' for ``Applied``
    :ivar asked_ppm: bandwidth asked for on each CPU; 0 unless there is no room
    :ivar free_ppm: the bandwidth that is free instead
    :ivar rule: the broken rule, a sentence
    :ivar host: the present host of the server; '' if it is unknown
    :ivar actual: the reservation as read back from the kernel, or as it will
        be started with; '' if nothing was changed
    :ivar gone: whether there is no such server any more
    """

    condition: Condition
    reason: str = ''
    asked_ppm: int = 0
    free_ppm: int = 0
    rule: str = ''
    host: str = ''
    actual: str = ''
    gone: bool = False

    @classmethod
    def read(cls, found: Any) -> Self:
        """Read the primitive form of an answer.

        :returns: the answer
        :raises InvalidReport: if it is anything else
        """
        found = checks.kind('answer', found, dict, 64)
        values: dict[str, Any] = {}
        for each in dataclasses.fields(cls):
            wanted = str if each.type is Condition else each.type
            value = found.get(each.name, each.default)
            if type(value) not in (wanted, each.type):
                raise exception.InvalidReport(f'{each.name} is {value!r}')
            values[each.name] = value
        for name in ('asked_ppm', 'free_ppm'):
            checks.integer(name, values[name])
        if values['host']:
            checks.text('host', values['host'], checks.HOST)
        try:
            values['condition'] = Condition(values['condition'])
        except ValueError as err:
            raise exception.InvalidReport(f'no condition: {err}') from err
        try:
            if values['actual']:
                Reservation.parse(values['actual'])
        except exception.InvalidReservation as err:
            raise exception.InvalidReport(f'actual: {err}') from err
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Change:
    """The last change of a server's reservation.

    :ivar generation: counts the changes of this server
    :ivar desired: the reservation that was asked for
    :ivar flavor: Nova's number of the flavor that it was asked for
    :ivar host: the host of the server, as far as known
    :ivar asked_at: the time of the request
    :ivar since: the time at which the condition was entered
    :ivar answer: of the host; ``InProgress`` before the first one
    :ivar moved_after: Nova's last action of the server before its move was
        asked for, '' if there was none; None unless it was asked for
    :ivar moved_by: Nova's action that is the move; '' as long as it is unknown
    :ivar due_at: the time at which the host is to be asked, or the lease of
        the conductor that works on it ends; None if it has ended. It names the
        reading of the change, and is no part of it.
    """

    server: str
    generation: int
    desired: Reservation
    flavor: int
    on_no_room: OnNoRoom
    host: str
    asked_at: datetime.datetime
    since: datetime.datetime
    answer: Answer
    moved_after: str | None = None
    moved_by: str = ''
    due_at: datetime.datetime | None = dataclasses.field(
        default=None, compare=False
    )

# SPDX-License-Identifier: Apache-2.0
"""Keeps the events of this host until the conductor has them.

Events are numbered in an epoch; see :mod:`nova_rt.compute.epoch`.
"""

import collections
from collections.abc import Callable
import datetime
import threading
from typing import Any

from oslo_context import context
from oslo_log import log as logging

from nova_rt import events
from nova_rt.formats import messages
from nova_rt.formats.reports import NewEvent, Origin, ServerState
from nova_rt.reservation import cpulist

LOG = logging.getLogger(__name__)

#: Events to keep while no conductor answers.
BACKLOG = 10_000

_STATES = {
    events.Claimed: ServerState.CLAIMED,
    events.Applied: ServerState.APPLIED,
    events.Drifted: ServerState.DRIFTED,
    events.Repaired: ServerState.APPLIED,
    events.Stopped: ServerState.STOPPED,
    events.Released: ServerState.RELEASED,
}


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Backlog:
    """A listener that numbers events, and keeps them until they have come.

    :ivar dropped_seq: events up to this one are gone
    :ivar seq: number of the last event
    """

    def __init__(self, clock: Callable[[], datetime.datetime] = _now) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: collections.deque[NewEvent] = collections.deque()
        self._changes: dict[str, NewEvent] = {}
        self._full = False
        self.dropped_seq = 0
        self.seq = 0
        self.news = threading.Event()

    def __call__(self, event: events.Event) -> None:
        """Keep an event that is news; drop the oldest of too many."""
        if event.repeated:
            return
        with self._lock:
            self.seq += 1
            new = NewEvent(
                self.seq,
                self._clock(),
                event.uuid,
                event.kind,
                messages.clean(_describe(event)),
                _STATES.get(type(event)),
                event.held,
                _find_origin(),
            )
            self._kept.append(new)
            if new.state is ServerState.RELEASED:
                self._changes.pop(event.uuid, None)
            elif new.state is not None:
                self._changes[event.uuid] = new
            if len(self._kept) > BACKLOG:
                self.dropped_seq = self._kept.popleft().seq
                first = not self._full
                self._full = True
            else:
                first = False
        if first:
            LOG.warning(
                'More than %d events wait for a conductor: the oldest are '
                'dropped', BACKLOG,
            )  # fmt: skip
        self.news.set()

    def acknowledge(self, seq: int) -> None:
        """Forget the events up to this one.

        They are gone, should a database that was restored ask for them.
        """
        with self._lock:
            while self._kept and self._kept[0].seq <= seq:
                self._kept.popleft()
            self.dropped_seq = max(self.dropped_seq, seq)
            self._full = self._full and len(self._kept) >= BACKLOG

    def list_after(self, seq: int) -> list[NewEvent]:
        """List the events that are kept, without those up to this one."""
        with self._lock:
            return [each for each in self._kept if each.seq > seq]

    def find_changes(self) -> dict[str, NewEvent]:
        """Look up the last event that said what a server is doing.

        :returns: UUID -> event; none for a server that was released
        """
        with self._lock:
            return dict(self._changes)

    def renumber(self) -> None:
        """Number what is kept from 1, for a new epoch."""
        with self._lock:
            kept = [
                NewEvent(number, *_rest(each))
                for number, each in enumerate(self._kept, 1)
            ]
            self._kept = collections.deque(kept)
            self.seq = len(kept)
            self.dropped_seq = 0


def _rest(event: NewEvent) -> tuple[Any, ...]:
    return (
        event.at, event.uuid, event.kind, event.details, event.state,
        event.record, event.origin,
    )  # fmt: skip


def _find_origin() -> Origin:
    """Look up the request on which this thread works."""
    found = context.get_current()
    if found is None:
        return Origin()
    ids = (found.request_id, found.user_id, found.project_id)
    return Origin(*(each or '' for each in ids))


def _describe(event: events.Event) -> str:
    if isinstance(event, events.Refused):
        return f'{event.action}: {event.reason}'
    if event.details or event.held is None:
        return event.details
    request = event.held.request
    return (
        f'{request.reservation} us ({request.reservation.ppm} ppm) on CPU '
        f'{cpulist.render(event.held.cpus)}'
    )

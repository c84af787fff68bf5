# SPDX-License-Identifier: Apache-2.0
"""The claims of this host's servers: the image of their records in memory.

A claim is keyed by its server and its slot. The first slot is what the server
must have while it runs here. The second is what it holds beside that, for a
move: what will run here later, or would run here again if the move were
reverted. A resize on one host holds two; an ordinary server holds the first,
and a server that is on its way or has left holds the second alone.
"""

import collections
from collections.abc import Mapping
import dataclasses

from nova_rt import admission, events, exception, record

#: A server's record, or why it cannot be read.
Known = record.Record | exception.InvalidRecord


@dataclasses.dataclass(frozen=True)
class Slots:
    """The slots that one server holds on this host.

    :ivar current: what it must have while it runs here
    :ivar beside: what it holds in addition, for a move
    """

    current: Known | None = None
    beside: record.Record | None = None

    @property
    def records(self) -> tuple[record.Record, ...]:
        """The records that can be read of them, the current one first."""
        return tuple(
            each
            for each in (self.current, self.beside)
            if isinstance(each, record.Record)
        )

    @property
    def claims(self) -> tuple[admission.Claim, ...]:
        """The bandwidth that is held: that of every slot, always.

        All who add up what this host has promised, do so by this.
        """
        return tuple(rec.claim for rec in self.records)

    def merge(self) -> record.Record | None:
        """Put both slots into one record.

        :returns: None if nothing can be read; the current one alone if both
            are too long for a record
        """
        match self.records:
            case (current, beside):
                both = dataclasses.replace(current, other=beside)
                try:
                    both.encode()
                except exception.InvalidRecord:
                    return current
                return both
            case (only,):
                return only
        return None


_NOTHING = Slots()


class Claims:
    """The claims of one host.

    Methods that change something are called by one thread at a time, all
    others by any.

    :param dispatcher: has an event for each claim that comes or goes
    """

    def __init__(self, dispatcher: events.Dispatcher) -> None:
        self._dispatcher = dispatcher
        # Replaced, never changed in place: readers have no lock.
        self._slots: Mapping[str, Slots] = {}

    def get(self, uuid: str) -> Slots:
        """Look up what a server holds here, possibly nothing."""
        return self._slots.get(uuid, _NOTHING)

    def list_all(self) -> Mapping[str, Slots]:
        """List what every server holds, by UUID."""
        return self._slots

    def list_claims(self, without: str | None = None) -> list[admission.Claim]:
        """List the bandwidth that is held, both slots of each server.

        :param without: UUID of a server whose second slot is left out
        :returns: the claims, in no order
        """
        return [
            claim
            for uuid, slots in self._slots.items()
            for claim in (
                Slots(slots.current) if uuid == without else slots
            ).claims
        ]

    def put(
        self,
        uuid: str,
        current: Known | None = None,
        beside: record.Record | None = None,
    ) -> None:
        """Say what a server holds from now on, and tell what has changed.

        Nothing is told of bandwidth that only goes from one slot to the
        other.
        """
        before = self.get(uuid)
        after = Slots(current, beside)
        slots = dict(self._slots)
        if after == _NOTHING:
            slots.pop(uuid, None)
        else:
            slots[uuid] = after
        self._slots = slots
        self._tell_gone(uuid, before, after)
        for rec in _subtract(after, before):
            first = not before.records
            kind = events.Claimed if first else events.Added
            self._dispatcher.emit(kind(uuid, rec))

    def replace(self, slots: Mapping[str, Slots]) -> None:
        """Take what an audit has found for all that is held.

        What it found and was not known has been told of before, by an earlier
        run of this service.
        """
        before, self._slots = self._slots, dict(slots)
        for uuid, known in before.items():
            # A record that has only changed is told of by verification.
            fewer = len(known.records) - len(self.get(uuid).records)
            self._tell_gone(uuid, known, self.get(uuid), max(0, fewer))

    def _tell_gone(
        self, uuid: str, before: Slots, after: Slots, most: int = 2
    ) -> None:
        last = not after.records
        for rec in _subtract(before, after)[:most]:
            kind = events.Released if last else events.Dropped
            self._dispatcher.emit(kind(uuid, rec))


def _subtract(some: Slots, others: Slots) -> list[record.Record]:
    """Return those of some that are not among the others; two may be equal."""
    left = collections.Counter(some.records)
    left.subtract(collections.Counter(others.records))
    return [rec for rec, count in left.items() for _ in range(max(0, count))]

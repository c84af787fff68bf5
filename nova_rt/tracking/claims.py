# SPDX-License-Identifier: Apache-2.0
"""The claims of this host's servers: the image of their records in memory.

A claim is keyed by its server and its slot. The first slot is what the server
must have while it runs here. The second is what it holds beside that, for a
move: what will run here later, or would run here again if the move were
reverted. A resize on one host holds two; an ordinary server holds the first,
and a server that is on its way or has left holds the second alone.
"""

import collections
from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

from oslo_log import log as logging

from nova_rt import events, exception
from nova_rt.reservation import record
from nova_rt.reservation.domain_record import DomainRecord
from nova_rt.tracking import once

LOG = logging.getLogger(__name__)

#: A server's record, or why it cannot be read.
Known = record.Record | exception.InvalidRecord

_UNREADABLE = once.Once()


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
        """The records that can be read of them, the current one first.

        The bandwidth that is held is that of both, always.
        """
        return tuple(
            each
            for each in (self.current, self.beside)
            if isinstance(each, record.Record)
        )


_NOTHING = Slots()


class Held:
    """The slots of one host's servers, for any thread to read."""

    def __init__(self) -> None:
        # Replaced, never changed in place: readers have no lock.
        self._slots: Mapping[str, Slots] = {}

    def get(self, uuid: str) -> Slots:
        """Look up what a server holds here, possibly nothing."""
        return self._slots.get(uuid, _NOTHING)

    def list_all(self) -> Mapping[str, Slots]:
        """List what every server holds, by UUID, readable or not."""
        return self._slots

    def list_records(self) -> dict[str, record.Record]:
        """List one record of each server that has any to be read.

        :returns: UUID -> its current one, or that of a move to this host
        """
        return {uuid: held[0] for uuid, held in self.claims().items()}

    def list_claims(self, without: str | None = None) -> list[record.Record]:
        """List the bandwidth that is held, both slots of each server.

        :param without: UUID of a server whose second slot is left out
        :returns: the claims, in no order
        """
        return [
            claim
            for uuid, slots in self._slots.items()
            for claim in (
                Slots(slots.current) if uuid == without else slots
            ).records
        ]

    def claims(self) -> dict[str, tuple[record.Record, ...]]:
        """List the bandwidth that is held by server.

        :returns: the UUID of each server that holds some -> the records of
            its slots
        """
        found = {uuid: each.records for uuid, each in self._slots.items()}
        return {uuid: records for uuid, records in found.items() if records}

    def get_record(self, uuid: str) -> record.Record | None:
        """Look up what a server must have while it runs.

        :returns: None if this host has no such real-time server
        :raises InvalidRecord: if the server's record cannot be read
        """
        known = self.get(uuid).current
        if isinstance(known, exception.InvalidRecord):
            # Not the same error: each raise adds to its traceback.
            raise exception.InvalidRecord(str(known))
        return known

    def describe(self, uuid: str, rec: record.Record) -> DomainRecord:
        """Add to what a server must have what it holds beside that.

        :param rec: what it must have while it runs here
        :returns: what its domain is to carry, for those who add up what is
            held without asking this service
        """
        return DomainRecord(rec, self.get(uuid).beside)


class Claims(Held):
    """The same, to be changed by one thread at a time.

    :param dispatcher: has an event for each claim that comes or goes
    """

    def __init__(self, dispatcher: events.Dispatcher) -> None:
        super().__init__()
        self._dispatcher = dispatcher

    def put(
        self,
        uuid: str,
        current: Known | None = None,
        beside: record.Record | None = None,
    ) -> None:
        """Replace what a server holds, with an event for each change.

        Bandwidth that only goes from one slot to the other is no change.
        """
        before = self.get(uuid)
        after = Slots(current, beside)
        slots = dict(self._slots)
        if after == _NOTHING:
            slots.pop(uuid, None)
        else:
            slots[uuid] = after
        self._slots = slots
        self._emit_gone(uuid, before, after)
        for rec in _subtract(after, before):
            first = not before.records
            kind = events.Claimed if first else events.Added
            self._dispatcher.emit(kind(uuid, rec))

    def replace(self, slots: Mapping[str, Slots]) -> None:
        """Replace what all servers hold by what an audit has found.

        There is no event for what it found and was not known: an earlier run
        of this service has emitted it.
        """
        before, self._slots = self._slots, dict(slots)
        for uuid, known in before.items():
            # Verification reports a record that has only changed.
            fewer = len(known.records) - len(self.get(uuid).records)
            self._emit_gone(uuid, known, self.get(uuid), max(0, fewer))

    def _emit_gone(
        self, uuid: str, before: Slots, after: Slots, most: int = 2
    ) -> None:
        last = not after.records
        for rec in _subtract(before, after)[:most]:
            kind = events.Released if last else events.Dropped
            self._dispatcher.emit(kind(uuid, rec))


def read_slot(
    read: Callable[[Any], record.Record | None], instance: Any
) -> Known | None:
    """Read a slot of a server, with a line in the log if that fails.

    :param read: a function of :mod:`.servers`
    :returns: the record, why it cannot be read, or None if there is none
    """
    key = f'{instance.uuid} {read.__name__}'
    try:
        found = read(instance)
    except exception.InvalidRecord as err:
        # Each audit reads it again.
        if _UNREADABLE.is_new(key, str(err)):
            LOG.error('Holds no bandwidth: %s', err, instance=instance)
        return err.with_traceback(None)
    _UNREADABLE.forget(key)
    return found


def _subtract(some: Slots, others: Slots) -> list[record.Record]:
    """Return those of some that are not among the others; two may be equal."""
    left = collections.Counter(some.records)
    left.subtract(collections.Counter(others.records))
    return [rec for rec, count in left.items() for _ in range(max(0, count))]

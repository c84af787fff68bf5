# SPDX-License-Identifier: Apache-2.0
"""The claims of this host's servers: the image of their records in memory.

A claim is keyed by its server and its slot. The first slot is the reservation
that the server needs while it runs here. The second is an additional one for
a move: the reservation that it will need here later, or would need again if
the move were reverted. A resize on one host fills both slots; an ordinary
server has the first, and a server that is on its way or has left has the
second alone.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
import threading
from typing import Any

from oslo_log import log as logging

from nova_rt import events, exception, once
from nova_rt.reservation import record
from nova_rt.reservation.domain_record import DomainRecord
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking import servers

LOG = logging.getLogger(__name__)

#: A server's record, or the error of reading it.
Known = record.Record | exception.InvalidRecord

#: Counts the ppm of a CPU that a reservation takes: :meth:`.Capacity.count`.
Count = Callable[[Reservation], int]

_UNREADABLE = once.Once()


@dataclasses.dataclass(frozen=True)
class Slots:
    """The slots of one server on this host.

    :ivar current: the reservation it needs while it runs here
    :ivar beside: an additional reservation, for a move
    :ivar changing: the larger of two while its reservation is being changed;
        the current one is the lesser
    """

    current: Known | None = None
    beside: record.Record | None = None
    changing: record.Record | None = None

    @property
    def records(self) -> tuple[record.Record, ...]:
        """The readable records of both slots, the current one first.

        The server holds the bandwidth of both at all times.
        """
        return tuple(
            each
            for each in (self.current, self.beside)
            if isinstance(each, record.Record)
        )

    def list_claims(self, count: Count) -> tuple[record.Record, ...]:
        """List the bandwidth that the server holds, as records.

        During a change it is the larger one on each CPU. With an overhead that
        may be the one with less bandwidth and a shorter period.

        :param count: counts the bandwidth that a reservation takes
        :returns: the larger one first
        """
        if self.changing is None:
            return self.records
        current, larger = self.current, self.changing
        assert isinstance(current, record.Record)
        if count(current.request.reservation) > (
            count(larger.request.reservation)
        ):
            current, larger = larger, current
        rest = current.claimed_on(tuple({*current.cpus} - {*larger.cpus}))
        found = larger, rest, self.beside
        return tuple(each for each in found if each and each.cpus)


_NOTHING = Slots()


@dataclasses.dataclass(frozen=True)
class Adapted:
    """The present reservation of a server that follows its load.

    It moves between two changes of the server's record.

    :ivar actual: the one that the kernel is to hold
    :ivar claim: the one that is counted if it is larger than the record; not
        less than the actual one, and that of a write to come
    :ivar growing: whether such a write is to come
    """

    actual: record.Record
    claim: record.Record
    growing: bool = False

    def count(self, rec: record.Record) -> record.Record:
        """Choose the larger one of the claim and another record.

        :returns: the record that is counted
        """
        return self.claim if self.claim.ppm > rec.ppm else rec


class ClaimStore:
    """The slots of one host's servers, for any thread to read.

    :param count: counts the bandwidth that a reservation takes on this host
    """

    def __init__(self, count: Count) -> None:
        self._count_of = count
        # Replaced, never changed in place: readers have no lock.
        self._slots: Mapping[str, Slots] = {}
        self._adapted: Mapping[str, Adapted] = {}

    def get(self, uuid: str) -> Slots:
        """Return the slots of a server, which may be empty."""
        return self._slots.get(uuid, _NOTHING)

    def get_adapted(self, uuid: str) -> Adapted | None:
        """Return the present reservation of a server that has adapted.

        :returns: None if the kernel is to hold that of its record
        """
        return self._adapted.get(uuid)

    def get_actual(self, uuid: str, rec: record.Record) -> record.Record:
        """Look up the reservation that the kernel is to hold.

        :param rec: the server's record
        :returns: the record with another runtime, if the server has adapted
        """
        adapted = self._adapted.get(uuid)
        return rec if adapted is None else adapted.actual

    def get_counted(self, uuid: str, rec: record.Record) -> record.Record:
        """Look up the reservation that is counted for a server on its CPUs.

        :param rec: the server's record
        :returns: the record, or the larger one that it has adapted to
        """
        adapted = self._adapted.get(uuid)
        return rec if adapted is None else adapted.count(rec)

    def _count(self, uuid: str, slots: Slots) -> tuple[record.Record, ...]:
        """List the claims of a server that has these slots."""
        claims = slots.list_claims(self._count_of)
        adapted = self._adapted.get(uuid)
        if adapted is None or not claims:
            return claims
        first, *others = claims
        if first.cpus != adapted.claim.cpus:
            return (*claims, adapted.claim)
        if self._count_of(adapted.claim.request.reservation) > (
            self._count_of(first.request.reservation)
        ):
            first = adapted.claim
        return (first, *others)

    def list_all(self) -> Mapping[str, Slots]:
        """Return the slots of all servers by UUID, readable or not."""
        return self._slots

    def list_records(self) -> dict[str, record.Record]:
        """List one record of each server with a readable one.

        :returns: UUID -> its current record, or that of a move to this host
        """
        return {
            uuid: held.records[0]
            for uuid, held in self._slots.items()
            if held.records
        }

    def list_claims(
        self, without: str | None = None, plain: Collection[str] = ()
    ) -> list[record.Record]:
        """List the claims of all servers, both slots of each.

        :param without: UUID of a server; its second slot is left out
        :param plain: UUIDs of servers whose records alone count
        :returns: the claims, in no order
        """
        found: list[record.Record] = []
        for uuid, slots in self._slots.items():
            if uuid == without:
                slots = Slots(slots.current)
            found += (
                slots.list_claims(self._count_of)
                if uuid in plain
                else self._count(uuid, slots)
            )
        return found

    def sum_beyond(self, uuids: Iterable[str]) -> dict[int, int]:
        """Add up what the kernel holds for servers beyond their records.

        :returns: CPU -> ppm
        """
        found: collections.Counter[int] = collections.Counter()
        for uuid in uuids:
            adapted, rec = self._adapted.get(uuid), self.get(uuid).current
            if adapted is not None and isinstance(rec, record.Record):
                for cpu in adapted.actual.cpus:
                    found[cpu] += max(0, adapted.actual.ppm - rec.ppm)
        return found

    def claims(self) -> dict[str, tuple[record.Record, ...]]:
        """List the claims of each server.

        :returns: UUID of each server with a claim -> its claims
        """
        found = {
            uuid: self._count(uuid, each) for uuid, each in self._slots.items()
        }
        return {uuid: records for uuid, records in found.items() if records}

    def get_record(self, uuid: str) -> record.Record | None:
        """Look up the record that a server needs while it runs.

        :returns: None if this host has no such real-time server
        :raises InvalidRecord: if the server's record cannot be read
        """
        known = self.get(uuid).current
        if isinstance(known, exception.InvalidRecord):
            # Not the same error: each raise adds to its traceback.
            raise exception.InvalidRecord(str(known))
        return known

    def describe(self, uuid: str, rec: record.Record) -> DomainRecord:
        """Combine a server's record with its additional reservation.

        :param rec: the record that it needs while it runs here
        :returns: the record for its domain, from which other programs add up
            the bandwidth of this host without a call of this service
        """
        return DomainRecord(rec, self.get(uuid).beside)


class Claims(ClaimStore):
    """The claims of this host, to be changed by one thread at a time.

    :param dispatcher: gets an event for each claim added or released
    :param count: see :class:`ClaimStore`
    """

    def __init__(self, dispatcher: events.Dispatcher, count: Count) -> None:
        super().__init__(count)
        self._dispatcher = dispatcher
        self._lock = threading.Lock()

    def put(
        self,
        uuid: str,
        current: Known | None = None,
        beside: record.Record | None = None,
    ) -> None:
        """Replace the slots of a server, with an event for each change.

        A record that only moves from one slot to the other is no change.
        """
        before = self.get(uuid)
        after = Slots(current, beside)
        slots = dict(self._slots)
        if after == _NOTHING:
            slots.pop(uuid, None)
            self.adapt(uuid, None)
        else:
            slots[uuid] = after
        self._slots = slots
        self._emit_gone(uuid, before, after)
        for rec in _subtract(after, before):
            first = not before.records
            kind = events.Claimed if first else events.Added
            self._dispatcher.emit(kind(uuid, rec))

    def change(self, uuid: str, slots: Slots) -> None:
        """Replace the slots of a server whose reservation is changed.

        The end of the change has an event of its own.
        """
        self._slots = {**self._slots, uuid: slots}

    def adapt(self, uuid: str, adapted: Adapted | None) -> None:
        """Set the present reservation of a server, from any thread.

        A larger claim takes the lock of :meth:`put` as well.

        :param adapted: None for that of its record
        """
        with self._lock:
            self._adapt(uuid, adapted)

    def _adapt(self, uuid: str, adapted: Adapted | None) -> None:
        found = {**self._adapted, uuid: adapted}
        self._adapted = {
            uuid: each for uuid, each in found.items() if each is not None
        }

    def note_actual(self, uuid: str, actual: record.Record) -> None:
        """Note the reservation that the kernel holds since a write.

        The claim stays until :meth:`note_record`.
        """
        with self._lock:
            claim = self.get_counted(uuid, actual)
            self._adapt(uuid, Adapted(actual, claim))

    def stop_growing(self, uuid: str) -> None:
        """Note that a write that was to come is not made."""
        with self._lock:
            known = self._adapted.get(uuid)
            if known is not None:
                self._adapt(uuid, dataclasses.replace(known, growing=False))

    def note_record(self, uuid: str, rec: record.Record) -> None:
        """Release all but the actual reservation beside a new record."""
        with self._lock:
            known = self._adapted.get(uuid)
            if known is not None and not known.growing:
                actual = known.actual
                self._adapt(
                    uuid, None if actual == rec else Adapted(actual, actual)
                )

    def replace(self, slots: Mapping[str, Slots]) -> None:
        """Replace the slots of all servers by the findings of an audit.

        Claims that were unknown before get no event: an earlier run of this
        service has emitted it.
        """
        before, self._slots = self._slots, dict(slots)
        for uuid in self._adapted.keys() - slots.keys():
            self.adapt(uuid, None)
        for uuid, known in before.items():
            # Verification reports records that have merely changed.
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
    """Read a slot of a server, and log an unreadable one.

    :param read: a function of :mod:`.servers`
    :returns: the record, the error of reading it, or None if there is none
    """
    key = f'{instance.uuid} {read.__name__}'
    try:
        found = read(instance)
    except exception.InvalidRecord as err:
        # Each audit reads it again.
        if _UNREADABLE.is_new(key, str(err)):
            LOG.error(
                'Ignoring unreadable reservation record: %s', err,
                instance=instance,
            )  # fmt: skip
        return err.with_traceback(None)
    _UNREADABLE.forget(key)
    return found


def read_slots(instance: Any) -> Slots:
    """Read the slots of a server that does not move.

    :param instance: nova.objects.Instance on this host
    :returns: both records if its reservation is being changed
    """
    current = read_slot(servers.read_claimed, instance)
    changing = read_slot(servers.read_change, instance)
    if isinstance(changing, exception.InvalidRecord):
        # Its change is yet to be ended, and leads to the present record.
        changing = current
    if not (
        isinstance(current, record.Record)
        and isinstance(changing, record.Record)
    ):
        return Slots(current)
    if servers.is_lesser(changing, current):
        current, changing = changing, current
    return Slots(current, changing=changing)


def _subtract(some: Slots, others: Slots) -> list[record.Record]:
    """Subtract the records of slots from others, as multisets."""
    left = collections.Counter(some.records)
    left.subtract(collections.Counter(others.records))
    return [rec for rec, count in left.items() for _ in range(max(0, count))]

# SPDX-License-Identifier: Apache-2.0
"""The reservations of this host's servers, reached by their UUIDs.

The one object that driver, resource tracker and manager share: it holds the
claims of servers, and emits events for their changes. :mod:`.running` applies
the reservations of running containers to the kernel.

There is one truth: the server's record in ``instance.system_metadata``. Its
image in memory is filled at start-up, by each claim and by each audit of the
resource tracker. Both the check of a running container and the claim of the
next server use that image, so the promises on a CPU and the reservations
written to the kernel cannot differ. Neither waits for the database.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
from typing import Any, Protocol

from oslo_log import log as logging

from nova_rt import events, exception
from nova_rt.host import host as rt_host
from nova_rt.host.capability import Capability
from nova_rt.reservation import admission, record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import PPM
from nova_rt.tracking import event_log, servers
from nova_rt.tracking.claims import (
    Adapted,
    Claims,
    ClaimStore,
    Known,
    Slots,
    read_slots,
)

LOG = logging.getLogger(__name__)

#: Errors of :meth:`Reservations.claim`.
CLAIM_ERRORS = (
    exception.ClaimsUnknown,
    exception.HostNotPrepared,
    exception.InsufficientBandwidth,
    exception.InvalidRecord,
)


class Boosting(Protocol):
    """The servers that hold more than their records for a while."""

    def list_boosted(self) -> Collection[str]:
        """List them.

        :returns: their UUIDs
        """

    def give_way(self, cpus: Collection[int]) -> None:
        """Return to the records of those on these CPUs, and release the rest.

        Called under the lock of claims. A server that cannot return now keeps
        its claim.
        """


class Reservations:
    """Reservations of one host's servers.

    Methods that change claims are called at start-up or under Nova's
    COMPUTE_RESOURCE_SEMAPHORE, by one thread at a time. All other methods are
    thread-safe.

    :ivar dispatcher: emits every event; listeners subscribe here
    :ivar counter: counts the events since this process started
    :ivar held: the claims of all servers, read-only
    :ivar boosting: the boosted servers; None before there can be one
    """

    def __init__(self, host: rt_host.Host):
        self._host = host
        self.dispatcher = events.Dispatcher()
        self.counter = events.Counter()
        self.dispatcher.subscribe(self.counter)
        self.dispatcher.subscribe(event_log.EventLog(self.counter))
        # The capacity is known after init_host().
        self._claims = Claims(
            self.dispatcher, lambda asked: self.capacity().count(asked)
        )
        self.held: ClaimStore = self._claims
        self.boosting: Boosting | None = None
        self._adopted = False
        # Before the first audit of the resource tracker, the sum of claims is
        # not zero but unknown.
        self._audited = False
        #: Whether the last reading of the kernel's bandwidth failed.
        self._blind = False

    # Capacity

    @property
    def capability(self) -> Capability:
        """The capability of this host's kernel; known after init_host()."""
        return self._host.capability

    def free(self) -> admission.Capacity:
        """Compute the free capacity of this host.

        What boosted servers hold beyond their records is free for others.

        This reads the kernel's bandwidth once; :meth:`capacity` then returns
        the total by the same reading.

        A failure of the reading raises no error, since ordinary servers do
        not need it: no bandwidth is free until the next success.

        :returns: in ppm of a CPU
        """
        try:
            self._host.refresh()
        except exception.HostNotPrepared as err:
            if not self._blind:
                LOG.error('No bandwidth is offered: %s', err)
            self._blind = True
            return self._host.capacity().without_bandwidth()
        if self._blind:
            LOG.info('Bandwidth is offered again')
        self._blind = False
        boosted = self._list_boosted()
        return self._host.free(
            self._claims.list_claims(plain=boosted),
            self._claims.sum_beyond(boosted),
        )

    def _list_boosted(self) -> Collection[str]:
        return () if self.boosting is None else self.boosting.list_boosted()

    def capacity(self) -> admission.Capacity:
        """Compute the total capacity of this host, by the last reading.

        :returns: in ppm of a CPU
        """
        return self._host.capacity()

    # Claims

    @property
    def adopted(self) -> bool:
        """Whether the servers of this host are known."""
        return self._adopted

    @property
    def audited(self) -> bool:
        """Whether the claims of this host are known."""
        return self._audited

    def claim(
        self, uuid: str, rec: record.Record, beside: bool = False
    ) -> record.Record:
        """Choose CPUs for a server and claim its bandwidth on them.

        :param rec: the server's request
        :param beside: True for the destination of a move: a server that is
            here already keeps its current claim, too
        :returns: the same request with its CPUs, for the caller to save
        :raises ClaimsUnknown: before the first audit
        :raises HostNotPrepared: if the kernel's bandwidth cannot be read
        :raises InsufficientBandwidth: if it does not fit, with the numbers
        :raises InvalidRecord: if the CPUs do not fit into a record
        """
        try:
            if not self._audited:
                raise exception.ClaimsUnknown(
                    'this host has not counted its servers yet: the first '
                    'update of its resources has not succeeded'
                )
            # The claim of an earlier attempt to move it makes room.
            rec = rec.claimed_on(self._place(rec.request, without=uuid))
            rec.encode()
        except CLAIM_ERRORS as err:
            self.refuse(uuid, events.Action.CLAIM, err)
            raise
        if beside:
            self._claims.put(uuid, self._claims.get(uuid).current, rec)
        else:
            # A new server has no second slot, and had no part in the sum.
            self._claims.put(uuid, rec)
        return rec

    def _place(
        self,
        request: Request,
        without: str | None = None,
        held: tuple[str, record.Record] | None = None,
    ) -> tuple[int, ...]:
        """Choose CPUs; boosts end where their bandwidth is needed.

        :param without: see :meth:`.Claims.list_claims`
        :param held: a server that has a record, for a change of it
        :returns: the CPUs
        :raises HostNotPrepared: if the kernel's bandwidth cannot be read
        :raises InsufficientBandwidth: if it does not fit
        """
        patience = rt_host.make_claim_patience()

        def place(boosted: Collection[str] = ()) -> tuple[int, ...]:
            present = None
            if held is not None:
                uuid, present = held
                if uuid not in boosted:
                    present = self._claims.get_counted(uuid, present)
            return self._host.place(
                self._claims.list_claims(without, boosted),
                request,
                present,
                self._claims.sum_beyond(boosted),
                patience,
            )

        boosted = self._list_boosted()
        found = None
        try:
            found = place()
        except exception.InsufficientBandwidth:
            if not boosted:
                raise
        own = () if held is None else held[1].cpus
        if found is not None and (not boosted or found == own or not own):
            return found
        cpus = place(boosted)
        if found is not None and cpus != own:
            return found
        # There is no room, or it would leave its CPUs for a boost.
        assert self.boosting is not None
        if self.capacity().host_ppm is not None:
            # Room on any CPU will do.
            cpus = tuple(self.capacity().cpus)
        self.boosting.give_way(cpus)
        return place()

    def begin_change(
        self, uuid: str, rec: record.Record, wanted: record.Record
    ) -> record.Record:
        """Claim CPUs for a change of a server's reservation.

        It keeps its CPUs if they have room. Until the change has ended, the
        larger reservation counts on each CPU.

        :param rec: its present record
        :param wanted: the same with another reservation
        :returns: the new record with its CPUs, for the caller to save
        :raises ClaimsUnknown: before the first audit
        :raises HostNotPrepared: if the kernel's bandwidth cannot be read
        :raises InsufficientBandwidth: if it does not fit, with the numbers
        :raises TooLarge: if it would not fit on an empty host
        :raises InvalidRecord: if the CPUs do not fit into a record
        """
        if not self._audited:
            raise exception.ClaimsUnknown('this host has not counted its '
                                          'servers yet')  # fmt: skip
        if self._claims.get(uuid).beside is not None:
            # Nova prepares a move without the lock of the server.
            raise exception.ClaimsUnknown('a move of the server has begun')
        count = self.capacity().count
        # With an overhead, a shorter period costs more at the same bandwidth.
        if count(wanted.request.reservation) > count(rec.request.reservation):
            cpus = self._place(wanted.request, held=(uuid, rec))
            wanted = wanted.claimed_on(cpus)
        wanted.encode()
        lesser = servers.is_lesser(wanted, rec)
        slots = (wanted, rec) if lesser else (rec, wanted)
        self._claims.change(uuid, Slots(slots[0], changing=slots[1]))
        return wanted

    def hold_record(self, instance: Any) -> None:
        """Set the claims of a server to its records, without an event.

        :param instance: nova.objects.Instance, as it was saved
        """
        self._change(instance.uuid, read_slots(instance))

    def _change(self, uuid: str, slots: Slots) -> None:
        """Replace the claims of a server, but for that of a move.

        Nova prepares a move to its own host without the lock of the server.
        """
        beside = self._claims.get(uuid).beside
        self._claims.change(uuid, dataclasses.replace(slots, beside=beside))

    # Feedback and boosts

    def grow(self, uuid: str, wanted: record.Record) -> record.Record | None:
        """Claim more for a server that follows its load.

        Its CPUs stay, and their free bandwidth decides. The kernel is to be
        written next, and the result noted by :meth:`note_actual`.

        :param wanted: its record with a longer runtime than the actual one
        :returns: the same, with a shorter runtime if there is less room; None
            if there is none, or its record has changed
        :raises HostNotPrepared: if the kernel's bandwidth cannot be read
        """
        slots = self._claims.get(uuid)
        rec = slots.current
        if not self._audited or not isinstance(rec, record.Record):
            return None
        actual = self._claims.get_actual(uuid, rec)
        if slots != Slots(rec) or wanted != rec.with_runtime(
            wanted.request.reservation.runtime_us
        ):
            return None
        claim = self._claims.get_counted(uuid, rec)
        if wanted.ppm > claim.ppm:
            most_ppm = claim.ppm + self._find_room(wanted)
            if wanted.ppm > most_ppm:
                period_us = wanted.request.reservation.period_us
                wanted = wanted.with_runtime(most_ppm * period_us // PPM)
        if wanted.ppm <= actual.ppm:
            return None
        claim = wanted if wanted.ppm > claim.ppm else claim
        self._claims.adapt(uuid, Adapted(actual, claim, growing=True))
        return wanted

    def _find_room(self, rec: record.Record) -> int:
        """Find the bandwidth that is free on each CPU of a server, in ppm."""
        self._host.refresh()
        free = self._host.free(self._claims.list_claims())
        room = min(free.cpus.get(cpu, 0) for cpu in rec.cpus)
        if free.host_ppm is not None:
            room = min(room, free.host_ppm // len(rec.cpus))
        return room

    def note_actual(self, uuid: str, actual: record.Record | None) -> None:
        """Note the reservation that the kernel holds, from any thread.

        :param actual: None for that of its record, and for a container that
            has ended
        """
        if actual is None:
            self._claims.adapt(uuid, None)
        else:
            self._claims.note_actual(uuid, actual)

    def stop_growing(self, uuid: str) -> None:
        """See :meth:`.Claims.stop_growing`."""
        self._claims.stop_growing(uuid)

    def note_record(self, uuid: str, rec: record.Record) -> None:
        """Take the record that feedback has saved, without an event.

        What is claimed beyond it and the actual reservation is released.
        """
        self._change(uuid, Slots(rec))
        self._claims.note_record(uuid, rec)

    def release_beyond(self, uuid: str, rec: record.Record) -> None:
        """Release what is claimed beyond a record and the actual reservation.

        :param rec: the server's record
        """
        self._claims.note_record(uuid, rec)

    def hold(
        self,
        uuid: str,
        current: Known | None = None,
        beside: record.Record | None = None,
    ) -> None:
        """Set the claims of a server to given records with CPUs.

        :param current: the reservation it needs while it runs here
        :param beside: an additional reservation, for a move
        """
        self._claims.put(uuid, current, beside)

    def release(self, uuid: str) -> None:
        """Release all claims of a server, if any."""
        self._claims.put(uuid)

    def adopt(self, instances: Iterable[Any], audited: bool = False) -> None:
        """Rebuild the image of the records from servers that do not move.

        :param instances: all servers of this host
        :param audited: see :meth:`count`
        """
        self.count({
            instance.uuid: read_slots(instance) for instance in instances
        }, audited)  # fmt: skip

    def count(self, slots: Mapping[str, Slots], audited: bool = True) -> None:
        """Rebuild the image of the records.

        A server with an unreadable record claims nothing. Its container runs
        on, and its verification reports it.

        :param slots: the slots of each server on this host, by UUID
        :param audited: whether they are the result of an audit by the
            resource tracker
        """
        self._audited = self._audited or audited
        self._claims.replace({
            uuid: each for uuid, each in slots.items() if each != Slots()
        })  # fmt: skip
        self._adopted = True

    def refuse(
        self, uuid: str, action: events.Action, reason: str | Exception
    ) -> str:
        """Emit the refusal of an action on a server.

        :param reason: the underlying error with its numbers, or a sentence
        :returns: the reason as text, for the error that the caller raises
        """
        event = events.Refused.because(uuid, action, reason)
        self.dispatcher.emit(event)
        return event.reason

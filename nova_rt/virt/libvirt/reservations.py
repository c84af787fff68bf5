# SPDX-License-Identifier: Apache-2.0
"""The reservations of this host's servers, reached by their UUIDs.

The one object that driver, resource tracker and manager share: it holds the
bandwidth that servers claim, and emits what happens to it. What the kernel
holds for those that run is a matter of :mod:`.running`.

There is one truth: the server's record in ``instance.system_metadata``. The
image of it in memory is filled at start-up, by each claim and by each audit
of the resource tracker. Every check of a running container compares with that
image, and so does the claim of the next server: what is promised on a CPU and
what the kernel is asked to hold there cannot differ. Nothing of that waits for
the database.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
from typing import Any

from oslo_log import log as logging

from nova_rt import admission, events, exception, extra_specs, record
from nova_rt.host import host as rt_host
from nova_rt.host.capability import Capability
from nova_rt.request import Request
from nova_rt.virt.libvirt import event_log, servers
from nova_rt.virt.libvirt.claims import Claims, Known, Slots

LOG = logging.getLogger(__name__)


class Reservations:
    """Reservations of one host's servers.

    Methods that change claims are called at start-up or under Nova's
    COMPUTE_RESOURCE_SEMAPHORE, by one thread at a time; all others by any.

    :ivar dispatcher: has every event; listeners subscribe here
    :ivar counter: counts them since this process started
    :ivar in_user_namespaces: whether containers run in such, which
        init_host() says
    """

    def __init__(self, host: rt_host.Host):
        self._host = host
        self.dispatcher = events.Dispatcher()
        self.counter = events.Counter()
        self.dispatcher.subscribe(self.counter)
        self.dispatcher.subscribe(event_log.EventLog(self.counter))
        self._claims = Claims(self.dispatcher)
        self._adopted = False
        self.in_user_namespaces = False
        # Before the first audit of the resource tracker, what is claimed is
        # not zero but unknown.
        self._audited = False

    # What the host offers

    @property
    def capability(self) -> Capability:
        """The capability of this host's kernel; known after init_host()."""
        return self._host.capability

    def free(self) -> admission.Capacity:
        """Compute what can still be promised on this host.

        This reads what the kernel has, once; the host's capacity is then of
        the same reading.

        :returns: in ppm of a CPU
        :raises HostNotPrepared: if the kernel's side cannot be read
        """
        self._host.refresh()
        return self._host.free(self._claims.list_claims())

    def capacity(self) -> admission.Capacity:
        """Tell what can be promised in all, by the last reading.

        :returns: in ppm of a CPU
        """
        return self._host.capacity()

    # What servers hold

    @property
    def adopted(self) -> bool:
        """Whether the servers of this host are known."""
        return self._adopted

    def list_servers(self) -> Iterable[str]:
        """List the UUIDs of servers that hold something, readable or not."""
        return self._claims.list_all()

    def list_records(self) -> dict[str, record.Record]:
        """List what servers hold.

        :returns: the UUID of each server whose record can be read -> its
            record, with a second slot as its ``other``
        """
        merged = {
            uuid: slots.merge()
            for uuid, slots in self._claims.list_all().items()
        }
        return {uuid: rec for uuid, rec in merged.items() if rec is not None}

    def claims(self) -> dict[str, tuple[admission.Claim, ...]]:
        """List the bandwidth that servers hold.

        :returns: the UUID of each server that holds some -> the claims of its
            slots
        """
        return {
            uuid: slots.claims
            for uuid, slots in self._claims.list_all().items()
            if slots.claims
        }

    def add_beside(self, uuid: str, rec: record.Record) -> record.Record:
        """Add to what a server must have what it holds beside that.

        :param rec: what it must have while it runs here
        :returns: the record that its domain is to carry, for those who add up
            what is held without asking this service
        """
        beside = self._claims.get(uuid).beside
        return Slots(rec.in_force, beside).merge() or rec

    def get_slots(self, uuid: str) -> Slots:
        """Look up what a server holds on this host, possibly nothing."""
        return self._claims.get(uuid)

    def get_record(self, uuid: str) -> record.Record | None:
        """Look up what a server must have while it runs.

        :returns: None if this host has no such real-time server
        :raises InvalidRecord: if the server's record cannot be read
        """
        known = self._claims.get(uuid).current
        if isinstance(known, exception.InvalidRecord):
            # Not the same error: each raise adds to its traceback.
            raise exception.InvalidRecord(str(known))
        return known

    def check_request(self, request: Request) -> None:
        """See that a container of this host could make use of a reservation.

        :raises InvalidRequest: if its tasks could never become real-time
        """
        if (
            self.in_user_namespaces
            and request.policy is extra_specs.TaskPolicy.OTHER
        ):
            # kernel/sched/syscalls.c, user_check_sched_setscheduler():
            # CAP_SYS_NICE counts in the first user namespace alone.
            raise exception.InvalidRequest(
                f'{extra_specs.POLICY}={request.policy}: in a user namespace '
                'no program may become real-time by itself, so the '
                'reservation would be of no use; take rr or fifo'
            )

    def claim(self, uuid: str, rec: record.Record) -> record.Record:
        """Choose CPUs for a server and hold its bandwidth on them.

        :param rec: what it asks for
        :returns: the same request with its CPUs, for the caller to save
        :raises ClaimsUnknown: before the first audit
        :raises InsufficientBandwidth: if it does not fit, with the numbers
        :raises InvalidRecord: if the CPUs do not fit into a record
        """
        rec = self._place(uuid, rec)
        # It had no part in the sum: nobody moves a server that comes here.
        self._claims.put(uuid, rec)
        return rec

    def claim_beside(self, uuid: str, rec: record.Record) -> record.Record:
        """The same for a server that is to be moved here.

        If it is here already, it holds both.

        :returns: the same request with its CPUs, for the caller to save
        :raises ClaimsUnknown: before the first audit
        :raises InsufficientBandwidth: if it does not fit, with the numbers
        :raises InvalidRecord: if the CPUs do not fit into a record
        """
        rec = self._place(uuid, rec)
        self._claims.put(uuid, self._claims.get(uuid).current, rec)
        return rec

    def _place(self, uuid: str, rec: record.Record) -> record.Record:
        request = rec.request
        ppm = request.reservation.ppm
        # What an earlier attempt to move it has left behind makes room.
        claims = self._claims.list_claims(without=uuid)
        try:
            if not self._audited:
                raise exception.ClaimsUnknown(
                    'this host has not counted its servers yet: the first '
                    'update of its resources has not succeeded'
                )
            cpus = self._host.place(claims, request.vcpus, ppm, request.numa)
            rec = rec.claimed_on(cpus)
            rec.encode()
        except (
            exception.ClaimsUnknown,
            exception.InsufficientBandwidth,
            exception.InvalidRecord,
        ) as err:
            self.refuse(uuid, events.Action.CLAIM, err)
            raise
        return rec

    def hold(
        self,
        uuid: str,
        current: Known | None = None,
        beside: record.Record | None = None,
    ) -> None:
        """Hold for a server what was claimed before, and nothing else.

        :param current: what it must have while it runs here
        :param beside: what it holds in addition, for a move
        """
        self._claims.put(uuid, current, beside)

    def release(self, uuid: str) -> None:
        """Give up all that a server holds, if it holds something."""
        self._claims.put(uuid)

    def adopt(self, instances: Iterable[Any], audited: bool = False) -> None:
        """Make the image of the records anew from servers that do not move.

        :param instances: all servers of this host
        :param audited: see :meth:`count`
        """
        self.count({
            instance.uuid: Slots(
                self.read_or_tell(servers.read_claimed, instance)
            )
            for instance in instances
        }, audited)  # fmt: skip

    def count(self, slots: Mapping[str, Slots], audited: bool = True) -> None:
        """Make the image of the records anew.

        A server whose record cannot be read holds nothing, and is stopped
        when it is verified.

        :param slots: what each server holds on this host, by UUID
        :param audited: whether the resource tracker has counted them
        """
        self._audited = self._audited or audited
        self._claims.replace({
            uuid: each for uuid, each in slots.items() if each != Slots()
        })  # fmt: skip
        self._adopted = True

    @staticmethod
    def read_or_tell(
        read: Callable[[Any], record.Record | None], instance: Any
    ) -> Known | None:
        """Read a slot of a server; log it if it cannot be read.

        :param read: a function of :mod:`.servers`
        :returns: the record, why it cannot be read, or None if there is none
        """
        try:
            return read(instance)
        except exception.InvalidRecord as err:
            LOG.error('Holds no bandwidth: %s', err, instance=instance)
            return err.with_traceback(None)

    def refuse(
        self, uuid: str, action: events.Action, reason: str | Exception
    ) -> str:
        """Report that a server is refused something.

        :param reason: the error behind it, with its numbers, or a sentence
        :returns: the reason as text, for the error that the caller raises
        """
        text = str(reason)
        event = events.Refused(uuid, action, text)
        if isinstance(reason, exception.InsufficientBandwidth):
            event = dataclasses.replace(
                event, asked_ppm=reason.asked_ppm, cpus=reason.cpus,
                free_ppm=reason.free_ppm,
            )  # fmt: skip
        self.dispatcher.emit(event)
        return text

# SPDX-License-Identifier: Apache-2.0
"""The containers that run on this host, and what the kernel holds for them.

A container is given its reservation at each start, and stopped if it cannot
have it. Later it is verified, and stopped on the kernel's word alone: see
:mod:`.verdicts`. Start-up, the periodic check and the check after a start
behind our back compare it with the server's record, as
:mod:`.reservations` knows it. The copy in the domain is for others; it is
corrected like the kernel's side.
"""

import collections
from collections.abc import Callable, Iterator, Mapping
import contextlib
import threading

from nova import thread_pool_factory
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host
from oslo_concurrency import lockutils
from oslo_log import log as logging

from nova_rt import events, exception, faults
from nova_rt.host import cgroup, helpers
from nova_rt.host import host as rt_host
from nova_rt.host.interface import Usage
from nova_rt.lxc import domains, protection
from nova_rt.reservation import cpulist, record
from nova_rt.tracking import once
from nova_rt.tracking.reservations import Reservations
from nova_rt.tracking.verdicts import Verdicts
from nova_rt.virt.libvirt import left, metadata, policies

LOG = logging.getLogger(__name__)

#: Kind of report, see :class:`.Verdicts`, that a check does not end.
_WEAKER = 'weaker'


class RunningContainers:
    """Running containers of one host. Any thread may call any method.

    :param reservations: what the servers of this host must have
    :param verdicts: which of them may be stopped, and when
    """

    def __init__(
        self,
        host: rt_host.Host,
        hypervisor: libvirt_host.Host,
        reservations: Reservations,
        verdicts: Verdicts,
    ) -> None:
        self._verdicts = verdicts
        #: Of containers that carry a reservation that is nobody's.
        self._unknown = once.Once()
        self._host = host
        self._reservations = reservations
        self._dispatcher = reservations.dispatcher
        self._lock = threading.Lock()
        #: UUIDs of containers that are being started here.
        self._starting: set[str] = set()
        #: Those of others that were started, to be verified; by one thread,
        #: which there is only while some wait.
        self._started: collections.deque[str] = collections.deque()
        self._verifies = False
        #: Containers by UUID, as libvirt has them.
        self.domains = domains.Domains(hypervisor)
        #: The protection of the host and of others from their roots.
        self.protection = protection.Protection(host, self.domains, verdicts)
        self._policies = policies.Policies(host, self._dispatcher)
        #: The groups that belong to no running container any more.
        self.left = left.LeftGroups(host, hypervisor)

    def read_usage(self, uuid: str) -> Mapping[int, Usage]:
        """Read what a server did with its reservation on the CPUs it holds.

        :returns: CPU -> what the kernel counts there; nothing where it does
            not count, or the server does not run
        :raises OSError: with the kernel's errno
        :raises InvalidRecord: if the server's record cannot be read
        """
        rec = self._reservations.held.get_record(uuid)
        guest = self.domains.find_running(uuid)
        if rec is None or guest is None:
            return {}
        usage = self._host.read_usage(guest.id) or {}
        return {cpu: usage[cpu] for cpu in usage.keys() & rec.cpus}

    @contextlib.contextmanager
    def starting(self, uuid: str, rec: record.Record | None) -> Iterator[None]:
        """Keep verification away while a container is being started.

        The helper that gives it its reservation runs by then: until it does,
        the container runs without.

        :param rec: the server's record; None if it is not real-time
        :returns: when it may be started
        :raises HostNotPrepared: if the helper does not start
        :raises WeakerPromise: if this kernel does less than it was sold
        """
        if rec is not None:
            self._host.check_promise(rec)
        self._host.check_helper()
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            with self._lock:
                self._starting.add(uuid)
            try:
                yield
            finally:
                with self._lock:
                    self._starting.discard(uuid)

    def verify_started(self, uuid: str) -> None:
        """Verify a container that has started, soon, if others started it.

        Not by a thread for each: they would take all of a pool that Nova has
        for other things.
        """
        with self._lock:
            if uuid in self._starting or uuid in self._started:
                return
            self._started.append(uuid)
            if self._verifies:
                return
            self._verifies = True
        try:
            thread_pool_factory.spawn(self._verify_all_started)
        except Exception:
            with self._lock:
                self._verifies = False
            raise

    def _verify_all_started(self) -> None:
        while True:
            with self._lock:
                if not self._started:
                    self._verifies = False
                    return
                uuid = self._started.popleft()
            self.verify(uuid)

    def apply(
        self,
        guest: libvirt_guest.Guest,
        rec: record.Record,
        stop: Callable[[], None],
    ) -> None:
        """Give a container that was just started its reservation.

        :param rec: the server's record
        :param stop: stops the container; called if it cannot have it
        :raises ReservationNotApplied: if the kernel does not hold it
        """
        try:
            # Not guest.id: the object that started a container keeps the ID
            # of the stopped one, libvirt's LXC driver does not hand back the
            # new.
            started = self.domains.find_running(guest.uuid)
            if started is None:
                raise exception.ReservationNotApplied(
                    'the container has ended before it had its reservation; '
                    "libvirt's log of it may say why"
                )
            pid = started.id
            self.left.make_room(lambda: self._host.apply(pid, rec))
            self.protection.limit(guest.uuid, pid)
        except Exception as err:
            self._stop(guest.uuid, str(err), stop, at_start=True)
            raise
        self._policies.note(guest.uuid, pid)
        self._dispatcher.emit(events.Applied(guest.uuid, rec))

    def report_weaker(self) -> set[str]:
        """Log how many servers were sold more than this kernel does.

        :returns: their UUIDs
        """
        weaker = {}
        for uuid, rec in self._reservations.held.list_records().items():
            if reason := self._find_weaker(rec):
                weaker[uuid] = reason
        if weaker:
            uuid, reason = min(weaker.items())
            LOG.error(
                '%s real-time server(s) of this host were sold more than its '
                'kernel does, and are not started; for example %s: %s',
                len(weaker), uuid, reason,
            )  # fmt: skip
        return set(weaker)

    def _find_weaker(self, rec: record.Record) -> str | None:
        """Say how this kernel does less than a server was sold, if it does."""
        try:
            self._host.check_promise(rec)
        except exception.WeakerPromise as err:
            return str(err)
        return None

    def find_outside(self) -> dict[str, str]:
        """Look which running containers are not in the partition.

        What cannot be read now is not among them: verification sees to that.

        :returns: the UUID of each such server -> the group that it is in
        """
        outside = {}
        for uuid in self._reservations.held.list_all():
            try:
                guest = self.domains.find_running(uuid)
                if guest is None:
                    continue
                group = self._host.find_outside(guest.id)
            except (*domains.ERRORS, OSError) as err:
                LOG.warning(
                    'Cannot see where this container is: %s', err,
                    instance_uuid=uuid,
                )  # fmt: skip
                continue
            if group:
                outside[uuid] = str(group)
        return outside

    def list_running(self) -> set[str]:
        """List the containers that run.

        :returns: their UUIDs
        :raises domains.ERRORS: one of them, if libvirt does not say
        """
        return {guest.uuid for guest in self.domains.list_running()}

    def verify_all(self) -> None:
        """Verify every running container, after what is left of others."""
        self.left.reclaim()
        guests = self.domains.list_running()
        for known in (self._verdicts, self._policies, self.protection):
            known.forget_all_but([guest.uuid for guest in guests])
        patience = cgroup.Patience()
        for guest in guests:
            self.verify(guest.uuid, patience)
        helpers.end_idle()

    def verify(
        self, uuid: str, patience: cgroup.Patience | None = None
    ) -> None:
        """See that a container has its reservation, if it runs.

        What differs from the server's record is set right; a container that
        the kernel refuses its reservation is stopped in the end, and Nova then
        finds it stopped. What could not be done for any other reason is
        reported: the next check comes, and other containers are checked now.

        :param patience: that of a round of checks; None for one check
        """
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            try:
                self._verify(uuid, patience or cgroup.Patience())
            except Exception as err:
                self._report(uuid, err)

    def note_slots(self, event: events.Event) -> None:
        """Write what its server holds here from now on into a domain.

        A listener; it asks libvirt, which may take its time.
        """
        if not isinstance(event, events.Added | events.Dropped):
            return
        with lockutils.lock(f'nova_rt-container-{event.uuid}'):
            guest = self.domains.find(event.uuid)
            rec = self._reservations.held.get_record(event.uuid)
            # A domain that carries no record, or another, gets the right one
            # when its container is started, or verified.
            if (
                guest is not None
                and rec is not None
                and metadata.find_difference(guest, rec) is None
            ):
                self._correct_copy(guest, rec)

    def _verify(self, uuid: str, patience: cgroup.Patience) -> None:
        guest = self.domains.find_running(uuid)
        if guest is None:
            self._verdicts.forget(uuid)
            self.protection.forget(uuid)
            self._unknown.forget(uuid)
            return
        pid = guest.id
        rec = self._reservations.held.get_record(uuid)
        if rec is None:
            self.protection.protect_again(uuid, pid)
            # Unless this service is starting, and verifies all that run.
            if self._reservations.adopted:
                metadata.warn_of_unknown(guest, self._unknown)
            return
        weaker = self._find_weaker(rec)
        if weaker:
            # Started behind our back. Nothing here can repair that, and what
            # the kernel can hold for it is better than nothing.
            news = self._verdicts.is_news(uuid, _WEAKER, weaker)
            self._dispatcher.emit(
                events.Drifted(uuid, rec, weaker, again=not news)
            )
        self._unknown.forget(uuid)
        try:
            found = (
                self._host.compare(pid, rec),
                metadata.find_difference(guest, rec),
            )
            difference = '; '.join(each for each in found if each)
            if not difference:
                self._policies.see_to(uuid, pid, rec)
                self._correct_copy(guest, rec)
            if not difference or self._repair(
                guest, pid, rec, difference, patience
            ):
                self._verdicts.forget(uuid, but=_WEAKER)
            self.protection.limit(uuid, pid)
        except Exception:
            if self.domains.runs(uuid, pid):
                raise
            # A start has its own check.

    def _report(self, uuid: str, err: Exception) -> None:
        """Report what kept a check from its end, and leave the container."""
        reason = faults.describe(err)
        news = self._verdicts.is_news(uuid, 'unverified', reason)
        if news and not isinstance(err, (OSError, exception.NovaRTError)):
            # It may be a bug, which nobody finds without a traceback.
            LOG.error(
                'Could not verify the reservation', exc_info=err,
                instance_uuid=uuid,
            )  # fmt: skip
        self._dispatcher.emit(events.Unverified(uuid, reason, again=not news))

    def _repair(
        self,
        guest: libvirt_guest.Guest,
        pid: int,
        rec: record.Record,
        difference: str,
        patience: cgroup.Patience,
    ) -> bool:
        """Whether it is well again; if not, it is to be stopped."""
        uuid = guest.uuid
        news = self._verdicts.is_news(uuid, 'drifted', difference)
        self._dispatcher.emit(
            events.Drifted(uuid, rec, difference, again=not news)
        )
        self._policies.forget(uuid)
        try:
            self.left.make_room(lambda: self._host.apply(pid, rec, patience))
        except exception.ReservationNotApplied as err:
            if not err.verdict:
                raise
            self._excuse(err)
            if not self._verdicts.confirm(uuid, pid):
                raise
            self._stop_running(uuid, pid, str(err))
            return False
        self._policies.note(uuid, pid)
        self._correct_copy(guest, rec)
        self._dispatcher.emit(events.Repaired(uuid, rec, difference))
        return True

    def _excuse(self, err: exception.ReservationNotApplied) -> None:
        """Take no verdict for one while a CPU of any server is off line.

        What ran there runs elsewhere, and may be in the way of others.

        :raises ReservationNotApplied: the same without a verdict
        :raises OSError: if it cannot be read which are
        """
        offline = self._host.find_offline(
            self._reservations.held.list_claims()
        )
        if offline:
            raise exception.ReservationNotApplied(
                f'CPUs {cpulist.render(offline)}, which servers have claimed, '
                f'are off line: bring them on line again. {err}'
            ) from err

    def _correct_copy(
        self, guest: libvirt_guest.Guest, rec: record.Record
    ) -> None:
        wanted = self._reservations.held.describe(guest.uuid, rec)
        try:
            if not metadata.carries(guest, wanted):
                metadata.write_record(guest, wanted)
        except domains.ERRORS as err:
            # The kernel holds what it should; the next check tries again.
            LOG.warning(
                'Could not correct the record that the domain carries: %s',
                err, instance_uuid=guest.uuid,
            )  # fmt: skip

    def _stop_running(self, uuid: str, pid: int, reason: str) -> None:
        guest = self.domains.find_running(uuid)
        if guest is None or guest.id != pid:
            return
        if not self._verdicts.take_stop():
            raise exception.ReservationNotApplied(
                'not stopped, as many as [nova_rt] max_stops_per_minute '
                f'allows have been: {reason}'
            )
        # The next check tries again.
        with contextlib.suppress(*domains.ERRORS):
            self._stop(uuid, reason, guest.poweroff)

    def _stop(
        self,
        uuid: str,
        reason: str,
        stop: Callable[[], None],
        at_start: bool = False,
    ) -> None:
        try:
            stop()
        except Exception as err:
            LOG.error(
                'Could not stop this container, whose reservation is not '
                'held (%s): %s', reason, err, instance_uuid=uuid,
            )  # fmt: skip
            raise
        self._dispatcher.emit(events.Stopped(uuid, reason, at_start))

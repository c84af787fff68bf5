# SPDX-License-Identifier: Apache-2.0
"""The running containers of this host, and their reservations in the kernel.

A container is given its reservation at each start, and stopped if it cannot
have it. Later checks verify it, and stop it only if the kernel refuses its
reservation: see :mod:`.stop_policy`. The start-up of the service, the periodic
check and the check after a start by another program compare it with the
server's record in :mod:`.reservations`. The copy in the domain is for other
programs; it is corrected like the kernel's reservation.
"""

import collections
from collections.abc import Callable, Iterator, Mapping
import contextlib
import functools
import threading

from nova import thread_pool_factory
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host
from oslo_concurrency import lockutils
from oslo_log import log as logging

from nova_rt import events, exception, faults, once
from nova_rt.host import cgroup, helpers
from nova_rt.host import host as rt_host
from nova_rt.host.interface import Usage
from nova_rt.lxc import connections, domains, protection
from nova_rt.reservation import cpulist, record
from nova_rt.tracking.reservations import Reservations
from nova_rt.tracking.stop_policy import StopPolicy
from nova_rt.virt.libvirt import adapting, metadata, orphans, policies

LOG = logging.getLogger(__name__)

#: Kind of a report to :class:`.StopPolicy` that a good check does not clear.
_WEAKER = 'weaker'


class RunningContainers:
    """Running containers of one host; all methods are thread-safe.

    :param reservations: of the servers of this host
    :param stop_policy: the policy for stopping containers
    """

    def __init__(
        self,
        host: rt_host.Host,
        hypervisor: libvirt_host.Host,
        reservations: Reservations,
        stop_policy: StopPolicy,
    ) -> None:
        self._verdicts = stop_policy
        #: Reports on containers with a reservation that no server claims.
        self._unknown = once.Once()
        self._host = host
        self._reservations = reservations
        self._dispatcher = reservations.dispatcher
        self._lock = threading.Lock()
        #: UUIDs of containers that are being started here.
        self._starting: set[str] = set()
        #: UUIDs of containers started by other programs, to be verified by
        #: one thread, which ends when the queue is empty.
        self._started: collections.deque[str] = collections.deque()
        self._verifies = False
        #: Containers by UUID, as libvirt has them.
        self.domains = domains.Domains(hypervisor)
        #: The protection of the host and other containers from their roots.
        self.protection = protection.Protection(
            host, self.domains, stop_policy
        )
        self._policies = policies.Policies(host, self._dispatcher)
        #: Those whose reservations follow their load.
        self.adapting = adapting.AdaptingContainers(
            host, self.domains, reservations
        )
        self._ended = connections.EndedContainers(host, self.domains)
        #: The orphaned groups, of containers that have ended.
        self.orphans = orphans.OrphanedGroups(host, hypervisor)

    def read_usage(self, uuid: str) -> Mapping[int, Usage]:
        """Read the use of a server's reservation on its present CPUs.

        :returns: CPU -> usage; empty where the kernel does not count it, or
            the server does not run
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
        """Suspend verification of a container during its start.

        The helper is started first: the container runs without its reservation
        until the helper has written it.

        :param rec: the server's record; None if it is not real-time
        :returns: a context in which the container may be started
        :raises HostNotPrepared: if the helper does not start
        :raises WeakerPromise: if this kernel enforces less than the server
            was sold with
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
        """Schedule the verification of a container started by others.

        One thread verifies all of them: a thread for each could exhaust a pool
        that Nova needs for other work.
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
        """Apply the reservation of a container that was just started.

        :param rec: the server's record
        :param stop: stops the container; called on any failure
        :raises ReservationNotApplied: if the kernel does not hold it
        """
        try:
            # Not guest.id: the object that started a container keeps the ID
            # of the stopped one, since libvirt's LXC driver does not return
            # the new ID.
            started = self.domains.find_running(guest.uuid)
            if started is None:
                raise exception.ReservationNotApplied(
                    'the container has ended before it had its reservation; '
                    "libvirt's log of it may say why"
                )
            pid = started.id
            self.orphans.make_room(lambda: self._host.apply(pid, rec))
            self.protection.limit(guest.uuid, pid, rec.request.spare_priority)
        except Exception as err:
            self._stop(guest.uuid, str(err), stop, at_start=True)
            raise
        self._policies.note(guest.uuid, pid)
        self._reservations.note_actual(guest.uuid, None)
        self._dispatcher.emit(events.Applied(guest.uuid, rec))

    def report_weaker(self) -> set[str]:
        """Log the number of servers with a stronger promise than the kernel's.

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
                'kernel enforces, and are not started; for example %s: %s',
                len(weaker), uuid, reason,
            )  # fmt: skip
        return set(weaker)

    def _find_weaker(self, rec: record.Record) -> str | None:
        """Describe the promise of a server that this kernel breaks, if any."""
        try:
            self._host.check_promise(rec)
        except exception.WeakerPromise as err:
            return str(err)
        return None

    def find_outside(self) -> dict[str, str]:
        """Find running containers outside the partition.

        Unreadable containers are left out; their verification reports them.

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
                    'Cannot find the group of this container: %s', err,
                    instance_uuid=uuid,
                )  # fmt: skip
                continue
            if group:
                outside[uuid] = str(group)
        return outside

    def list_running(self) -> set[str]:
        """List the containers that run.

        :returns: their UUIDs
        :raises domains.ERRORS: one of them, if libvirt fails
        """
        return {guest.uuid for guest in self.domains.list_running()}

    def verify_all(self) -> None:
        """Verify every running container, and remove orphaned groups first."""
        self.orphans.reclaim()
        guests = self.domains.list_running()
        for known in (
            self._verdicts, self._policies, self.protection, self._ended,
            self._unknown,
        ):  # fmt: skip
            known.forget_all_but([guest.uuid for guest in guests])
        patience = cgroup.Patience()
        for guest in guests:
            self.verify(guest.uuid, patience)
        helpers.end_idle()

    def verify(
        self, uuid: str, patience: cgroup.Patience | None = None
    ) -> None:
        """Verify the reservation of a container, if it runs.

        Differences from the server's record are repaired. A container is
        stopped after repeated refusals by the kernel, and Nova then finds it
        stopped. Any other failure is reported: the next check tries again, and
        other containers are checked first.

        :param patience: shared by a round of checks; None for a single one
        """
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            try:
                self._verify(uuid, patience or cgroup.Patience())
            except Exception as err:
                self._report(uuid, err)

    def note_slots(self, event: events.Event) -> None:
        """Update the records in a domain after a change of its slots.

        A listener of events; its calls of libvirt may be slow.
        """
        if not isinstance(event, events.Added | events.Dropped):
            return
        with lockutils.lock(f'nova_rt-container-{event.uuid}'):
            guest = self.domains.find(event.uuid)
            rec = self._reservations.held.get_record(event.uuid)
            # A domain with no record, or a wrong one, gets the right one at
            # the start or verification of its container.
            if (
                guest is not None
                and rec is not None
                and metadata.find_difference(guest, rec) is None
            ):
                self._correct_copy(guest, rec)

    def change(self, uuid: str, *path: record.Record) -> bool:
        """Change the reservation of a container, if it runs.

        :param path: the records that the kernel is to hold one after another
        :returns: whether anything was written
        :raises ReservationNotApplied: if the kernel does not hold one
        """
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            guest = self.domains.find_running(uuid)
            if guest is None or self._host.check(guest.id, path[-1]) is None:
                return False
            pid = guest.id
            try:
                for rec in path:
                    self.orphans.make_room(
                        functools.partial(
                            self._host.apply, pid, rec, policy=False
                        )
                    )
            except exception.ReservationNotApplied:
                if self.domains.runs(uuid, pid):
                    raise
                return False
            return True

    def correct_copy(self, uuid: str) -> None:
        """Correct the record in a domain, running or not."""
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            guest = self.domains.find(uuid)
            rec = self._reservations.held.get_record(uuid)
            if guest is not None and rec is not None:
                self._correct_copy(guest, rec)

    def _verify(self, uuid: str, patience: cgroup.Patience) -> None:
        if self._reservations.held.get(uuid).changing is not None:
            # Its change writes to the kernel, and reads it back.
            return
        guest = self.domains.find_running(uuid)
        if guest is None or self._ended.clean_up(uuid, guest.id):
            self._verdicts.forget(uuid)
            self.protection.forget(uuid)
            self._unknown.forget(uuid)
            return
        pid = guest.id
        rec = self._reservations.held.get_record(uuid)
        if rec is None:
            self.protection.protect_again(uuid, pid)
            # Unless this service is starting, and verifies all containers.
            if self._reservations.adopted:
                metadata.warn_of_unknown(guest, self._unknown)
            return
        weaker = self._find_weaker(rec)
        if weaker:
            # Another program has started it. Nothing here can repair that, and
            # a weaker reservation is better than none.
            news = self._verdicts.is_news(uuid, _WEAKER, weaker)
            self._dispatcher.emit(
                events.Drifted(uuid, rec, weaker, again=not news)
            )
        self._unknown.forget(uuid)
        actual = self._reservations.held.get_actual(uuid, rec)
        try:
            found = (
                self._host.compare(pid, actual),
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
            self.protection.limit(uuid, pid, rec.request.spare_priority)
        except Exception:
            if self.domains.runs(uuid, pid):
                raise
            # A start has its own check.

    def _report(self, uuid: str, err: Exception) -> None:
        """Report an error that ended a check, and leave the container."""
        reason = faults.describe(err)
        news = self._verdicts.is_news(uuid, 'unverified', reason)
        if news and not isinstance(err, (OSError, exception.NovaRTError)):
            # It may be a bug, which is hard to find without a traceback.
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
        """Repair a reservation, or stop its container after two refusals.

        :returns: True if it was repaired
        """
        uuid = guest.uuid
        news = self._verdicts.is_news(uuid, 'drifted', difference)
        self._dispatcher.emit(
            events.Drifted(uuid, rec, difference, again=not news)
        )
        self._policies.forget(uuid)
        try:
            self.orphans.make_room(
                lambda: self._host.apply(
                    pid,
                    self._reservations.held.get_actual(uuid, rec),
                    patience,
                )
            )
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
        """Discard a verdict while a CPU of any server is taken away.

        The tasks of that CPU run elsewhere, and may affect other servers.

        :raises ReservationNotApplied: the same error without a verdict
        :raises OSError: if the present CPUs cannot be read
        """
        absent = self._host.find_absent(self._reservations.held.list_claims())
        if absent:
            raise exception.ReservationNotApplied(
                f'CPUs {cpulist.render(absent)}, which servers have claimed, '
                'are off line, or not in the cpuset of '
                f'{self._host.capability.partition}: give them back. {err}'
            ) from err

    def _correct_copy(
        self, guest: libvirt_guest.Guest, rec: record.Record
    ) -> None:
        wanted = self._reservations.held.describe(guest.uuid, rec)
        try:
            if not metadata.carries(guest, wanted):
                metadata.write_record(guest, wanted)
        except domains.ERRORS as err:
            # The kernel's reservation is right; the next check tries again.
            LOG.warning(
                'Could not correct the record in the domain: %s',
                err, instance_uuid=guest.uuid,
            )  # fmt: skip

    def _stop_running(self, uuid: str, pid: int, reason: str) -> None:
        guest = self.domains.find_running(uuid)
        if guest is None or guest.id != pid:
            return
        if not self._verdicts.take_stop():
            raise exception.ReservationNotApplied(
                'not stopped, since [nova_rt] max_stops_per_minute is '
                f'reached: {reason}'
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
                'Could not stop this container for its missing reservation '
                '(%s): %s', reason, err, instance_uuid=uuid,
            )  # fmt: skip
            raise
        self._dispatcher.emit(events.Stopped(uuid, reason, at_start))

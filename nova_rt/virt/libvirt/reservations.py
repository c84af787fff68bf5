# SPDX-License-Identifier: Apache-2.0
"""What the servers of this host reserve, reached by their UUIDs.

The one object that driver, resource tracker and manager share: it holds the
bandwidth that servers claim, holds running containers to it, and emits what
happens. A container is applied its reservation at each start, verified later,
and stopped where it cannot have it.

There is one truth: the server's record in ``instance.system_metadata``. The
image of it in memory is filled at start-up, by each claim and by each audit
of the resource tracker. Start-up, the periodic check and the check after a
start behind our back compare a container with that image, and so does the
claim of the next server: what is promised on a CPU and what the kernel is
asked to hold there cannot differ. Nothing of that waits for the database. The
copy in the domain is for others; it is corrected like the kernel's side.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
import contextlib
import dataclasses
from typing import Any

import libvirt
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host
from oslo_concurrency import lockutils
from oslo_log import log as logging

from nova_rt import admission, events, exception, extra_specs, record
from nova_rt.host import host as rt_host
from nova_rt.host.capability import Capability
from nova_rt.host.interface import Usage
from nova_rt.request import Request
from nova_rt.virt.libvirt import event_log, metadata, servers

LOG = logging.getLogger(__name__)

#: A server's record, or why it cannot be read.
_Known = record.Record | exception.InvalidRecord


class Reservations:
    """Reservations of one host's servers.

    Methods that change claims are called at start-up or under Nova's
    COMPUTE_RESOURCE_SEMAPHORE, by one thread at a time; all others by any.

    :ivar seam: has every event; listeners subscribe here
    :ivar counter: counts them since this process started
    :ivar in_user_namespaces: whether containers run in such, which
        init_host() says
    """

    def __init__(self, host: rt_host.Host, hypervisor: libvirt_host.Host):
        self._host = host
        self._hypervisor = hypervisor
        self.seam = events.Seam()
        self.counter = events.Counter()
        self.seam.subscribe(self.counter)
        self.seam.subscribe(event_log.EventLog(self.counter))
        # Replaced, never changed in place: readers have no lock.
        self._records: Mapping[str, _Known] = {}
        self._adopted = False
        self.in_user_namespaces = False
        # Before the first audit of the resource tracker, what is claimed is
        # not zero but unknown.
        self._audited = False

    # What the host offers

    @property
    def capability(self) -> Capability:
        """What the kernel of this host can do; known after init_host()."""
        return self._host.capability

    def free(self) -> admission.Capacity:
        """Compute what can still be promised on this host.

        This reads what the kernel has, once; the host's capacity is then of
        the same reading.

        :returns: in ppm of a CPU
        :raises HostNotPrepared: if the kernel's side cannot be read
        """
        self._host.refresh()
        return self._host.free(self.claims().values())

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

    def list_records(self) -> dict[str, record.Record]:
        """List what servers must have while they run.

        :returns: the UUID of each server whose record can be read -> its
            record
        """
        return {
            uuid: known
            for uuid, known in self._records.items()
            if isinstance(known, record.Record)
        }

    def claims(self) -> dict[str, admission.Claim]:
        """List the bandwidth that is held.

        :returns: the UUID of each server that holds some -> its claim
        """
        return {
            uuid: known.claim for uuid, known in self.list_records().items()
        }

    def get_record(self, uuid: str) -> record.Record | None:
        """Look up what a server must have while it runs.

        :returns: None if this host has no such real-time server
        :raises InvalidRecord: if the server's record cannot be read
        """
        known = self._records.get(uuid)
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
        request = rec.request
        ppm = request.reservation.ppm
        try:
            if not self._audited:
                raise exception.ClaimsUnknown(
                    'this host has not counted its servers yet: the first '
                    'update of its resources has not succeeded'
                )
            cpus = self._host.place(self.claims().values(), request.vcpus, ppm)
            rec = rec.claimed_on(cpus)
            rec.encode()
        except (
            exception.ClaimsUnknown,
            exception.InsufficientBandwidth,
            exception.InvalidRecord,
        ) as err:
            self.refuse(uuid, events.Action.CLAIM, err)
            raise
        self._records = {**self._records, uuid: rec}
        self.seam.emit(events.Claimed(uuid, rec))
        return rec

    def release(self, uuid: str) -> None:
        """Give up what a server holds, if it holds something."""
        records = dict(self._records)
        known = records.pop(uuid, None)
        self._records = records
        if isinstance(known, record.Record):
            self.seam.emit(events.Released(uuid, known))

    def release_others(self, uuids: Set[str]) -> None:
        """Give up what servers hold that are not here any more.

        Nothing before the first audit, when nobody knows who is here.

        :param uuids: the servers that are here
        """
        if not self._audited:
            return
        for uuid in self._records.keys() - uuids:
            self.release(uuid)

    def adopt(self, instances: Iterable[Any], audited: bool = False) -> None:
        """Make the image of the records anew.

        A server whose record cannot be read holds nothing, and is stopped
        when it is verified.

        :param instances: all servers of this host
        :param audited: whether the resource tracker has counted them
        """
        records: dict[str, _Known] = {}
        for instance in instances:
            try:
                rec = servers.read_claimed(instance)
            except exception.InvalidRecord as err:
                LOG.error('Holds no bandwidth: %s', err, instance=instance)
                records[instance.uuid] = err.with_traceback(None)
                continue
            if rec is not None:
                records[instance.uuid] = rec
        self._audited = self._audited or audited
        self.release_others(records.keys())
        self._records = records
        self._adopted = True

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
        self.seam.emit(event)
        return text

    # What the kernel holds for running containers

    def read_usage(self, uuid: str) -> Mapping[int, Usage] | None:
        """Read what a server did with its reservation.

        :returns: CPU -> what the kernel counts there; None where it does not
            count, or the server does not run
        :raises OSError: with the kernel's errno
        """
        guest = self._running(uuid)
        return None if guest is None else self._host.read_usage(guest.id)

    @contextlib.contextmanager
    def starting(self, uuid: str) -> Iterator[None]:
        """Keep verification away while a container is being started."""
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            yield

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
            started = self._find_guest(guest.uuid)
            if started is None:
                raise exception.ReservationNotApplied(
                    'the container has ended before it had its reservation'
                )
            self._host.apply(started.id, rec)
        except Exception as err:
            self._stop(guest.uuid, str(err), stop, at_start=True)
            raise
        self.seam.emit(events.Applied(guest.uuid, rec))

    def find_outside(self) -> dict[str, str]:
        """Look which running containers are not in the partition.

        What cannot be read now is not among them: verification sees to that.

        :returns: the UUID of each such server -> the group that it is in
        """
        outside = {}
        for uuid in self._records:
            try:
                guest = self._running(uuid)
                if guest is None:
                    continue
                group = self._host.find_outside(guest.id)
            except (libvirt.libvirtError, OSError) as err:
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
        :raises libvirtError: if libvirt does not say
        """
        return {
            guest.uuid
            for guest in self._hypervisor.list_guests(only_running=True)
        }

    def verify_all(self) -> None:
        """Verify every running container."""
        for guest in self._hypervisor.list_guests(only_running=True):
            self.verify_alone(guest.uuid)

    def verify_alone(self, uuid: str) -> None:
        """Verify a container where nobody waits for the result."""
        try:
            self.verify(uuid)
        except Exception:
            # Not even known whether it has its reservation. The next check
            # comes; the other containers are checked now.
            LOG.exception(
                'Could not verify the reservation', instance_uuid=uuid
            )

    def verify(self, uuid: str) -> None:
        """See that a container has its reservation, if it runs.

        What differs from the server's record is set right; a container that
        cannot have its reservation is stopped, and Nova then finds it
        stopped.
        """
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            guest = self._running(uuid)
            if guest is None:
                return
            pid = guest.id
            try:
                rec = self.get_record(uuid)
            except exception.InvalidRecord as err:
                self._stop_running(uuid, pid, str(err))
                return
            if rec is None:
                self._warn_of_unknown(guest)
                return
            found = (
                self._host.check(pid, rec),
                metadata.find_difference(guest, rec),
            )
            difference = '; '.join(each for each in found if each)
            if difference:
                self._repair(guest, pid, rec, difference)

    def _warn_of_unknown(self, guest: libvirt_guest.Guest) -> None:
        """Report a container whose reservation nobody claims.

        It is left alone: what it should have cannot be known, and servers
        that were deleted are removed by Nova.
        """
        if not self._adopted:
            # This service is starting, and verifies all that run.
            return
        try:
            rec = metadata.parse_record(guest)
            carried = None if rec is None else rec.encode()
        except exception.InvalidRecord as err:
            carried = str(err)
        if carried is not None:
            LOG.warning(
                'This container carries a reservation, but is no real-time '
                'server of this host: %s', carried, instance_uuid=guest.uuid,
            )  # fmt: skip

    def _repair(
        self,
        guest: libvirt_guest.Guest,
        pid: int,
        rec: record.Record,
        difference: str,
    ) -> None:
        uuid = guest.uuid
        self.seam.emit(events.Drifted(uuid, rec, difference))
        try:
            self._host.apply(pid, rec)
        except Exception as err:
            # Whatever it was: it runs without what it was promised.
            self._stop_running(uuid, pid, str(err))
            return
        self._correct_copy(guest, rec)
        self.seam.emit(events.Repaired(uuid, rec, difference))

    def _correct_copy(
        self, guest: libvirt_guest.Guest, rec: record.Record
    ) -> None:
        try:
            if metadata.find_difference(guest, rec) is not None:
                metadata.write_record(guest, rec)
        except libvirt.libvirtError as err:
            # The kernel holds what it should; the next check tries again.
            LOG.warning(
                'Could not correct the record that the domain carries: %s',
                err, instance_uuid=guest.uuid,
            )  # fmt: skip

    def _running(self, uuid: str) -> libvirt_guest.Guest | None:
        guest = self._find_guest(uuid)
        return guest if guest is not None and guest.is_active() else None

    def _find_guest(self, uuid: str) -> libvirt_guest.Guest | None:
        """The domain of a server, if it has one.

        Not by Nova's Host.get_guest(): to report an error of libvirt, that
        needs more of the server than its UUID, and fails without.

        :raises libvirtError: if libvirt does not say
        """
        try:
            domain = self._hypervisor.get_connection().lookupByUUIDString(uuid)
        except libvirt.libvirtError as err:
            if err.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise
        return libvirt_guest.Guest(domain)

    def _stop_running(self, uuid: str, pid: int, reason: str) -> None:
        guest = self._running(uuid)
        if guest is None or guest.id != pid:
            # Stopped or started anew meanwhile: a start has its own check.
            return
        # The next check tries again.
        with contextlib.suppress(libvirt.libvirtError):
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
                'Could not stop this container, which cannot have its '
                'reservation (%s): %s', reason, err, instance_uuid=uuid,
            )  # fmt: skip
            raise
        self.seam.emit(events.Stopped(uuid, reason, at_start))

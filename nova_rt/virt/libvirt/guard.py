# SPDX-License-Identifier: Apache-2.0
"""Holds running containers to their reservations.

The one place where a container meets the kernel's side of a reservation:
applied at each start, verified later, and where it cannot be held, the
container is stopped.
"""

from collections.abc import Iterator
import contextlib

import libvirt
from nova import exception as nova_exception
from nova import objects
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host
from oslo_concurrency import lockutils
from oslo_log import log as logging

from nova_rt import cpulist, exception, record
from nova_rt.host import host as rt_host
from nova_rt.virt.libvirt import metadata

LOG = logging.getLogger(__name__)


class ReservationGuard:
    """Applies and verifies the reservations of one host's containers.

    :ivar repairs: how often a running container was found without its
        reservation and got it back, since this process started
    """

    def __init__(self, host: rt_host.Host, hypervisor: libvirt_host.Host):
        self._host = host
        self._hypervisor = hypervisor
        self.repairs = 0

    @contextlib.contextmanager
    def starting(self, uuid: str) -> Iterator[None]:
        """Keep verification away while a container is being started."""
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            yield

    def apply(self, guest: libvirt_guest.Guest, rec: record.Record) -> None:
        """Give a container that was just started its reservation.

        :raises ReservationNotApplied: if the kernel does not hold it
        """
        # Not guest.id: the object that started a container keeps the ID of
        # the stopped one, libvirt's LXC driver does not hand back the new.
        started = self._hypervisor.get_guest(objects.Instance(uuid=guest.uuid))
        self._host.apply(started.id, rec)
        LOG.info(
            'Holds %s on CPU %s', rec.request.reservation,
            cpulist.render(rec.cpus), instance_uuid=guest.uuid,
        )  # fmt: skip

    def verify_all(self) -> None:
        """Verify every running container, by what its domain carries."""
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

    def verify(self, uuid: str, rec: record.Record | None = None) -> None:
        """See that a container has its reservation, if it runs.

        What is missing is applied again; a container that cannot have its
        reservation is stopped, and Nova then finds it stopped.

        :param rec: what it must have; None for what its domain carries
        """
        with lockutils.lock(f'nova_rt-container-{uuid}'):
            guest = self._running(uuid)
            if guest is None:
                return
            pid = guest.id
            try:
                rec = rec or metadata.parse_record(guest)
            except exception.InvalidRecord as err:
                self._stop(uuid, pid, str(err))
                return
            if rec is None:
                return
            difference = self._host.check(pid, rec)
            if difference is not None:
                self._repair(uuid, pid, rec, difference)

    def stop(self, uuid: str, reason: str) -> None:
        """Stop a container that may not run, if it runs."""
        guest = self._running(uuid)
        if guest is not None:
            self._stop(uuid, guest.id, reason)

    def _repair(
        self, uuid: str, pid: int, rec: record.Record, difference: str
    ) -> None:
        LOG.error(
            'Does not hold its reservation: %s; applying it again',
            difference, instance_uuid=uuid,
        )  # fmt: skip
        try:
            self._host.apply(pid, rec)
        except Exception as err:
            # Whatever it was: it runs without what it was promised.
            self._stop(uuid, pid, str(err))
            return
        self.repairs += 1
        LOG.info(
            'Holds %s on CPU %s again; repair %d since the start of this '
            'service', rec.request.reservation,
            cpulist.render(rec.cpus), self.repairs, instance_uuid=uuid,
        )  # fmt: skip

    def _running(self, uuid: str) -> libvirt_guest.Guest | None:
        try:
            guest = self._hypervisor.get_guest(objects.Instance(uuid=uuid))
        except nova_exception.InstanceNotFound:
            return None
        return guest if guest.is_active() else None

    def _stop(self, uuid: str, pid: int, reason: str) -> None:
        guest = self._running(uuid)
        if guest is None or guest.id != pid:
            # Stopped or started anew meanwhile: a start has its own check.
            return
        LOG.error(
            'Stopping this container, it cannot have its reservation: %s',
            reason, instance_uuid=uuid,
        )  # fmt: skip
        try:
            guest.poweroff()
        except libvirt.libvirtError as err:
            LOG.error(
                'Could not stop this container, the next check tries again: '
                '%s', err, instance_uuid=uuid,
            )  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Running containers whose reservations the host moves.

A write changes the runtime alone, and is made under the lock of the container,
as all writes to it are.
"""

import contextlib
import errno

from oslo_concurrency import lockutils

from nova_rt import events, exception
from nova_rt.host import cgroup
from nova_rt.host import host as rt_host
from nova_rt.host.interface import UsageSource
from nova_rt.lxc import ages, domains
from nova_rt.reservation import record
from nova_rt.tracking.claims import Slots
from nova_rt.tracking.reservations import Reservations

#: Reasons for which a container cannot be read, or not be written.
ERRORS = (*domains.ERRORS, exception.NovaRTError, OSError, ValueError)


class AdaptingContainers:
    """The containers of one host; all methods are thread-safe.

    :param reservations: of the servers of this host
    """

    def __init__(
        self,
        host: rt_host.Host,
        domains: domains.Domains,
        reservations: Reservations,
    ) -> None:
        self._host = host
        self._domains = domains
        self._reservations = reservations

    def find_usage(self, uuid: str) -> UsageSource | None:
        """Find the use of a container, and try to read it.

        :returns: None if it does not run
        :raises OSError: with the kernel's errno; ENOENT where the kernel does
            not count it
        """
        guest = self._domains.find_running(uuid)
        if guest is None:
            return None
        found = self._host.find_usage(guest.id)
        if found is None:
            raise OSError(errno.ENOENT, 'no use of this container is counted')
        found.read()
        return found

    def runs(self, uuid: str) -> bool:
        """Tell whether the container of a server runs."""
        return self._domains.find_running(uuid) is not None

    def find_age_s(self, uuid: str) -> float | None:
        """Find the age of a container, in seconds.

        :returns: None if it does not run
        :raises OSError: if it ends meanwhile
        """
        guest = self._domains.find_running(uuid)
        return None if guest is None else ages.read_age_s(guest.id)

    def adapt(
        self, uuid: str, rec: record.Record, actual: record.Record
    ) -> bool:
        """Give a container a reservation that differs from its record.

        Nothing is done if it is not claimed: a boost may have given way.

        Another write to the container, or its start, is not waited for: the
        next decision tries again.

        :param rec: the server's record; nothing is done if it has another one
            meanwhile, or is being changed or moved
        :param actual: the same with the new runtime
        :returns: whether the container holds it now
        :raises ReservationNotApplied: if the kernel does not hold it
        """
        with contextlib.suppress(lockutils.AcquireLockFailedException):
            return self._adapt(uuid, rec, actual)
        return False

    def _adapt(
        self, uuid: str, rec: record.Record, actual: record.Record
    ) -> bool:
        with lockutils.lock(f'nova_rt-container-{uuid}', blocking=False):
            held = self._reservations.held
            if held.get(uuid) != Slots(rec):
                return False
            if held.get_counted(uuid, rec).ppm < actual.ppm:
                return False
            guest = self._domains.find_running(uuid)
            if guest is None:
                return False
            if self._host.check(guest.id, actual) is not None:
                # Its bandwidth is there, or the next decision tries again.
                self._host.apply(
                    guest.id, actual, cgroup.Patience(0), policy=False
                )
            self._reservations.note_actual(uuid, actual)
            return True

    def resume(self, uuid: str, adapt: bool) -> None:
        """Count what an earlier run of this service has let a server have.

        :param adapt: whether it goes on; if not, the kernel gets the record
        :raises ReservationNotApplied: if the kernel does not take that
        """
        rec = self._reservations.held.get_record(uuid)
        if rec is None or not rec.request.adapts:
            return
        guest = self._domains.find_running(uuid)
        if guest is None:
            return
        actual = self._host.read_held(guest.id, rec)
        if actual == rec:
            return
        self._reservations.note_actual(uuid, actual)
        if not adapt and self.adapt(uuid, rec, rec):
            self._reservations.note_actual(uuid, None)
            if rec.request.boosted_us is not None:
                self._reservations.dispatcher.emit(
                    events.Unboosted(
                        uuid, rec, str(actual.request.reservation)
                    )
                )

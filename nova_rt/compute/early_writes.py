# SPDX-License-Identifier: Apache-2.0
"""Changes that the kernel holds before they are journalled.

Nova's database and Placement take ten times as long as the kernel. So a change
of the runtime alone begins as a boost does: it is claimed in memory, and
written. Nothing of it lasts: the next service, or a change that is refused,
returns to the record. A claim is released a period after the kernel was given
less, which is how long it may hold used bandwidth.

Only this service knows that the request is no old one that comes late: it has
made the last change, and the server still has the record of that.
"""

from collections.abc import Container
import time
from typing import Any

from oslo_log import log as logging

from nova_rt import exception
from nova_rt.lxc import domains
from nova_rt.reservation import record
from nova_rt.reservation.reservation import Reservation

LOG = logging.getLogger(__name__)

#: Reasons for which a container cannot be read, or not be written.
_ERRORS = (*domains.ERRORS, exception.NovaRTError, OSError, ValueError)


class EarlyWrites:
    """The early writes of a host; called under Nova's lock of the server.

    :param manager: the host's :class:`.RTComputeManager`
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        #: Server -> number of the last change, and the record since then.
        self._last: dict[str, tuple[int, record.Record]] = {}
        #: Server -> its record, while the kernel may hold something else.
        self._open: dict[str, record.Record] = {}
        #: Server -> its record, which the kernel holds again, and the
        #: monotonic time at which it holds nothing else any more.
        self._returned: dict[str, tuple[record.Record, float]] = {}

    def note_change(self, uuid: str, generation: int) -> None:
        """Note that a change was made, and is in the record of its server."""
        self._open.pop(uuid, None)
        rec = self._manager.driver.reservations.held.get(uuid).current
        if isinstance(rec, record.Record):
            self._last[uuid] = generation, rec

    def write(
        self, uuid: str, generation: int, wish: Reservation
    ) -> record.Record | None:
        """Let the kernel hold a change, if that is known to be right.

        :returns: the record that the kernel held before; None if nothing was
            written
        """
        number, rec = self._last.get(uuid, (generation, None))
        if rec is None or generation <= number or uuid in self._open:
            return None
        present = rec.request.reservation
        wanted = rec.with_reservation(wish)
        if (
            wish == present
            or wish.period_us != present.period_us
            # The host moves it at any time.
            or rec.request.adapts
            or wanted.request.adapts
        ):
            return None
        self._open[uuid] = rec
        written = False
        try:
            written = self._write(uuid, rec, wanted)
        except _ERRORS as err:
            # The change itself fails for the same reason, and explains it.
            LOG.debug('Not written early: %s', err, instance_uuid=uuid)
        finally:
            self._manager.driver.reservations.stop_growing(uuid)
            if not written:
                self.take_back(uuid)
        return rec if written else None

    def _write(
        self, uuid: str, rec: record.Record, wanted: record.Record
    ) -> bool:
        if wanted.ppm > rec.ppm:
            granted = self._manager.rt.rt_grow(uuid, wanted)
            if granted != wanted:
                # There may be room on other CPUs.
                self._manager.driver.reservations.stop_growing(uuid)
                self._manager.rt.rt_end_boost(uuid, rec)
                return False
        written: bool = self._manager.driver.running.adapting.adapt(
            uuid, rec, wanted
        )
        return written

    def take_back(self, uuid: str) -> bool:
        """Let the kernel hold the record of a server again.

        :returns: whether it does; if not, this is to be called again
        """
        rec = self._open.get(uuid)
        if rec is None:
            return True
        adapted = self._manager.driver.reservations.held.get_adapted(uuid)
        if adapted is None:
            del self._open[uuid]
            return True
        try:
            if not self._return(uuid, rec):
                # It is being changed or moved, or others write to it.
                return False
        except _ERRORS as err:
            LOG.warning(
                'Cannot take back a change of reservation: %s; the next check '
                'tries again', err, instance_uuid=uuid,
            )  # fmt: skip
            return False
        del self._open[uuid]
        period_s = rec.request.reservation.period_us / 1_000_000
        self._returned[uuid] = rec, time.monotonic() + period_s
        return True

    def _return(self, uuid: str, rec: record.Record) -> bool:
        driver = self._manager.driver
        if not driver.running.adapting.runs(uuid):
            driver.reservations.note_actual(uuid, None)
            return True
        returned: bool = driver.running.adapting.adapt(uuid, rec, rec)
        return returned

    def release(self, uuid: str) -> None:
        """Release what was claimed for a change that was taken back.

        It waits for the kernel. The lock of the server is not needed.
        """
        found = self._returned.pop(uuid, None)
        if found is not None:
            rec, until_s = found
            time.sleep(max(0, until_s - time.monotonic()))
            self._manager.rt.rt_end_early(uuid, rec)

    def list_open(self) -> list[str]:
        """List the servers that :meth:`take_back` is to be called for.

        :returns: their UUIDs
        """
        return list(self._open)

    def forget_all_but(self, known: Container[str]) -> None:
        """Forget the servers that are not on this host."""
        for each in self._last, self._open:
            for uuid in [uuid for uuid in each if uuid not in known]:
                each.pop(uuid, None)

# SPDX-License-Identifier: Apache-2.0
"""Changes that the kernel holds before they are journalled.

Nova's database and Placement take ten times as long as the kernel. So a change
of the runtime alone begins as a boost does: it is claimed in memory, and
written. Nothing of it lasts: the next service, or a change that is refused,
returns to the record. A larger claim is released a period after that, for
which the kernel may hold used bandwidth.

A request may be an old one that comes late. Only this service knows that it is
not: it has made the last change of the server, the record is still the one of
that, and no later request was refused.
"""

from collections.abc import Container
import time
from typing import Any

from nova import utils
from oslo_log import log as logging

from nova_rt import faults
from nova_rt.reservation import record
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking.claims import Adapted, Slots

LOG = logging.getLogger(__name__)


class EarlyWrites:
    """The early writes of a host.

    Unless said otherwise, Nova's lock of the server is held for a call.

    :param manager: the host's :class:`.RTComputeManager`
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        #: Server -> numbers of its last change and of its flavor, and its
        #: record since then.
        self._last: dict[str, tuple[int, int, record.Record]] = {}
        #: Server -> its record, while the kernel may hold something else.
        self._open: dict[str, record.Record] = {}
        #: Server -> its record, which the kernel holds again, and the
        #: monotonic time at which a larger claim may be released.
        self._returned: dict[str, tuple[record.Record, float]] = {}

    def note_change(self, uuid: str, generation: int, flavor: int) -> None:
        """Note that a change was made, and is in the record of its server."""
        held = self._manager.driver.reservations.held
        if held.get_adapted(uuid) is None:
            self._open.pop(uuid, None)
        rec = held.get(uuid).current
        if isinstance(rec, record.Record):
            self._last[uuid] = generation, flavor, rec

    def write(
        self, uuid: str, generation: int, flavor: int, wish: Reservation
    ) -> record.Record | None:
        """Let the kernel hold a change, if it is the next one of a server.

        :returns: the record that the kernel held before; None if it holds that
            now
        """
        # It comes back with the end of the change, and not with a refusal.
        number, of_flavor, rec = self._last.pop(uuid, (generation, 0, None))
        if rec is None or generation <= number or flavor != of_flavor:
            return None
        present, wanted = rec.request.reservation, rec.with_reservation(wish)
        if (
            wish == present
            or wish.period_us != present.period_us
            # The host moves it at any time.
            or rec.request.adapts
            or wanted.request.adapts
            or uuid in self._open
            or uuid in self._returned
        ):
            return None
        self._open[uuid] = rec
        written = False
        try:
            written = self._write(uuid, rec, wanted)
        except Exception as err:
            # The change itself fails for the same reason, and explains it.
            LOG.info(
                'Not writing change early: %s', faults.describe(err),
                instance_uuid=uuid,
            )  # fmt: skip
        finally:
            self._manager.driver.reservations.stop_growing(uuid)
        if not written:
            self.take_back(uuid)
        return self._open.get(uuid)

    def _write(
        self, uuid: str, rec: record.Record, wanted: record.Record
    ) -> bool:
        reservations = self._manager.driver.reservations
        adapting = self._manager.driver.running.adapting
        # adapt() looks whether it runs.
        held = reservations.held
        if held.get(uuid) != Slots(rec) or held.get_adapted(uuid) is not None:
            return False
        if wanted.ppm < rec.ppm:
            # If the write fails half-way, it is taken back all the same.
            reservations.note_actual(uuid, rec)
        elif self._manager.rt.rt_grow(uuid, wanted) != wanted:
            # There may be room on other CPUs.
            reservations.stop_growing(uuid)
            self._manager.rt.rt_release_beyond(uuid, rec)
            return False
        written: bool = adapting.adapt(uuid, rec, wanted)
        return written

    def take_back(self, uuid: str) -> bool:
        """Let the kernel hold the record of a server again.

        :returns: whether it does; if not, this is to be called again
        """
        rec = self._open.get(uuid)
        if rec is None:
            return True
        reservations = self._manager.driver.reservations
        adapted = reservations.held.get_adapted(uuid)
        slots = reservations.held.get(uuid)
        if adapted is None:
            pass
        elif slots.changing is None and slots.current != rec:
            # It was started with another record since then.
            reservations.note_actual(uuid, None)
        elif not self._return(uuid, rec, adapted):
            return False
        del self._open[uuid]
        return True

    def _return(self, uuid: str, rec: record.Record, adapted: Adapted) -> bool:
        """Write a record; false if others write, or change or move it."""
        reservations = self._manager.driver.reservations
        adapting = self._manager.driver.running.adapting
        try:
            runs = adapting.runs(uuid)
            if runs and not adapting.adapt(uuid, rec, rec):
                return False
        except Exception as err:
            LOG.warning(
                'Cannot take back change of reservation: %s; the next check '
                'tries again', faults.describe(err), instance_uuid=uuid,
            )  # fmt: skip
            return False
        if runs and adapted.claim.ppm > rec.ppm:
            period_s = rec.request.reservation.period_us / 1_000_000
            self._returned[uuid] = rec, time.monotonic() + period_s
        else:
            reservations.note_actual(uuid, None)
        return True

    def is_open(self, uuid: str) -> bool:
        """Tell whether :meth:`take_back` is to be called for a server."""
        return uuid in self._open

    def list_open(self) -> list[str]:
        """List the servers that :meth:`take_back` is to be called for.

        No lock is needed.

        :returns: their UUIDs
        """
        return list(self._open)

    def release(self, uuid: str) -> None:
        """Release the claim of a change that was taken back, if there is one.

        It waits for the kernel first. The lock of the server is not held.
        """
        found = self._returned.get(uuid)
        if found is None:
            return
        rec, until_s = found
        time.sleep(max(0, until_s - time.monotonic()))

        def release() -> None:
            if self._returned.get(uuid) is not found:
                return
            del self._returned[uuid]
            if self._manager.driver.reservations.held.get(uuid).current == rec:
                self._manager.rt.rt_release_beyond(uuid, rec, publish=True)

        utils.synchronized(uuid)(release)()

    def forget_all_but(self, known: Container[str]) -> None:
        """Forget the servers that are not on this host; no lock is needed."""
        for each in self._last, self._open:
            for uuid in list(each):
                if uuid not in known:
                    each.pop(uuid, None)

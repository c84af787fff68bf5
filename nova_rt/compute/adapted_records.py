# SPDX-License-Identifier: Apache-2.0
"""Saves the records of servers that have adapted, and tells Placement.

Until then, this host counts the larger of record and present reservation. A
server is saved only without a task, as if its owner had changed it, and never
while another request has its lock. The record comes first, and Placement next:
if a service is killed in between, the next one tells Placement again. If
Placement has no room, the server returns to the bandwidth that it has there.
"""

from collections.abc import Callable
import time
from typing import Any

from nova import exception as nova_exception
from oslo_concurrency import lockutils
from oslo_log import log as logging

from nova_rt import events, exception, faults, once
from nova_rt.compute import obstacles
from nova_rt.compute.feedback import Loop
from nova_rt.formats.counts import Adaptation
from nova_rt.reservation import record
from nova_rt.reservation.reservation import PPM
from nova_rt.tracking import servers
from nova_rt.tracking.claims import Slots

LOG = logging.getLogger(__name__)

#: Seconds between two reports of a server.
INTERVAL_S = 60
#: Seconds without an attempt to grow, after Placement had no room.
_NO_ROOM_S = 60.0


class AdaptedRecords:
    """The records of the servers of a host that adapt.

    :param manager: the host's :class:`.RTComputeManager`
    :param count: counts an adaptation
    :param clock: says the time, in seconds
    """

    def __init__(
        self,
        manager: Any,
        count: Callable[[Adaptation], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._manager = manager
        self._reservations = manager.driver.reservations
        self._running = manager.driver.running
        self._count = count
        self._clock = clock
        self._failed = once.Once()

    def report_all(self, context: Any, loops: dict[str, Loop]) -> None:
        """Save all changes since the last time, and tell Placement.

        :param loops: of all servers that adapt
        """
        self._failed.forget_all_but(loops)
        for loop in loops.values():
            try:
                with lockutils.lock(
                    loop.uuid, lock_file_prefix='nova-', blocking=False
                ):
                    self._report(context, loop)
                self._failed.forget(loop.uuid)
            except (
                lockutils.AcquireLockFailedException,
                nova_exception.InstanceNotFound,
                nova_exception.UnexpectedTaskStateError,
            ):
                pass  # Something is being done to it.
            except Exception as err:
                reason = faults.describe(err)
                if self._failed.is_new(loop.uuid, reason):
                    LOG.warning(
                        'Cannot record the adapted reservation now: %s; '
                        'trying again', reason, instance_uuid=loop.uuid,
                    )  # fmt: skip

    def _report(self, context: Any, loop: Loop) -> None:
        uuid, held = loop.uuid, self._reservations.held
        slots = held.get(uuid)
        rec = slots.current
        if not isinstance(rec, record.Record) or slots != Slots(rec):
            return
        if self._manager.rt_boosts.has(uuid):
            return
        if held.get_adapted(uuid) is not None:
            loop.reported = False
        elif loop.reported:
            return
        period_s = rec.request.reservation.period_us / 1_000_000
        if self._clock() < loop.shrunk_at_s + period_s:
            # The kernel holds used bandwidth until the end of its period.
            return
        instance = obstacles.read(context, uuid)
        if (
            instance.host != self._manager.host
            or servers.find_unchangeable(instance) is not None
            or servers.is_changing(instance)
            or servers.read_claimed(instance) != rec
        ):
            return
        actual = held.get_actual(uuid, rec)
        if held.get_adapted(uuid) is not None:
            self._manager.rt.rt_save_adapted(instance, actual)
        self._running.correct_copy(uuid)
        try:
            self._manager.rt_changes.allocate(context, instance, actual)
        except exception.InsufficientBandwidth as err:
            self._give_back(loop, actual, err)
            return
        loop.reported = True
        if actual != rec:
            self._reservations.dispatcher.emit(
                events.Adapted(uuid, actual, str(rec.request.reservation))
            )

    def _give_back(
        self,
        loop: Loop,
        actual: record.Record,
        err: exception.InsufficientBandwidth,
    ) -> None:
        """Return to the bandwidth that Placement has for a server.

        The next report saves it, and asks Placement again.

        :param actual: its record now
        :param err: with the bandwidth that it may have on each CPU
        :raises Exception: if that fails; the next report tries again
        """
        uuid = loop.uuid
        loop.no_room_until_s = self._clock() + _NO_ROOM_S
        period_us = actual.request.reservation.period_us
        most_us = err.free_ppm[0] * period_us // PPM
        runtime_us = actual.request.clamp(most_us)
        lesser = actual.with_runtime(runtime_us)
        LOG.info(
            'Returning from %s to %s: %s', actual.request.reservation,
            lesser.request.reservation, err, instance_uuid=uuid,
        )  # fmt: skip
        if self._running.adapting.adapt(uuid, actual, lesser):
            self._count(Adaptation.RETURNED)
            loop.shrunk_at_s = self._clock()

# SPDX-License-Identifier: Apache-2.0
"""Gives more runtime to servers that start, where their flavors say so.

A boost begins when this service has started a container. It grows by free
bandwidth of the server's CPUs, which is claimed at once. It ends
``rt:startup_s`` seconds after the start: the kernel gets the server's record,
and a period later the claim is released. Record and allocation stay those of
the server's own reservation all the time, so that nothing has to be undone
elsewhere.

To others, the bandwidth of a boost is free: it is published as such, and a
boost ends at once where a claim, or a change of another server, needs it. So
nobody holds more than was sold by starting a server again and again.

A server that is being changed or moved is left alone. A change of its
reservation ends the boost, and so does the end of the container. A service
that is restarted goes on with what the kernel holds, by the age of the
container.
"""

from collections.abc import Callable, Collection
import dataclasses
import threading
import time
from typing import Any

from oslo_log import log as logging

from nova_rt import events, exception, faults
from nova_rt.formats.counts import Adaptation
from nova_rt.reservation import record
from nova_rt.tracking.claims import Slots
from nova_rt.virt.libvirt import adapting

LOG = logging.getLogger(__name__)

#: Seconds between two looks at a boosted server, between two attempts while
#: others write to its container, and after an error.
_LOOK_S = 2.0
_BUSY_S = 0.1
_AGAIN_S = 5.0
#: Attempts at a container, for a claim that waits.
_ATTEMPTS = 5


@dataclasses.dataclass(eq=False)
class _Boost:
    """The boost of one start of a server.

    :ivar rec: the record that it starts with
    :ivar until_s: the time of its end
    :ivar look_at_s: the time of the next step
    :ivar begun: whether the kernel may hold more than the record
    :ivar ended: whether the kernel holds the record again
    :ivar granted: the record with what it was given; None if that is unknown,
        or nothing
    """

    uuid: str
    rec: record.Record
    until_s: float
    look_at_s: float
    begun: bool = False
    ended: bool = False
    granted: record.Record | None = None


class Boosts:
    """The boosts of the servers of a host, and a listener for their starts.

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
        self._adapting = manager.driver.running.adapting
        self._count = count
        self._clock = clock
        self._boosts: dict[str, _Boost] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(
            target=self._work_for_ever, name='nova_rt-boost', daemon=True
        )

    def start(self) -> None:
        """Begin to boost the servers of this host."""
        self._thread.start()

    def stop(self) -> None:
        """Leave boosted servers to the next service."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def has(self, uuid: str) -> bool:
        """Tell whether a server is boosted, or about to be."""
        return uuid in self._boosts

    def list_boosted(self) -> Collection[str]:
        """List the servers that are boosted, or about to be.

        :returns: their UUIDs
        """
        return {*self._boosts}

    def give_way(self, cpus: Collection[int]) -> None:
        """End the boosts of servers on some CPUs, for a claim.

        Called under the lock of claims, which this holds for the period of a
        server: until then, the kernel holds used bandwidth.
        """
        held = self._reservations.held
        left = []
        for uuid in list(self._boosts):
            adapted = held.get_adapted(uuid)
            if adapted is not None and {*cpus} & {*adapted.claim.cpus}:
                left.append((uuid, adapted.claim))
        wait_us = 0
        for attempt in range(_ATTEMPTS):
            if attempt and left:
                time.sleep(_BUSY_S)
            for each in list(left):
                uuid, claim = each
                if self._give_back(uuid):
                    left.remove(each)
                    period_us = claim.request.reservation.period_us
                    wait_us = max(wait_us, period_us)
        time.sleep(wait_us / 1_000_000)

    def _give_back(self, uuid: str) -> bool:
        """Return a server to its record, and release the rest.

        :returns: False if others write to it
        """
        rec = self._reservations.held.get(uuid).current
        try:
            if not self._adapting.runs(uuid):
                self._reservations.note_actual(uuid, None)
            elif isinstance(rec, record.Record):
                if not self._adapting.adapt(uuid, rec, rec):
                    return False
                # Not if it has started again, and was boosted, since then.
                self._reservations.release_beyond(uuid, rec)
                self._count(Adaptation.YIELDED)
        except adapting.ERRORS as err:
            LOG.warning(
                'Cannot end boost, which another server needs: %s',
                faults.describe(err), instance_uuid=uuid,
            )  # fmt: skip
        return True

    def __call__(self, event: events.Event) -> None:
        """Note the start of a container."""
        if not isinstance(event, events.Applied):
            return
        request, now_s = event.record.request, self._clock()
        if request.boosted_us is None or request.startup_s is None:
            return
        self._put(
            _Boost(event.uuid, event.record, now_s + request.startup_s, now_s)
        )

    def resume_all(self) -> None:
        """Find the servers that an earlier run of this service has boosted.

        A boost that it has not begun is lost. What goes beyond the record of
        a server that follows its load may also be due to that; it is left to
        the feedback after the time of a boost.
        """
        held = self._reservations.held
        for uuid, slots in held.list_all().items():
            rec = slots.current
            if not isinstance(rec, record.Record):
                continue
            startup_s = rec.request.startup_s
            if startup_s is None or held.get_actual(uuid, rec).ppm <= rec.ppm:
                continue
            left_s = startup_s - self._find_age_s(uuid, startup_s)
            if left_s > 0 or not rec.request.follows_load:
                now_s = self._clock()
                self._put(
                    _Boost(
                        uuid, rec, now_s + left_s, now_s, begun=True,
                        granted=held.get_actual(uuid, rec),
                    )
                )  # fmt: skip

    def _find_age_s(self, uuid: str, default_s: int) -> float:
        try:
            age_s: float | None = self._adapting.find_age_s(uuid)
        except adapting.ERRORS as err:
            LOG.warning(
                'Ending the boost of a server of unknown age: %s',
                faults.describe(err), instance_uuid=uuid,
            )  # fmt: skip
            age_s = None
        return default_s if age_s is None else age_s

    def _put(self, boost: _Boost) -> None:
        with self._changed:
            self._boosts[boost.uuid] = boost
            self._changed.notify_all()

    # The thread

    def _work_for_ever(self) -> None:
        while not self._stopping:
            self.work()
            with self._changed:
                due_s = min(
                    (each.look_at_s for each in self._boosts.values()),
                    default=None,
                )
                wait_s = None if due_s is None else due_s - self._clock()
                if not self._stopping and (wait_s is None or wait_s > 0):
                    self._changed.wait(wait_s)

    def work(self) -> None:
        """Take the steps that are due."""
        now_s = self._clock()
        with self._changed:
            known = list(self._boosts.values())
        for boost in known:
            if now_s < boost.look_at_s:
                continue
            goes_on = True
            try:
                goes_on = self._step(boost, now_s)
            except Exception as err:
                # Any fault of one server: the others go on.
                boost.look_at_s = now_s + _AGAIN_S
                LOG.warning(
                    'Could not boost reservation, or end it: %s',
                    faults.describe(err),
                    exc_info=not isinstance(err, adapting.ERRORS),
                    instance_uuid=boost.uuid,
                )  # fmt: skip
            if not goes_on:
                self._drop(boost)

    def _drop(self, boost: _Boost) -> None:
        """Forget a boost that is over, and say so."""
        uuid, rec, granted = boost.uuid, boost.rec, boost.granted
        with self._changed:
            # It may have started again meanwhile.
            if self._boosts.get(uuid) is not boost:
                return
            del self._boosts[uuid]
        if granted is not None and (
            self._reservations.held.get(uuid).current == rec
        ):
            self._reservations.dispatcher.emit(
                events.Unboosted(uuid, rec, str(granted.request.reservation))
            )

    def _step(self, boost: _Boost, now_s: float) -> bool:
        """Take the next step of a boost.

        :returns: whether there is another one
        """
        uuid, rec, held = boost.uuid, boost.rec, self._reservations.held
        if boost.ended:
            self._manager.rt.rt_release_beyond(uuid, rec)
            return False
        boost.look_at_s = now_s + _LOOK_S
        slots, adapted = held.get(uuid), held.get_adapted(uuid)
        changed = slots == Slots(slots.current) and slots.current != rec
        if adapted is None and (boost.begun or changed):
            # It was changed, moved or deleted, or has given way.
            return False
        if not self._adapting.runs(uuid):
            self._reservations.note_actual(uuid, None)
            return False
        if changed:
            return False
        if now_s >= boost.until_s:
            return self._end(boost)
        boost.look_at_s = min(boost.look_at_s, boost.until_s)
        if boost.begun or slots != Slots(rec):
            return True
        # Until the first audit nothing can be claimed.
        return not self._reservations.audited or self._begin(boost, now_s)

    def _begin(self, boost: _Boost, now_s: float) -> bool:
        uuid, rec = boost.uuid, boost.rec
        assert rec.request.boosted_us is not None
        wanted = rec.with_runtime(rec.request.boosted_us)
        try:
            granted: record.Record | None = self._manager.rt.rt_grow(
                uuid, wanted
            )
            if granted != wanted:
                self._count(Adaptation.LIMITED)
                LOG.info(
                    'No room to boost from %s to %s while it starts: it has '
                    '%s', rec.request.reservation, wanted.request.reservation,
                    (granted or rec).request.reservation, instance_uuid=uuid,
                )  # fmt: skip
            if granted is None:
                return False
            boost.begun = self._adapting.adapt(uuid, rec, granted)
        except exception.ReservationNotApplied:
            self._count(Adaptation.REFUSED)
            boost.begun, boost.until_s = True, now_s
            raise
        finally:
            self._reservations.stop_growing(uuid)
        if not boost.begun:
            boost.look_at_s = now_s + _BUSY_S
            return True
        boost.granted = granted
        self._count(Adaptation.BOOSTED)
        LOG.info(
            'Boosted from %s to %s while it starts',
            rec.request.reservation, granted.request.reservation,
            instance_uuid=uuid,
        )  # fmt: skip
        self._reservations.dispatcher.emit(
            events.Boosted(uuid, granted, str(rec.request.reservation))
        )
        return True

    def _end(self, boost: _Boost) -> bool:
        """Return to the record, and later release the rest.

        The kernel holds used bandwidth until the end of its period.
        """
        uuid, rec = boost.uuid, boost.rec
        if not boost.begun and (
            self._reservations.held.get_adapted(uuid) is None
        ):
            return False
        if self._adapting.adapt(uuid, rec, rec):
            boost.ended = True
            period_us = rec.request.reservation.period_us
            # By the time of the write: others may have been waited for.
            boost.look_at_s = self._clock() + period_us / 1_000_000
            LOG.info(
                'The boost has ended: it has %s', rec.request.reservation,
                instance_uuid=uuid,
            )  # fmt: skip
        return True

# SPDX-License-Identifier: Apache-2.0
"""Moves the runtimes of servers by their load, where their flavors say so.

One thread reads the use of each such server ten times a second and asks its
law. It calls nothing but the kernel or nova-rt-sched, and takes no lock of
Nova. Another thread carries the decisions out: to grow, it claims free
bandwidth of the server's CPUs and then writes to the kernel; to shrink, it
writes. The claim stays until :mod:`.adapted_records` has saved the server and
has told Placement.

A server that is being changed, moved or boosted is left alone. One whose use
cannot be read keeps its reservation, and an event reports it.
"""

import collections
from collections.abc import Callable
import threading
import time
from typing import Any

from oslo_log import log as logging

from nova_rt import events, faults
from nova_rt.feedback import laws
from nova_rt.feedback.law import SAMPLE_S
from nova_rt.feedback.meter import Meter
from nova_rt.formats.counts import Adaptation
from nova_rt.host.interface import UsageSource
from nova_rt.reservation import record
from nova_rt.tracking.claims import Slots
from nova_rt.virt.libvirt import adapting

LOG = logging.getLogger(__name__)

#: Seconds between two looks for a container that does not run, or cannot be
#: read, and after which its source is looked for anyway.
_FIND_S = 2.0
_FIND_AGAIN_S = 10.0
#: Seconds without an attempt to grow, after there was no room.
_NO_ROOM_S = 5.0
#: Readings in a row that may fail.
_MISSED = 3
#: Seconds between two looks for servers, if there are none.
_IDLE_S = 1.0


class Loop:
    """The feedback of one server.

    :ivar rec: its record
    :ivar runtime_us: its runtime at the last sample
    :ivar paused: whether something is being done to the server
    :ivar reported: whether Placement is known to agree with the record
    :ivar shrunk_at_s: the time of the last write of a smaller runtime
    :ivar no_room_until_s: until then, it does not try to grow
    """

    def __init__(self, uuid: str, rec: record.Record) -> None:
        self.uuid = uuid
        self.rec = rec
        self.runtime_us = rec.request.reservation.runtime_us
        self.paused = self.reported = False
        self.shrunk_at_s = self.no_room_until_s = 0.0
        assert rec.request.adapt is not None
        self.law = laws.LAWS[rec.request.adapt]()
        self.meter = Meter()
        #: Set by the second thread, which finds it when :attr:`finding`.
        self.source: UsageSource | None = None
        self.finding = False
        self.find_at_s = 0.0
        self.missed = 0
        #: The reason for which it stands still; '' if it does not.
        self.frozen = ''
        self.wanted_us: int | None = None

    def find(self, now_s: float) -> bool:
        """Tell whether its source is to be found now."""
        if now_s >= self.find_at_s:
            self.find_at_s = now_s + _FIND_S
            self.finding = True
        return self.finding

    def forget(self) -> None:
        """Forget the samples."""
        self.missed = 0
        self.meter = Meter()
        self.law.reset()

    def step(self, now_s: float, actual: record.Record) -> bool:
        """Take a sample, and decide.

        :param actual: its record with the present runtime
        :returns: whether there is something to be done, in :attr:`wanted_us`
            or by finding the source
        """
        wanted_us = self._decide(now_s, actual)
        if wanted_us is None:
            return self.find(now_s)
        self.wanted_us = wanted_us
        return True

    def _decide(self, now_s: float, actual: record.Record) -> int | None:
        """Take a sample.

        :returns: the runtime that the server should have; None if it is to
            keep the present one, or there is no sample
        """
        source = self.source
        if source is None:
            self.forget()
            return None
        try:
            found = source.read()
            counters = {cpu: found[cpu] for cpu in actual.cpus}
        except (KeyError, OSError):
            self.missed += 1
            if self.missed >= _MISSED:
                self.source = None
                self.find_at_s = now_s
            return None
        self.missed = 0
        reservation = actual.request.reservation
        self.runtime_us = reservation.runtime_us
        limit = reservation.runtime_us / reservation.period_us
        sample = self.meter.read(
            counters, now_s, limit, reservation.period_us / 1_000_000
        )
        if sample is None:
            self.law.reset()
            return None
        wanted = self.law.step(sample, limit)
        if wanted == limit:
            return None
        runtime_us = self.rec.request.clamp(
            -int(-wanted * reservation.period_us // 1)
        )
        grows = runtime_us > reservation.runtime_us
        if runtime_us == reservation.runtime_us or (
            grows and now_s < self.no_room_until_s
        ):
            return None
        return runtime_us


class Feedback:
    """The feedback of the servers of a host.

    :param manager: the host's :class:`.RTComputeManager`
    :param count: counts an adaptation
    :param note_frozen: takes the number of servers that stand still
    :param clock: says the time, in seconds
    """

    def __init__(
        self,
        manager: Any,
        count: Callable[[Adaptation], None],
        note_frozen: Callable[[int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._manager = manager
        self._reservations = manager.driver.reservations
        self._adapting = manager.driver.running.adapting
        self._count = count
        self._note_frozen = note_frozen
        self._clock = clock
        #: Replaced by the first thread alone.
        self.loops: dict[str, Loop] = {}
        self._known: Any = None
        self._changed = threading.Condition()
        self._queue: collections.deque[Loop] = collections.deque()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(
                target=target, name=f'nova_rt-{name}', daemon=True
            )
            for target, name in (
                (self._sample_for_ever, 'feedback'),
                (self._work_for_ever, 'adapt'),
            )
        ]

    def start(self) -> None:
        """Begin to adapt the servers of this host."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End it; the servers keep their present reservations."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    # The first thread

    def _sample_for_ever(self) -> None:
        due_s = self._clock()
        while not self._stopping.is_set():
            try:
                pause_s = SAMPLE_S if self.sample() else _IDLE_S
            except Exception:
                # Any fault: the others go on, and so does the thread.
                LOG.exception('Could not sample the use of reservations')
                pause_s = _IDLE_S
            now_s = self._clock()
            # In step with the clock; not faster after a delay.
            due_s = max(due_s + pause_s, now_s)
            self._stopping.wait(due_s - now_s)

    def sample(self) -> bool:
        """Take a sample of each server that adapts.

        :returns: whether there is one
        """
        held = self._reservations.held
        slots = held.list_all()
        if slots is not self._known:
            self._follow(slots)
            self._known = slots
        now_s = self._clock()
        boosts = self._manager.rt_boosts
        for loop in self.loops.values():
            if loop.paused or boosts.has(loop.uuid):
                continue
            if loop.step(now_s, held.get_actual(loop.uuid, loop.rec)):
                self._enqueue(loop)
        return bool(self.loops)

    def _follow(self, known: Any) -> None:
        """Take over the present servers and their records."""
        loops = {}
        for uuid, slots in known.items():
            rec = slots.current
            if not isinstance(rec, record.Record) or (
                not rec.request.follows_load
            ):
                continue
            loop = self.loops.get(uuid)
            if loop is None or loop.rec.request.adapt != rec.request.adapt:
                loop = Loop(uuid, rec)
            paused = slots != Slots(rec)
            # Others have changed it, unless it is the one that is recorded.
            actual = self._reservations.held.get_actual(uuid, rec)
            if loop.paused or (
                rec != loop.rec
                and actual.request.reservation.runtime_us != loop.runtime_us
            ):
                loop.forget()
            loop.rec, loop.paused = rec, paused
            loops[uuid] = loop
        self.loops = loops
        self._report_frozen()

    def _enqueue(self, loop: Loop) -> None:
        with self._changed:
            if loop not in self._queue:
                self._queue.append(loop)
                self._changed.notify_all()

    # The second thread

    def _work_for_ever(self) -> None:
        while not self._stopping.is_set():
            with self._changed:
                self._changed.wait_for(
                    lambda: self._queue or self._stopping.is_set()
                )
            self.work()

    def work(self) -> None:
        """Carry out the decisions made until now."""
        while self._queue and not self._stopping.is_set():
            with self._changed:
                loop = self._queue.popleft()
            try:
                if loop.finding:
                    loop.finding = False
                    self._find(loop)
                wanted_us, loop.wanted_us = loop.wanted_us, None
                if wanted_us is not None and loop.source is not None:
                    self._adapt(loop, wanted_us)
            except Exception:
                # Any fault of one server: the others go on.
                LOG.exception(
                    'Could not adapt reservation', instance_uuid=loop.uuid
                )

    def _find(self, loop: Loop) -> None:
        """Find the source of a container again: it may have restarted."""
        uuid = loop.uuid
        try:
            found = self._adapting.find_usage(uuid)
            if found is not None and found.path != (
                loop.source and loop.source.path
            ):
                # It may have started with another reservation.
                actual = self._reservations.held.get_actual(uuid, loop.rec)
                if actual != loop.rec:
                    self._adapting.adapt(uuid, loop.rec, actual)
        except adapting.ERRORS as err:
            loop.source = None
            self._freeze(loop, faults.describe(err))
            return
        if found is not None:
            loop.find_at_s = self._clock() + _FIND_AGAIN_S
        elif not loop.paused:
            self._reservations.note_actual(uuid, None)
        loop.source = found
        self._freeze(loop, '')

    def _freeze(self, loop: Loop, reason: str) -> None:
        """Report that a server does not adapt, once, or that it does again."""
        before, loop.frozen = loop.frozen, reason
        if reason and not before:
            self._reservations.dispatcher.emit(
                events.Frozen(loop.uuid, reason)
            )
        if bool(reason) != bool(before):
            self._report_frozen()

    def _report_frozen(self) -> None:
        self._note_frozen(
            sum(bool(loop.frozen) for loop in self.loops.values())
        )

    def _adapt(self, loop: Loop, runtime_us: int) -> None:
        rec, held = loop.rec, self._reservations.held
        before = held.get_actual(loop.uuid, rec)
        wanted = rec.with_runtime(runtime_us)
        grows = runtime_us > before.request.reservation.runtime_us
        if grows:
            granted = self._claim(loop, wanted)
            if granted is None:
                return
            wanted = granted
        try:
            done = self._adapting.adapt(loop.uuid, rec, wanted)
        except adapting.ERRORS as err:
            LOG.warning(
                'Could not adapt reservation to %s: %s',
                wanted.request.reservation, faults.describe(err),
                instance_uuid=loop.uuid,
            )  # fmt: skip
            self._count(Adaptation.REFUSED)
            self._wait_for_room(loop)
            done = False
        finally:
            self._reservations.stop_growing(loop.uuid)
        if done:
            self._count(Adaptation.GROWN if grows else Adaptation.SHRUNK)
            if not grows:
                loop.shrunk_at_s = self._clock()

    def _claim(
        self, loop: Loop, wanted: record.Record
    ) -> record.Record | None:
        """Claim the need of a server, or as much of it as is free.

        :returns: its record with the runtime that it may have; None if it is
            to stay as it is
        """
        granted: record.Record | None = self._manager.rt.rt_grow(
            loop.uuid, wanted
        )
        if granted != wanted:
            self._count(Adaptation.LIMITED)
            self._wait_for_room(loop)
        return granted

    def _wait_for_room(self, loop: Loop) -> None:
        loop.no_room_until_s = self._clock() + _NO_ROOM_S

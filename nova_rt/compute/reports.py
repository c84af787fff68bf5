# SPDX-License-Identifier: Apache-2.0
"""Reports to nova-rt-conductor what happens on this host and what is used.

Nothing waits for it: a listener notes each event and returns, and a thread of
its own sends. Once a minute the thread asks a conductor what has come, sends
again what has not, and then the whole picture. While none answers, nothing is
sent, so that no queue grows; events are kept, up to a bound.
"""

import collections
from collections.abc import Callable, Mapping
import datetime
import threading
import time
from typing import Any, Protocol

from oslo_log import log as logging

from nova_rt import admission, record
from nova_rt.compute.backlog import BACKLOG, Backlog
from nova_rt.compute.epoch import Epoch
from nova_rt.compute.meter import Meter, Records
from nova_rt.compute.spool import Spool
from nova_rt.formats import messages
from nova_rt.formats.reports import (
    HeldReservation,
    HostCPU,
    HostState,
    NewEvent,
    Position,
    ServerState,
)
from nova_rt.host.capability import Capability

LOG = logging.getLogger(__name__)

#: Seconds between two states.
STATE_S = 60
#: Of so many readings, one is reported before its hour is over.
READINGS = 5
#: Seconds from an event to a state at most.
SOON_S = 5
#: Seconds to wait for more events before sending one.
_GATHER_S = 0.2


class Conductor(Protocol):
    """The calls to :class:`nova_rt.conductor.rpcapi.ConductorAPI`."""

    def get_position(self, epoch: int) -> Position | None: ...

    def report_state(
        self, epoch: int, seq: int, state: dict[str, Any]
    ) -> None: ...

    def report_events(self, epoch: int, events: dict[str, Any]) -> None: ...

    def report_earlier_events(
        self, epoch: int, events: dict[str, Any]
    ) -> bool | None: ...

    def report_usage(self, usage: dict[str, Any]) -> bool | None: ...


class Source(Protocol):
    """The members of :mod:`nova_rt.virt.libvirt.reservations` used here."""

    adopted: bool
    capability: Capability
    held: Records

    def capacity(self) -> admission.Capacity: ...


class Running(Protocol):
    """The members of :mod:`nova_rt.virt.libvirt.running` used here."""

    def list_running(self) -> set[str]: ...


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Reporter:
    """Sends the reports of this host.

    :param conductor: where to
    :param source: the reservations of this host
    :param running: its running containers
    :param backlog: a listener of the source's events
    :param epoch: of this start of the service
    :param spool: file of events, over restarts of the service
    :param version: of nova_rt
    :param meter: of what servers use; a listener of the source's events
    :param usage_interval: seconds between two readings of it; 0 for none
    """

    def __init__(
        self,
        conductor: Conductor,
        source: Source,
        running: Running,
        backlog: Backlog,
        epoch: Epoch,
        spool: Spool,
        version: str,
        meter: Meter,
        usage_interval: int,
    ) -> None:
        self._conductor = conductor
        self._source = source
        self._running = running
        self._backlog = backlog
        self._epoch = epoch
        self._spool = spool
        #: Events that were not confirmed when the service ended.
        self._earlier = spool.read(BACKLOG)
        self._spooled_seq = self._spooled = 0
        self._version = version
        self._meter = meter
        self._usage_interval = usage_interval
        self._readings = 0
        #: Whether the conductor knows nothing of usage.
        self._too_old = False
        self._started = _now()
        #: None before it was tried.
        self._answers: bool | None = None
        self._sent_seq = 0
        self._state_seq = 0
        self._stopping = False

    def start(self) -> None:
        """Send from now on, in a thread."""
        threading.Thread(
            target=self._run, name='nova-rt-reports', daemon=True
        ).start()

    def stop(self) -> None:
        """Send no more, and keep what was not sent; does not wait."""
        self._stopping = True
        self._backlog.news.set()
        self._keep_news()

    def _run(self) -> None:
        state_s = usage_s = time.monotonic()
        while not self._stopping:
            now_s = time.monotonic()
            if now_s >= state_s:
                self._safely(self.report)
                state_s = now_s + STATE_S
            if self._usage_interval and now_s >= usage_s:
                self._safely(self.report_usage)
                usage_s = now_s + self._usage_interval
            due_s = state_s
            if self._usage_interval:
                due_s = min(due_s, usage_s)
            if self._backlog.news.wait(max(0.0, due_s - time.monotonic())):
                time.sleep(_GATHER_S)
                self._backlog.news.clear()
                self._keep_news()
                self._safely(self.report_news)
                # What the host has reserved has changed, too.
                state_s = min(state_s, time.monotonic() + SOON_S)

    def _safely(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as err:
            # Of the message bus, mostly. Sent again in a minute.
            self._note_answer(False, err)

    def _note_answer(self, answers: bool, why: object = None) -> None:
        if answers is self._answers:
            return
        if not answers:
            LOG.warning(
                'Cannot report to nova-rt-conductor: %s. Events are kept and '
                'reported when one answers; servers are not affected.', why,
            )  # fmt: skip
        elif self._answers is not None:
            LOG.info('Reports to nova-rt-conductor again')
        self._answers = answers

    def report(self) -> None:
        """Ask what has come, send the rest, and the whole picture."""
        self._keep_news()
        position = self._conductor.get_position(self._epoch.number)
        if position is None:
            self._note_answer(False, 'its database takes no reports')
            return
        if position.epoch > self._epoch.number:
            # Our file was lost, and the clock was ahead once.
            self._backlog.renumber()
            self._spooled_seq = 0
            self._epoch.raise_to(position.epoch + 1)
            self._state_seq = 0
            position = Position(self._epoch.number, 0)
        self._note_answer(True)
        self._backlog.acknowledge(position.event_seq)
        self._report_earlier()
        self._keep_the_rest()
        self._sent_seq = position.event_seq
        self.report_news()
        if self._source.adopted:
            self._state_seq += 1
            self._conductor.report_state(
                self._epoch.number,
                self._state_seq,
                messages.write_state(self.make_state()),
            )

    def _keep_news(self) -> None:
        """Write the events that came since the last time to the spool."""
        new = self._backlog.list_after(self._spooled_seq)
        self._spool.append(self._epoch.number, new)
        if new:
            self._spooled_seq = new[-1].seq
            self._spooled += len(new)
        if self._spooled > BACKLOG:
            self._keep_the_rest()

    def _keep_the_rest(self) -> None:
        """Keep in the spool what no conductor has confirmed, and no more."""
        rest = {
            **self._earlier,
            self._epoch.number: self._backlog.list_after(0),
        }
        self._spool.replace(rest)
        self._spooled = 0

    def _report_earlier(self) -> None:
        """Send what earlier starts of this service had left."""
        for epoch, left in list(self._earlier.items()):
            while left:
                part = left[: messages.MAX_EVENTS]
                if not self._conductor.report_earlier_events(
                    epoch, messages.write_events(part, part[0].seq - 1)
                ):
                    return
                del left[: len(part)]
            del self._earlier[epoch]

    def report_news(self) -> None:
        """Send the events that were not sent yet."""
        if not self._answers:
            return
        new = self._backlog.list_after(self._sent_seq)
        for start in range(0, len(new), messages.MAX_EVENTS):
            part = new[start : start + messages.MAX_EVENTS]
            self._conductor.report_events(
                self._epoch.number,
                messages.write_events(part, self._backlog.dropped_seq),
            )
            self._sent_seq = part[-1].seq

    def report_usage(self) -> None:
        """Read what was used; send the hours that are over, sometimes all."""
        if not self._source.adopted:
            return
        self._meter.read()
        if not self._answers:
            return
        hours = self._meter.list_hours(closed=self._readings % READINGS > 0)
        self._readings += 1
        for start in range(0, len(hours), messages.MAX_ACCOUNTS):
            part = hours[start : start + messages.MAX_ACCOUNTS]
            taken = self._conductor.report_usage(messages.write_usage(part))
            if taken is None and not self._too_old:
                LOG.warning(
                    'nova-rt-conductor is older than this service: what '
                    'servers use is kept until it is upgraded'
                )
            self._too_old = taken is None
            if not taken:
                return
            self._meter.settle(part)

    def make_state(self) -> HostState:
        """Draw the whole picture of this host.

        :returns: the state
        """
        # First: what comes later may be in the picture as well.
        event_seq = self._backlog.seq
        changes = self._backlog.find_changes()
        running = self._running.list_running()
        records = self._source.held.list_records()
        capacity = self._source.capacity()
        capability = self._source.capability
        reserved = reserved_ppm(records)
        whole = None
        if capacity.host_ppm is not None:
            whole = HostCPU(capacity.host_ppm, sum(reserved.values()))
        return HostState(
            epoch=self._epoch.number,
            seq=self._state_seq,
            event_seq=event_seq,
            version=self._version,
            interface=capability.name,
            enforcement=capability.enforcement.value,
            scope=capability.scope.value,
            cpus={
                cpu: HostCPU(ppm, reserved[cpu])
                for cpu, ppm in capacity.cpus.items()
            },
            host_cpu=whole,
            servers=tuple(
                self._hold(uuid, rec, uuid in running, changes.get(uuid))
                for uuid, rec in records.items()
            ),
        )

    def _hold(
        self,
        uuid: str,
        rec: record.Record,
        runs: bool,
        change: NewEvent | None,
    ) -> HeldReservation:
        """Say what a server is doing, by its last event and by libvirt."""
        if runs:
            states = {ServerState.APPLIED, ServerState.DRIFTED}
            other = ServerState.APPLIED
        else:
            states = {ServerState.CLAIMED, ServerState.STOPPED}
            other = ServerState.CLAIMED
        if change is not None and change.state in states:
            return HeldReservation(uuid, rec, change.state, change.at)
        since = self._started if change is None else _now()
        return HeldReservation(uuid, rec, other, since)


def reserved_ppm(
    records: Mapping[str, record.Record],
) -> collections.Counter[int]:
    """Add up what servers hold on each CPU.

    :returns: CPU -> ppm of it
    """
    total: collections.Counter[int] = collections.Counter()
    for rec in records.values():
        for claim in rec.claims:
            for cpu in claim.cpus:
                total[cpu] += claim.ppm
    return total

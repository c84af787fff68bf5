# SPDX-License-Identifier: Apache-2.0
"""Reports to nova-rt-conductor what happens on this host and what is used.

Nothing waits for it: a listener notes each event and returns, and a thread of
its own sends. Once a minute the thread asks a conductor what has come, sends
again what has not, and then the whole picture. While none answers, nothing is
sent, so that no queue grows; events are kept, up to a bound.

The order of reports does not hang on clocks. Each start of the service is an
epoch, higher than the last, which a file keeps; events and states are
numbered in it.
"""

import collections
from collections.abc import Callable, Iterator, Mapping
import datetime
import os
import pathlib
import threading
import time
from typing import Any, Protocol
import urllib.parse

import libvirt
from oslo_log import log as logging

from nova_rt import admission, cpulist, events, record
from nova_rt.conductor import messages
from nova_rt.db.objects import (
    Held,
    HostCPU,
    HostSample,
    NewEvent,
    Position,
    Sample,
    ServerState,
    State,
)
from nova_rt.host.capability import Capability
from nova_rt.host.interface import Usage

LOG = logging.getLogger(__name__)

#: Seconds between two states.
STATE_S = 60
#: Seconds from an event to a state at most.
SOON_S = 5
#: Events to keep while no conductor answers.
BACKLOG = 10_000
#: Seconds to wait for more events before sending one.
_GATHER_S = 0.2

_STATES = {
    events.Claimed: ServerState.CLAIMED,
    events.Applied: ServerState.APPLIED,
    events.Drifted: ServerState.DRIFTED,
    events.Repaired: ServerState.APPLIED,
    events.Stopped: ServerState.STOPPED,
    events.Released: ServerState.RELEASED,
}


class Conductor(Protocol):
    """What is called of :class:`nova_rt.conductor.rpcapi.ConductorAPI`."""

    def get_position(self, epoch: int) -> Position | None: ...

    def report_state(
        self, epoch: int, seq: int, state: dict[str, Any]
    ) -> None: ...

    def report_events(self, epoch: int, events: dict[str, Any]) -> None: ...

    def report_samples(self, samples: dict[str, Any]) -> None: ...


class Source(Protocol):
    """What is read of :class:`nova_rt.virt.libvirt.reservations`."""

    adopted: bool
    capability: Capability

    def capacity(self) -> admission.Capacity: ...

    def list_records(self) -> Mapping[str, record.Record]: ...

    def list_running(self) -> set[str]: ...

    def read_usage(self, uuid: str) -> Mapping[int, Usage] | None: ...


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Backlog:
    """A listener that numbers events, and keeps them until they have come.

    :ivar dropped_seq: events up to this one are gone
    :ivar seq: number of the last event
    """

    def __init__(self, clock: Callable[[], datetime.datetime] = _now) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: collections.deque[NewEvent] = collections.deque()
        self._changes: dict[str, NewEvent] = {}
        self._full = False
        self.dropped_seq = 0
        self.seq = 0
        self.news = threading.Event()

    def __call__(self, event: events.Event) -> None:
        """Keep an event; if there are too many, drop the oldest."""
        with self._lock:
            self.seq += 1
            new = NewEvent(
                self.seq,
                self._clock(),
                event.uuid,
                event.kind,
                messages.clean(_describe(event)),
                _STATES.get(type(event)),
                event.held,
            )
            self._kept.append(new)
            if new.state is ServerState.RELEASED:
                self._changes.pop(event.uuid, None)
            elif new.state is not None:
                self._changes[event.uuid] = new
            if len(self._kept) > BACKLOG:
                self.dropped_seq = self._kept.popleft().seq
                first = not self._full
                self._full = True
            else:
                first = False
        if first:
            LOG.warning(
                'More than %d events wait for a conductor: the oldest are '
                'dropped', BACKLOG,
            )  # fmt: skip
        self.news.set()

    def acknowledge(self, seq: int) -> None:
        """Forget the events up to this one.

        They are gone, should a database that was restored ask for them.
        """
        with self._lock:
            while self._kept and self._kept[0].seq <= seq:
                self._kept.popleft()
            self.dropped_seq = max(self.dropped_seq, seq)
            self._full = self._full and len(self._kept) >= BACKLOG

    def list_after(self, seq: int) -> list[NewEvent]:
        """List the events that are kept, without those up to this one."""
        with self._lock:
            return [each for each in self._kept if each.seq > seq]

    def find_changes(self) -> dict[str, NewEvent]:
        """Look up the last event that said what a server is doing.

        :returns: UUID -> event; none for a server that was released
        """
        with self._lock:
            return dict(self._changes)

    def renumber(self) -> None:
        """Number what is kept from 1, for a new epoch."""
        with self._lock:
            kept = [
                NewEvent(number, *_rest(each))
                for number, each in enumerate(self._kept, 1)
            ]
            self._kept = collections.deque(kept)
            self.seq = len(kept)
            self.dropped_seq = 0


def _rest(event: NewEvent) -> tuple[Any, ...]:
    return (
        event.at, event.uuid, event.kind, event.details, event.state,
        event.record,
    )  # fmt: skip


def _describe(event: events.Event) -> str:
    if isinstance(event, events.Refused):
        return f'{event.action}: {event.reason}'
    if event.details or event.held is None:
        return event.details
    request = event.held.request
    return (
        f'{request.reservation} us ({request.reservation.ppm} ppm) on CPU '
        f'{cpulist.render(event.held.cpus)}'
    )


class Epoch:
    """The number of this start of the service.

    :param path: file that keeps the last one
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        try:
            last = int(path.read_text())
        except FileNotFoundError:
            last = 0
        except (OSError, ValueError) as err:
            # The conductor knows the last one, too.
            LOG.warning('Cannot read %s: %s', path, err)
            last = 0
        self.number = 0
        self.raise_to(max(last + 1, int(time.time())))

    def raise_to(self, number: int) -> None:
        """Become another, higher epoch."""
        self.number = number
        new = self._path.with_suffix('.new')
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(f'{number}\n')
            os.replace(new, self._path)
        except OSError as err:
            LOG.warning('Cannot write %s: %s', self._path, err)


def epoch_path(state_path: str, host: str) -> pathlib.Path:
    """Name the file of an epoch.

    :param state_path: Nova's
    :param host: name of this host
    :returns: a file that two hosts of one directory do not share
    """
    name = urllib.parse.quote(host, safe='')
    return pathlib.Path(state_path) / 'nova_rt' / f'epoch-{name}'


class Sampler:
    """Computes what was used since the last time.

    :param source: the reservations of this host
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._last: dict[str, tuple[float, Mapping[int, Usage] | None]] = {}
        self._last_s: float | None = None

    def take(
        self, now: datetime.datetime, now_s: float
    ) -> tuple[dict[str, list[Sample]], list[HostSample]]:
        """Read the kernel's counters.

        :param now: the time
        :param now_s: seconds of a clock that does not jump
        :returns: samples of each server that ran all the time or was started
            meanwhile, and of the host; none at the first time
        """
        records = self._source.list_records()
        running = self._source.list_running()
        last, self._last = self._last, {}
        found = {}
        for uuid in records.keys() & running:
            try:
                usage = self._source.read_usage(uuid)
            except (OSError, libvirt.libvirtError):
                continue  # It is ending, or verification says more.
            self._last[uuid] = now_s, usage
            if uuid in last:
                before_s, before = last[uuid]
                found[uuid] = list(
                    _compare(records[uuid], now, now_s - before_s, before,
                             usage)
                )  # fmt: skip
        first_s, self._last_s = self._last_s, now_s
        if first_s is None:
            return {}, []
        return found, self._sum(records, found, now, now_s - first_s)

    def _sum(
        self,
        records: Mapping[str, record.Record],
        found: Mapping[str, list[Sample]],
        now: datetime.datetime,
        span_s: float,
    ) -> list[HostSample]:
        span_us = int(span_s * 1_000_000)
        reserved = reserved_ppm(records)
        used: dict[int, int | None] = collections.defaultdict(int)
        for sample in (each for some in found.values() for each in some):
            so_far = used[sample.cpu]
            if so_far is None or sample.used_us is None:
                used[sample.cpu] = None
            else:
                used[sample.cpu] = so_far + sample.used_us
        at = now - datetime.timedelta(microseconds=span_us)
        return [
            HostSample(
                at, cpu, span_us, span_us * ppm // 1_000_000,
                span_us * reserved[cpu] // 1_000_000, used[cpu],
            )
            for cpu, ppm in self._source.capacity().cpus.items()
        ]  # fmt: skip


def _compare(
    rec: record.Record,
    now: datetime.datetime,
    span_s: float,
    before: Mapping[int, Usage] | None,
    usage: Mapping[int, Usage] | None,
) -> Iterator[Sample]:
    span_us = int(span_s * 1_000_000)
    at = now - datetime.timedelta(microseconds=span_us)
    reserved_us = span_us * rec.request.reservation.ppm // 1_000_000
    for cpu in rec.cpus:
        if usage is None or cpu not in usage:
            yield Sample(at, cpu, span_us, reserved_us, None, None, None)
            continue
        new = usage[cpu]
        old = (before or {}).get(cpu)
        if old is None or new.used_us < old.used_us:
            # The group was made anew.
            old = Usage(0, 0, 0)
        yield Sample(
            at, cpu, span_us, reserved_us, new.used_us - old.used_us,
            _since(old.periods, new.periods),
            _since(old.throttled, new.throttled),
        )  # fmt: skip


def _since(old: int | None, new: int | None) -> int | None:
    return None if new is None else max(0, new - (old or 0))


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


class Reporter:
    """Sends the reports of this host.

    :param conductor: where to
    :param source: the reservations of this host
    :param backlog: a listener of the source's events
    :param epoch: of this start of the service
    :param version: of nova_rt
    :param metrics_interval: seconds between two samples; 0 for none
    """

    def __init__(
        self,
        conductor: Conductor,
        source: Source,
        backlog: Backlog,
        epoch: Epoch,
        version: str,
        metrics_interval: int,
    ) -> None:
        self._conductor = conductor
        self._source = source
        self._backlog = backlog
        self._epoch = epoch
        self._version = version
        self._metrics_interval = metrics_interval
        self._sampler = Sampler(source)
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
        """Send no more; does not wait."""
        self._stopping = True
        self._backlog.news.set()

    def _run(self) -> None:
        state_s = sample_s = time.monotonic()
        while not self._stopping:
            now_s = time.monotonic()
            if now_s >= state_s:
                self._safely(self.report)
                state_s = now_s + STATE_S
            if self._metrics_interval and now_s >= sample_s:
                self._safely(self.report_samples)
                sample_s = now_s + self._metrics_interval
            due_s = state_s
            if self._metrics_interval:
                due_s = min(due_s, sample_s)
            if self._backlog.news.wait(max(0.0, due_s - time.monotonic())):
                time.sleep(_GATHER_S)
                self._backlog.news.clear()
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
        position = self._conductor.get_position(self._epoch.number)
        if position is None:
            self._note_answer(False, 'its database takes no reports')
            return
        if position.epoch > self._epoch.number:
            # Our file was lost, and the clock was ahead once.
            self._backlog.renumber()
            self._epoch.raise_to(position.epoch + 1)
            self._state_seq = 0
            position = Position(self._epoch.number, 0)
        self._note_answer(True)
        self._backlog.acknowledge(position.event_seq)
        self._sent_seq = position.event_seq
        self.report_news()
        if self._source.adopted:
            self._state_seq += 1
            self._conductor.report_state(
                self._epoch.number,
                self._state_seq,
                messages.write_state(self.make_state()),
            )

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

    def report_samples(self) -> None:
        """Send what was used since the last time; lost if none listens."""
        if not self._source.adopted:
            return
        of_servers, of_host = self._sampler.take(_now(), time.monotonic())
        if self._answers and of_host:
            self._conductor.report_samples(
                messages.write_samples(of_servers, of_host)
            )

    def make_state(self) -> State:
        """Draw the whole picture of this host.

        :returns: the state
        """
        # First: what comes later may be in the picture as well.
        event_seq = self._backlog.seq
        changes = self._backlog.find_changes()
        running = self._source.list_running()
        records = self._source.list_records()
        capacity = self._source.capacity()
        capability = self._source.capability
        reserved = reserved_ppm(records)
        whole = None
        if capacity.host_ppm is not None:
            whole = HostCPU(capacity.host_ppm, sum(reserved.values()))
        return State(
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
    ) -> Held:
        """Say what a server is doing, by its last event and by libvirt."""
        if runs:
            states = {ServerState.APPLIED, ServerState.DRIFTED}
            other = ServerState.APPLIED
        else:
            states = {ServerState.CLAIMED, ServerState.STOPPED}
            other = ServerState.CLAIMED
        if change is not None and change.state in states:
            return Held(uuid, rec, change.state, change.at)
        since = self._started if change is None else _now()
        return Held(uuid, rec, other, since)

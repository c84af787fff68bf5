# SPDX-License-Identifier: Apache-2.0
"""Measures what servers hold and use on this host, hour by hour.

The kernel counts from the start of each container. The meter keeps the counts
that it has read, in a file as well, so that a restart of this service neither
loses nor doubles anything: what was used meanwhile is in the next reading.
Bandwidth counts from its claim to its release, whether the container runs or
not.

How long something lasts is measured by the clock since boot, which does not
jump. The wall clock says which hour it was.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import threading
from typing import Protocol

from oslo_log import log as logging

from nova_rt import events
from nova_rt.compute import meter_file
from nova_rt.compute.ledger import HOUR_US, Amounts, Ledger
from nova_rt.compute.meter_file import (
    Clock,
    Kept,
    Metered,
    MeterFile,
    Moment,
)
from nova_rt.formats.reports import ServerHour
from nova_rt.host.interface import Counted, Usage
from nova_rt.lxc import domains
from nova_rt.reservation import record

LOG = logging.getLogger(__name__)


class Records(Protocol):
    """The members of :class:`nova_rt.tracking.claims.Held` used here."""

    def claims(self) -> Mapping[str, Sequence[record.Record]]: ...

    def list_claims(self) -> list[record.Record]: ...

    def list_records(self) -> Mapping[str, record.Record]: ...


class Running(Protocol):
    """The members of :mod:`nova_rt.virt.libvirt.running` used here."""

    def list_running(self) -> set[str]: ...

    def read_counted(self, uuid: str) -> Counted | None: ...


class Meter:
    """Keeps the hours of this host's servers; a listener of events.

    Any thread may call any method.

    :param records: those of this host's servers
    :param running: its running containers
    :param file: keeps what was read
    :param clock: of this host
    """

    def __init__(
        self,
        records: Records,
        running: Running,
        file: MeterFile,
        clock: Clock,
    ) -> None:
        self._records = records
        self._running = running
        self._file = file
        self._clock = clock
        #: Of whoever reads or writes: libvirt or a disk may hang.
        self._reading = threading.Lock()
        #: Of the state; held for moments.
        self._lock = threading.Lock()
        self._failing = self._blind = False
        kept = None
        try:
            kept = file.read(clock)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, LookupError) as err:
            LOG.warning(
                'Cannot read %s (%s): usage since it was written is '
                'not counted', file.path, err,
            )  # fmt: skip
        #: Whether containers may have run for long before they were measured.
        self._fresh = kept is None
        if kept is None:
            now = Moment(clock.wall_us(), clock.running_us())
            kept = Kept(now.wall_us // 1_000_000, now, {}, Ledger())
        # The hours of one meter only grow. Where they would begin anew there
        # is another meter, with a higher number.
        self._number, self._now = kept.number, kept.now
        self._servers, self._ledger = kept.servers, kept.ledger

    def __call__(self, event: events.Event) -> None:
        """Note that a server holds more or less from now on."""
        if not isinstance(
            event,
            events.Claimed | events.Added | events.Dropped | events.Released,
        ):
            return
        with self._lock:
            self._look_at_clock()
            server = self._servers.get(event.uuid)
            if server is not None:
                self._hold(event.uuid, server)
            ppm = event.record.total_ppm
            if isinstance(event, events.Released):
                self._servers.pop(event.uuid, None)
            elif server is None:
                self._servers[event.uuid] = self._begin(ppm)
            elif isinstance(event, events.Claimed):
                server.held_ppm = ppm
            elif isinstance(event, events.Added):
                server.held_ppm += ppm
            else:
                server.held_ppm = max(0, server.held_ppm - ppm)

    def read(self) -> None:
        """Read all counts, and keep them."""
        with self._reading:
            with self._lock:
                known = set(self._servers)
            records = self._records.claims()
            running = self._list_running()
            if running is None:
                return
            counted = {
                uuid: self._read(uuid) for uuid in records.keys() & running
            }
            with self._lock:
                self._take(known, records, counted)
            self._keep()

    def _take(
        self,
        known: set[str],
        records: Mapping[str, Sequence[record.Record]],
        counted: Mapping[str, Counted | None],
    ) -> None:
        """Take a whole reading; with the lock.

        :param known: servers that were known before it
        :param counted: of containers that run
        """
        self._look_at_clock()
        for uuid in known - records.keys():
            # While this service was down.
            self._servers.pop(uuid, None)
        for uuid, rec in records.items():
            ppm = sum(each.total_ppm for each in rec)
            server = self._servers.setdefault(uuid, self._begin(ppm))
            self._hold(uuid, server)
            server.held_ppm = ppm
            if uuid in counted:
                self._count(uuid, server, counted[uuid])
            else:
                server.counted, server.counted_to = None, self._now
        self._fresh = False

    def read_last(self, uuid: str) -> None:
        """Read the counts of a container that is about to be stopped."""
        with self._lock:
            if uuid not in self._servers:
                return
        with self._reading:
            counted = self._read(uuid)
            with self._lock:
                server = self._servers.get(uuid)
                if server is None:
                    return
                self._look_at_clock()
                self._count(uuid, server, counted)
            self._keep()

    def list_hours(self, closed: bool = False) -> list[ServerHour]:
        """List the hours that no conductor has taken for good.

        :param closed: only those that are over
        :returns: in the order in which they began
        """
        with self._lock:
            if closed:
                return self._ledger.list_closed(self._now.wall_us)
            return self._ledger.list_all()

    def settle(self, taken: Sequence[ServerHour]) -> None:
        """Forget the hours that are over and that a conductor has taken."""
        with self._lock:
            self._ledger.settle(taken, self._now.wall_us)

    def _list_running(self) -> set[str] | None:
        try:
            running = self._running.list_running()
        except domains.ERRORS as err:
            if not self._blind:
                LOG.warning(
                    'Cannot read the usage of servers: %s. It is read '
                    'when libvirt answers.', err,
                )  # fmt: skip
            self._blind = True
            return None
        self._blind = False
        return running

    def _read(self, uuid: str) -> Counted | None:
        try:
            return self._running.read_counted(uuid)
        except (OSError, *domains.ERRORS):
            return None  # It is ending, or verification says more.

    def _keep(self) -> None:
        """Write the file."""
        with self._lock:
            dropped = self._ledger.shorten()
            # Events must not wait while all of it is made a text.
            kept = Kept(
                self._number, self._now,
                {
                    uuid: dataclasses.replace(server)
                    for uuid, server in self._servers.items()
                },
                self._ledger.copy(),
            )  # fmt: skip
        if dropped:
            LOG.warning(
                '%d hours of servers are dropped that no conductor has taken',
                dropped,
            )
        try:
            self._file.write(meter_file.render(kept, self._clock.boot))
        except OSError as err:
            if not self._failing:
                LOG.warning('Cannot write %s: %s', self._file.path, err)
            self._failing = True
        else:
            self._failing = False

    # All that follows is called with the lock.

    def _look_at_clock(self) -> None:
        wall_us = self._clock.wall_us()
        running_us = self._clock.running_us()
        if wall_us < self._now.wall_us - HOUR_US:
            # A clock that was wrong was set right: hours come again.
            self._number = max(self._number + 1, wall_us // 1_000_000)
        else:
            wall_us = max(wall_us, self._now.wall_us)
        self._now = Moment(wall_us, running_us)

    def _begin(self, held_ppm: int) -> Metered:
        return Metered(held_ppm, self._now, None, self._now)

    def _hold(self, uuid: str, server: Metered) -> None:
        """Add what a server has held since it was looked at."""
        lasted_us = self._now.running_us - server.held_to.running_us
        new = Amounts(server.held_ppm * lasted_us)
        self._add(uuid, server.held_to, new)
        server.held_to = self._now

    def _count(
        self, uuid: str, server: Metered, found: Counted | None
    ) -> None:
        """Add what a container has used since it was read."""
        if found is None:
            return
        old = server.counted
        if old is not None or not self._fresh:
            self._add(uuid, server.counted_to, _since(old, found))
        if old is not None and old.container == found.container:
            # A CPU that is not counted now may come back with its count.
            found = Counted(found.container, {**old.cpus, **found.cpus})
        server.counted, server.counted_to = found, self._now

    def _add(self, uuid: str, since: Moment, new: Amounts) -> None:
        lasted_us = self._now.running_us - since.running_us
        begin_us = max(since.wall_us, self._now.wall_us - lasted_us)
        end_us = self._now.wall_us
        self._ledger.add(
            self._number, uuid, min(begin_us, end_us), end_us, new
        )


def _since(old: Counted | None, new: Counted) -> Amounts:
    """Return what was counted since a reading; all of a new container."""
    before: Mapping[int, Usage] = {}
    if old is not None and old.container == new.container:
        before = old.cpus
    total = Amounts()
    for cpu, now in new.cpus.items():
        was = before.get(cpu)
        if was is None or now.used_us < was.used_us:
            # The group was made anew.
            was = Usage(0, 0, 0)
        total += Amounts(
            0,
            now.used_us - was.used_us,
            _difference(was.periods, now.periods),
            _difference(was.throttled, now.throttled),
        )
    return total


def _difference(old: int | None, new: int | None) -> int | None:
    return None if new is None else max(0, new - (old or 0))

# SPDX-License-Identifier: Apache-2.0
"""Plain values that go into the database and come out of it.

Times have a time zone, UTC.
"""

from collections.abc import Mapping
import dataclasses
import datetime

from nova_rt.formats.reports import HostCPU, Origin
from nova_rt.reservation.extra_specs import Plain

# What is read


@dataclasses.dataclass(frozen=True)
class ReportedHost:
    """A compute host, by its last report.

    :ivar interface: name of the kernel's interface
    :ivar enforcement: ``guarantee`` or ``limit``
    :ivar scope: ``cpu`` or ``host``: over what the kernel sums
    :ivar cpus: CPU -> its bandwidth
    :ivar host_ppm: capacity where the kernel sums over the host, else None
    :ivar host_reserved_ppm: what servers hold of that, else None
    :ivar epoch: grows at each start of the compute service
    :ivar last_report_at: by the clock of the conductor
    :ivar repairs: since the first report of this host
    :ivar refusals: since the first report of this host
    :ivar lost_events: events that the compute service had to drop because
        no conductor answered for too long
    :ivar version: of nova_rt on the host
    """

    name: str
    interface: str
    enforcement: str
    scope: str
    cpus: Mapping[int, HostCPU]
    host_ppm: int | None
    host_reserved_ppm: int | None
    epoch: int
    last_report_at: datetime.datetime
    repairs: int
    refusals: int
    lost_events: int
    version: str


@dataclasses.dataclass(frozen=True)
class ReportedServer:
    """The reservation that a server holds on a host, or held there last.

    :ivar specs: values of the extra specs that it was reported with, by field
        of :class:`nova_rt.reservation.extra_specs.ExtraSpecs`
    :ivar ppm: bandwidth on each of its CPUs, in ppm of a CPU
    :ivar state: a :class:`ServerState`
    :ivar since: when it came into that state
    """

    uuid: str
    host: str
    specs: Mapping[str, Plain]
    ppm: int
    vcpus: int
    cpus: tuple[int, ...]
    state: str
    since: datetime.datetime

    @property
    def reservation(self) -> str:
        """Runtime and period in microseconds, as flavors have them."""
        return str(self.specs['reservation'])

    @property
    def total_ppm(self) -> int:
        """Bandwidth on all of its CPUs."""
        return len(self.cpus) * self.ppm


@dataclasses.dataclass(frozen=True)
class HistoryEntry:
    """One event of a server's reservation.

    :ivar id: pass it as ``marker`` to read on behind this entry
    :ivar at: by the clock of the host
    :ivar kind: name of the event in lower case, such as ``claimed``
    :ivar details: a sentence
    :ivar by: the program that reported it
    """

    id: int
    at: datetime.datetime
    host: str
    kind: str
    details: str
    by: str
    origin: Origin = dataclasses.field(default_factory=Origin)


@dataclasses.dataclass(frozen=True)
class Usage:
    """CPU time that a server held and used on a host.

    :ivar hours: number of hours in which it held something there
    :ivar reserved_us: CPU time that it was entitled to, running or not
    :ivar used_us: CPU time for which its real-time tasks ran; None where the
        kernel does not count it
    :ivar periods: budgets that it was given; None as above
    :ivar throttled: budgets that it used up; None as above
    """

    server: str
    host: str
    hours: int
    reserved_us: int
    used_us: int | None
    periods: int | None
    throttled: int | None


@dataclasses.dataclass(frozen=True)
class HourUsage(Usage):
    """The same of one hour.

    :ivar at: begin of the hour
    """

    at: datetime.datetime


# What is written


@dataclasses.dataclass(frozen=True)
class Retention:
    """The times for which usage and history are kept.

    :ivar history: events, released servers, and hosts that do not report
    """

    usage: datetime.timedelta
    history: datetime.timedelta

# SPDX-License-Identifier: Apache-2.0
"""The values that reports of a compute service are made of.

Times have a time zone, UTC. How they go over the bus is in
:mod:`nova_rt.formats.messages`.
"""

from collections.abc import Mapping
import dataclasses
import datetime
import enum

from nova_rt.reservation.record import Record


class ServerState(enum.StrEnum):
    """The state of a server's reservation on a host."""

    #: The server holds bandwidth; no container runs with it.
    CLAIMED = 'claimed'
    #: The container runs, and the kernel holds its reservation.
    APPLIED = 'applied'
    #: The container runs without its reservation.
    DRIFTED = 'drifted'
    #: nova-rt-compute has stopped the container, which cannot have it.
    STOPPED = 'stopped'
    #: The server holds nothing on the host any more.
    RELEASED = 'released'


@dataclasses.dataclass(frozen=True)
class HostCPU:
    """Bandwidth of a CPU, in ppm.

    :ivar capacity_ppm: what can be promised in all
    :ivar reserved_ppm: what servers hold of it
    """

    capacity_ppm: int
    reserved_ppm: int


@dataclasses.dataclass(frozen=True)
class Origin:
    """The request in which something happened; '' for what is not known.

    :ivar user_id: of whoever has sent it; '' for Nova's own periodic tasks
    """

    request_id: str = ''
    user_id: str = ''
    project_id: str = ''


@dataclasses.dataclass(frozen=True)
class Position:
    """The position up to which the conductors have a host's reports.

    :ivar epoch: the highest that has reported; 0 before the first report
    :ivar event_seq: all events of the epoch that was asked for are there up
        to this one
    """

    epoch: int
    event_seq: int


@dataclasses.dataclass(frozen=True)
class HeldReservation:
    """The reservation that a server holds on the host that reports.

    :ivar state: any but ``released``
    """

    uuid: str
    record: Record
    state: ServerState
    since: datetime.datetime


@dataclasses.dataclass(frozen=True)
class HostState:
    """The whole picture of a host.

    :ivar epoch: grows at each start of the compute service
    :ivar seq: grows with each state of an epoch
    :ivar event_seq: the last event that the picture has in it
    :ivar host_cpu: capacity and what is reserved, where the kernel sums over
        the host
    """

    epoch: int
    seq: int
    event_seq: int
    version: str
    interface: str
    enforcement: str
    scope: str
    cpus: Mapping[int, HostCPU]
    host_cpu: HostCPU | None
    servers: tuple[HeldReservation, ...]


@dataclasses.dataclass(frozen=True)
class NewEvent:
    """An event as a compute service reports it.

    :ivar seq: 1, 2, 3 ... in an epoch
    :ivar state: what the server's reservation is doing since the event; None
        if the event does not change it
    :ivar record: what the server holds; None if the event does not say
    """

    seq: int
    at: datetime.datetime
    uuid: str
    kind: str
    details: str
    state: ServerState | None = None
    record: Record | None = None
    origin: Origin = Origin()


@dataclasses.dataclass(frozen=True)
class ServerHour:
    """The account of one server and hour on the host that reports.

    Amounts only grow until the hour is over; a later report replaces what is
    there.

    :ivar meter: number of the file that counts; those of several add up
    :ivar hour: hours since 1970
    :ivar reserved_us: see :class:`Usage`, as the rest
    """

    meter: int
    uuid: str
    hour: int
    reserved_us: int
    used_us: int | None
    periods: int | None
    throttled: int | None

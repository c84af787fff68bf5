# SPDX-License-Identifier: Apache-2.0
"""The reservations of one host according to each source.

Plain values: ``reading`` makes them, ``compare`` and ``published`` judge them.
A text where a value is expected says why it cannot be read.
"""

from collections.abc import Mapping
import dataclasses
import enum

from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request


@dataclasses.dataclass(frozen=True)
class NovaServer:
    """A real-time server that Nova has on the host.

    :ivar asked: the request of its flavor and hints; None if the hints that it
        was created with are not kept any more
    :ivar record: its record
    :ivar busy: whether something is being done to it, so that sources may
        differ for a moment
    :ivar lost: whether the move that brought it to the host was not finished
    :ivar others: resources that its flavor asks for beside bandwidth, by
        class; None if it cannot be read. Disks are left out, which
        another provider may hold.
    """

    asked: Request | str | None
    record: Record | str
    busy: bool = False
    lost: bool = False
    others: Mapping[str, int] | None = None


@dataclasses.dataclass(frozen=True)
class Move:
    """A resize from the host that waits to be confirmed or reverted.

    :ivar server: UUID of the server, which runs with its new reservation
    :ivar record: its reservation on the host until the move ends
    """

    server: str
    record: Record | str


class Holder(enum.Enum):
    """A holder of bandwidth in Placement that is no server."""

    #: Nova has no server or move with this UUID.
    GONE = 'gone'
    #: A server that is on no host, such as one that could not be built.
    UNPLACED = 'unplaced'
    #: A move that nobody will finish, or a server that it was to bring here.
    LOST = 'lost'
    #: A server of another host.
    ELSEWHERE = 'elsewhere'
    #: A server that was evacuated from this host, whose service has not
    #: started since.
    EVACUATED = 'evacuated'
    #: A server of this host whose flavor is not real-time.
    PLAIN = 'plain'
    #: Something is being done to it.
    BUSY = 'busy'


@dataclasses.dataclass(frozen=True)
class HostSnapshot:
    """One host.

    :ivar host: its name
    :ivar provider: UUID of its compute node
    :ivar servers: its real-time servers, by UUID
    :ivar moves: by UUID of the migration, which holds the allocation
    :ivar allocations: bandwidth that Placement holds there, in ppm, by UUID
    :ivar others: all that Placement holds there, by UUID and resource class
    :ivar holders: the kind of each UUID that is not in ``servers`` or
        ``moves``
    :ivar inventory_ppm: the inventory of bandwidth there; None if Placement
        has none
    :ivar free: published by nova-rt-compute; None if nothing is
    """

    host: str
    provider: str
    servers: Mapping[str, NovaServer] = dataclasses.field(default_factory=dict)
    moves: Mapping[str, Move] = dataclasses.field(default_factory=dict)
    allocations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    others: Mapping[str, Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )
    holders: Mapping[str, Holder] = dataclasses.field(default_factory=dict)
    inventory_ppm: int | None = None
    free: Capacity | str | None = None

    def list_settled(self) -> list[tuple[str, NovaServer]]:
        """List the servers to which nothing is being done.

        :returns: UUID and server, in order
        """
        return [
            (uuid, server)
            for uuid, server in sorted(self.servers.items())
            if not server.busy
        ]

    def list_records(self) -> list[tuple[str, Record]]:
        """List the records of those servers, as far as they can be read.

        :returns: UUID and record, in order
        """
        return [
            (uuid, server.record)
            for uuid, server in self.list_settled()
            if isinstance(server.record, Record)
        ]


class Source(enum.StrEnum):
    """The source that differs."""

    PLACEMENT = 'placement'
    TRACKER = 'tracker'
    RECORD = 'record'


@dataclasses.dataclass
class Extent:
    """The extent of a comparison.

    :ivar servers: real-time servers
    :ivar busy: those left out, because something is being done to them
    """

    hosts: int = 0
    servers: int = 0
    busy: int = 0

    def add(self, snapshot: HostSnapshot) -> None:
        """Count a host."""
        settled = len(snapshot.list_settled())
        self.hosts += 1
        self.servers += settled
        self.busy += len(snapshot.servers) - settled

    def describe(self) -> str:
        """Put it into words.

        :returns: a line
        """
        busy = f' ({self.busy} more left out: busy)' if self.busy else ''
        return (
            f'Compared {self.servers} server(s){busy} on {self.hosts} host(s)'
        )


@dataclasses.dataclass(frozen=True)
class SetAllocation:
    """Make Placement hold all that a server asks for.

    :ivar provider: UUID of the compute node
    :ivar held_ppm: the amount now
    :ivar ppm: the right amount
    """

    uuid: str
    provider: str
    held_ppm: int
    ppm: int


@dataclasses.dataclass(frozen=True)
class RemoveAllocation:
    """Remove an allocation on a host that nobody asks for.

    :ivar provider: UUID of the compute node
    :ivar held_ppm: the amount now
    """

    uuid: str
    provider: str
    held_ppm: int


Repair = SetAllocation | RemoveAllocation


@dataclasses.dataclass(frozen=True)
class Finding:
    """One difference.

    :ivar uuid: the server, or the consumer; '' for the host
    :ivar difference: a sentence without a full stop
    :ivar remedy: a sentence without a full stop
    :ivar repair: done by ``--repair``; None if there is none
    """

    host: str
    uuid: str
    source: Source
    difference: str
    remedy: str
    repair: Repair | None = None

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

    :ivar asked: what its flavor and hints ask for; None if the hints that it
        was created with are not kept any more
    :ivar record: its record
    :ivar busy: whether something is being done to it, so that sources may
        differ for a moment
    :ivar lost: whether the move that brought it to the host was not finished
    :ivar others: what its flavor asks of the host beside bandwidth, by
        resource class; None if it cannot be read. Disks are left out, which
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
    :ivar record: what it holds on the host in case it is reverted
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
class LocalContainer:
    """A container that libvirt has on the host.

    :ivar carried: the record in its domain's metadata; None without one
    :ivar difference: how what the kernel holds differs from the server's
        record, a sentence; None if it does not, or if it does not run
    """

    carried: Record | str | None
    difference: str | None = None


@dataclasses.dataclass(frozen=True)
class Picture:
    """One host.

    :ivar host: its name
    :ivar provider: UUID of its compute node; '' if Nova has no such host
    :ivar servers: its real-time servers, by UUID
    :ivar moves: by UUID of the migration, which holds the allocation
    :ivar allocations: bandwidth that Placement holds there, in ppm, by UUID
    :ivar others: all that Placement holds there, by UUID and resource class
    :ivar holders: what those of them are that are not in ``servers`` or
        ``moves``
    :ivar inventory_ppm: what Placement can allocate there in all; None if it
        has no such inventory
    :ivar free: what nova-rt-compute has published; None if nothing
    :ivar capacity: what each CPU offers; None if only the sum is known
    :ivar containers: by UUID; None if they were not read, because this is
        another host
    """

    host: str
    provider: str = ''
    servers: Mapping[str, NovaServer] = dataclasses.field(default_factory=dict)
    moves: Mapping[str, Move] = dataclasses.field(default_factory=dict)
    allocations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    others: Mapping[str, Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )
    holders: Mapping[str, Holder] = dataclasses.field(default_factory=dict)
    inventory_ppm: int | None = None
    free: Capacity | str | None = None
    capacity: Capacity | None = None
    containers: Mapping[str, LocalContainer] | None = None

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

    def list_sources(self) -> set['Source']:
        """List those who were asked.

        :returns: the sources; none of them need have said anything
        """
        sources = set()
        if self.provider:
            sources |= {Source.RECORD, Source.PLACEMENT, Source.TRACKER}
        if self.containers is not None:
            sources |= {Source.DOMAIN, Source.KERNEL}
        return sources

    @property
    def left(self) -> dict[str, Record | str]:
        """Records of servers that a resize has taken to another host."""
        return {
            move.server: move.record
            for move in self.moves.values()
            if move.server not in self.servers
        }


class Source(enum.StrEnum):
    """The source that says what differs."""

    PLACEMENT = 'placement'
    TRACKER = 'tracker'
    RECORD = 'record'
    DOMAIN = 'domain'
    KERNEL = 'kernel'


@dataclasses.dataclass
class Extent:
    """The extent of a comparison.

    :ivar servers: real-time servers
    :ivar busy: those left out, because something is being done to them
    :ivar sources: who was asked about any host
    """

    hosts: int = 0
    servers: int = 0
    busy: int = 0
    sources: set[Source] = dataclasses.field(default_factory=set)

    def add(self, picture: Picture) -> None:
        """Count a host."""
        settled = len(picture.list_settled())
        self.hosts += 1
        self.servers += settled
        self.busy += len(picture.servers) - settled
        self.sources |= picture.list_sources()

    def describe(self) -> str:
        """Put it into words.

        :returns: a line
        """
        sources = ', '.join(each for each in Source if each in self.sources)
        busy = f' ({self.busy} more left out: busy)' if self.busy else ''
        return (
            f'Compared {self.servers} server(s){busy} on {self.hosts} '
            f'host(s), sources: {sources or "none"}'
        )


@dataclasses.dataclass(frozen=True)
class SetAllocation:
    """Make Placement hold all that a server asks for.

    :ivar provider: UUID of the compute node
    :ivar held_ppm: what it holds now
    :ivar ppm: what it is to hold
    """

    uuid: str
    provider: str
    held_ppm: int
    ppm: int


@dataclasses.dataclass(frozen=True)
class RemoveAllocation:
    """Remove from Placement what nobody asks for on a host.

    :ivar provider: UUID of the compute node
    :ivar held_ppm: what it holds now
    """

    uuid: str
    provider: str
    held_ppm: int


Repair = SetAllocation | RemoveAllocation


@dataclasses.dataclass(frozen=True)
class Finding:
    """One difference.

    :ivar uuid: the server, or what holds the allocation; '' for the host
    :ivar difference: what differs, a sentence without a full stop
    :ivar remedy: what mends it, a sentence without a full stop
    :ivar repair: what ``--repair`` does; None if it leaves this alone
    """

    host: str
    uuid: str
    source: Source
    difference: str
    remedy: str
    repair: Repair | None = None

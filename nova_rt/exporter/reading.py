# SPDX-License-Identifier: Apache-2.0
"""Reads all that there is to say about this host, once.

Unreadable values are missing in the reading, and the reading says which
source it is of.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
import contextlib
import dataclasses
import enum
import logging
import os
import pathlib
import time
from typing import TypeVar

from nova_rt import exception
from nova_rt.exporter.domains import Domains, LibvirtServer, Unreadable
from nova_rt.exporter.snapshot import Snapshot
from nova_rt.formats.counts import Counts
from nova_rt.host.capability import Capability
from nova_rt.host.host import Host
from nova_rt.host.interface import Usage
from nova_rt.host.options import Options
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.record import Record

LOG = logging.getLogger(__name__)

_Found = TypeVar('_Found')

_LARGEST_FILE = 1 << 16


class Source(enum.StrEnum):
    """A source that a reading is made from."""

    #: The kernel of the host.
    KERNEL = 'kernel'
    #: The same for each container that runs.
    CONTAINERS = 'containers'
    LIBVIRT = 'libvirt'
    #: The file of nova-rt-compute.
    COMPUTE = 'compute'


@dataclasses.dataclass(frozen=True)
class ContainerState:
    """The state of a container in the kernel.

    :ivar drifted: whether that differs from its record; None without one
    :ivar usage: CPU -> its use; None where the kernel does not count it
    :ivar actual: its record with the runtime that it has now; None without one
    """

    drifted: bool | None
    usage: Mapping[int, Usage] | None
    actual: Record | None = None


@dataclasses.dataclass(frozen=True)
class HostBandwidth:
    """The capability of a host, and the bandwidth that it offers.

    :ivar offered: the most that servers can be promised; None unless the
        options of nova-rt-compute are known
    :ivar free: the rest of it; None unless all servers are known as well
    :ivar pool_usage: CPU -> use of the pool of spare bandwidth
    """

    capability: Capability
    offered: Capacity | None
    free: Capacity | None
    pool_usage: Mapping[int, Usage]


@dataclasses.dataclass(frozen=True)
class CountsFile:
    """The file of nova-rt-compute.

    :ivar at: when it was written, seconds since 1970
    :ivar options: by which it works; None if its version does not write them
    """

    counts: Counts
    at: float
    options: Options | None


@dataclasses.dataclass(frozen=True)
class Reading:
    """One reading of a host; None for values that could not be read.

    :ivar states: the UUID of each container that runs -> its state
    :ivar failed: sources that could not be read completely
    :ivar took_s: how long it took
    """

    kernel: HostBandwidth | None
    servers: tuple[LibvirtServer, ...] | None
    states: Mapping[str, ContainerState]
    counted: CountsFile | None
    failed: frozenset[Source]
    took_s: float

    @property
    def claims(self) -> list[Record]:
        """The claims of servers, running or not."""
        return list_claims(self.servers or ())


def list_claims(servers: Iterable[LibvirtServer]) -> list[Record]:
    """List the records of servers.

    :returns: those that can be read
    """
    return [
        rec
        for server in servers
        for rec in (server.record, server.beside)
        if rec is not None
    ]


class HostReader:
    """Reads a host.

    :param make_host: makes the host that works by some options
    :param files: the kernel's files
    :param servers: its libvirt
    :param counters: the file of its nova-rt-compute
    """

    def __init__(
        self,
        make_host: Callable[[Options], Host],
        files: Snapshot,
        servers: Domains,
        counters: pathlib.Path,
    ) -> None:
        self._make_host = make_host
        self._options = Options()
        self._host = make_host(self._options)
        self._files = files
        self._domains = servers
        self._counters = counters
        self._failed: dict[Source, str] = {}

    def read(self) -> Reading:
        """Read everything.

        :returns: all readable values
        """
        began = time.monotonic()
        self._files.forget()
        servers = self._ask(Source.LIBVIRT, self._read_servers)
        counted = self._ask(Source.COMPUTE, self._read_counted)
        options = None if counted is None else counted.options
        kernel = self._ask(
            Source.KERNEL, lambda: self._read_kernel(servers, options)
        )
        states: dict[str, ContainerState] = {}

        def read_states() -> None:
            if kernel is None or servers is None:
                raise Unreadable('kernel or libvirt cannot be read')
            self._read_states(servers, states)

        self._ask(Source.CONTAINERS, read_states)
        return Reading(
            kernel,
            servers,
            states,
            counted,
            frozenset(self._failed),
            time.monotonic() - began,
        )

    def _ask(
        self, source: Source, read: Callable[[], _Found]
    ) -> _Found | None:
        """Read one source; its errors are logged once."""
        try:
            found = read()
        except (Unreadable, exception.HostError, OSError, ValueError) as err:
            if source not in self._failed:
                LOG.warning('Cannot read from %s: %s', source, err)
            self._failed[source] = str(err)
            return None
        if self._failed.pop(source, None) is not None:
            LOG.info('Can read from %s again', source)
        return found

    def _read_servers(self) -> tuple[LibvirtServer, ...]:
        return tuple(self._domains.read())

    def _read_kernel(
        self,
        servers: tuple[LibvirtServer, ...] | None,
        options: Options | None,
    ) -> HostBandwidth:
        wanted = options or Options()
        if wanted != self._options:
            self._host = self._make_host(wanted)
            self._options = wanted
        capability = self._host.look()
        pool_usage = self._host.read_pool_usage()
        if options is None:
            return HostBandwidth(capability, None, None, pool_usage)
        offered = self._host.capacity()
        if servers is None or any(not each.record for each in servers):
            return HostBandwidth(capability, offered, None, pool_usage)
        free = self._host.free(list_claims(servers), self._sum_boosts(servers))
        return HostBandwidth(capability, offered, free, pool_usage)

    def _sum_boosts(self, servers: Iterable[LibvirtServer]) -> Counter[int]:
        """Add up the bandwidth of boosts, which a new server would be given.

        The surplus of a server that follows its load stays with it.

        :returns: CPU -> ppm
        """
        found: Counter[int] = Counter()
        for server in servers:
            rec = server.record
            if server.pid is None or rec is None or rec.request.follows_load:
                continue
            # It may have ended; the reading of its state says so.
            with contextlib.suppress(OSError):
                actual = self._host.read_held(server.pid, rec)
                for cpu in rec.cpus:
                    found[cpu] += max(0, actual.ppm - rec.ppm)
        return found

    def _read_states(
        self,
        servers: Iterable[LibvirtServer],
        states: dict[str, ContainerState],
    ) -> None:
        """Read the state in the kernel of each container that runs.

        :param states: gets all that can be read
        :raises OSError: of one that cannot, which may just have ended
        """
        failed = None
        for server in servers:
            if server.pid is None:
                continue
            try:
                states[server.uuid] = self._read_state(server, server.pid)
            except OSError as err:
                failed = err
        if failed is not None:
            raise failed

    def _read_state(self, server: LibvirtServer, pid: int) -> ContainerState:
        if server.record is None:
            return ContainerState(None, self._host.read_usage(pid))
        differs, usage, actual = self._host.observe(pid, server.record)
        return ContainerState(differs is not None, usage, actual)

    def _read_counted(self) -> CountsFile:
        with self._counters.open(encoding='ascii') as file:
            counts = Counts.decode(file.read(_LARGEST_FILE))
            at = os.fstat(file.fileno()).st_mtime
        options = None
        if counts.host is not None:
            options = Options.from_dict(counts.host)
        return CountsFile(counts, at, options)

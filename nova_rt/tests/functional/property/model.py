# SPDX-License-Identifier: Apache-2.0
"""The model of a cloud: the arithmetic of the promise, and nothing else.

It shares no code with what it judges. Which host and which CPUs a server gets
is for nova_rt to choose; the model learns them, and refuses what does not fit.
"""

import dataclasses
import itertools


@dataclasses.dataclass(frozen=True)
class Hold:
    """Bandwidth that a server holds: so many ppm on each of these CPUs."""

    host: str
    ppm: int
    cpus: tuple[int, ...]

    @property
    def total_ppm(self):
        return self.ppm * len(self.cpus)


@dataclasses.dataclass
class Server:
    """A server as its user sees it, and what it holds; plain: nothing."""

    flavor: str
    vcpus: int
    #: On each of its CPUs, by its flavor and hint; 0 for a plain flavor.
    ppm: int
    state: str = 'building'
    host: str | None = None
    #: While it is being moved: what it was before.
    before: 'Server | None' = None
    #: Its state before an error, which stops nothing.
    ran: str | None = None
    #: Of what it is now; of what it was, see there.
    hold: Hold | None = None
    #: Allocations on dead hosts that it was evacuated from.
    left: list[Hold] = dataclasses.field(default_factory=list)

    @property
    def holds(self):
        """All that it must hold, the reservation that it runs with first."""
        found = self, self.before
        return [each.hold for each in found if each and each.hold]

    @property
    def hosts(self):
        """The hosts that have something of it."""
        return {each.host for each in (self, self.before) if each}

    @property
    def runs(self):
        server = self.before or self
        return (server.ran or server.state) in ('active', 'paused')


class Model:
    """The cloud.

    :param capacity: host -> CPU -> ppm
    """

    def __init__(self, capacity):
        self.capacity = capacity
        self.servers = {}
        self.dead = set()

    def on(self, host):
        """Name of a server -> what it holds on a host, if it does."""
        return {
            name: held
            for name, server in self.servers.items()
            if (
                held := [
                    each
                    for each in (*server.holds, *server.left)
                    if each.host == host
                ]
            )
        }

    def free(self, host):
        free = dict(self.capacity[host])
        for hold in itertools.chain(*self.on(host).values()):
            for cpu in hold.cpus:
                free[cpu] -= hold.ppm
        return free

    def room(self, server):
        """The hosts that must be able to take a server."""
        return {
            host
            for host in self.capacity.keys() - self.dead
            if server.vcpus
            <= sum(left >= server.ppm for left in self.free(host).values())
            or not server.ppm
        }

    def free_for(self, server):
        """CPU -> room on a server's host, without what it has itself."""
        free = self.free(server.host)
        for cpu in server.hold.cpus:
            free[cpu] += server.hold.ppm
        return free

    def put(self, server, host, cpus):
        """A server has got CPUs on a host; it must have been possible."""
        server.host = host
        if not server.ppm:
            assert not cpus, cpus
            return
        free = self.free(host)
        assert len(cpus) == len(set(cpus)) == server.vcpus, cpus
        assert all(free[cpu] >= server.ppm for cpu in cpus), (free, cpus)
        server.hold = Hold(host, server.ppm, cpus)

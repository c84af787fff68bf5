# SPDX-License-Identifier: Apache-2.0
"""Makes pictures of hosts from all that can be read here."""

from collections.abc import Callable
import time

from oslo_config import cfg

from nova_rt.manage.audit.cloud import Cloud, Found, Node
from nova_rt.manage.audit.compare import compare
from nova_rt.manage.audit.local import Local
from nova_rt.manage.audit.picture import Extent, Finding, Picture
from nova_rt.reservation.extra_specs import RESOURCE_CLASS

#: Seconds between two readings: what only changed meanwhile differs in one.
_SETTLE_S = 2.0


class Auditor:
    """Everything that can be read from where the command runs.

    :ivar cloud: Nova and Placement
    :ivar local_name: name of this host, as Nova knows it
    :ivar extent: what was compared so far
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Connect.

        :raises Unreadable: if what the audit needs does not answer
        """
        self.cloud = Cloud()
        self.local_name: str = conf.host
        self.extent = Extent()
        self._conf = conf
        self._local: Local | None = None
        self._nodes: dict[str, Node] = {}

    def list_hosts(self) -> list[str]:
        """List the hosts of Nova.

        :returns: their names
        :raises Unreadable: if a database does not answer
        """
        self._nodes = {node.host: node for node in self.cloud.list_nodes()}
        return sorted(self._nodes)

    def find_node(self, provider: str) -> Node | None:
        """Find the compute node that is a provider of Placement.

        :param provider: its UUID
        :returns: None if Nova has none
        """
        return next(
            (node for node in self._nodes.values() if node.uuid == provider),
            None,
        )

    def audit(
        self, host: str, sleep: Callable[[float], None] = time.sleep
    ) -> list[Finding]:
        """Find what differs on a host.

        Every source is read at another moment. What differs is read again
        a little later, and what differs then in the same way is told.

        :param host: one of those listed
        :returns: the findings
        :raises Unreadable: if a source does not answer
        """
        picture = self.read(host)
        first = compare(picture)
        self.extent.add(picture)
        if not first:
            return []
        sleep(_SETTLE_S)
        again = compare(self.read(host))
        return [finding for finding in again if finding in first]

    def read(self, host: str) -> Picture:
        """Make a picture of a host.

        Placement is read before Nova: a server that comes meanwhile is not
        taken for one that is gone.

        :returns: the picture
        :raises Unreadable: if a source does not answer
        """
        capacity = None
        node = self._nodes[host]
        resources = self.cloud.read_allocations(node.uuid)
        allocations = {
            uuid: each[RESOURCE_CLASS]
            for uuid, each in resources.items()
            if RESOURCE_CLASS in each
        }
        inventory_ppm = self.cloud.read_inventory_ppm(node.uuid)
        found = self.cloud.read_node(node)
        others = allocations.keys() - (
            found.servers.keys() | found.moves.keys()
        )
        containers = None
        if self._is_local(host, found, inventory_ppm):
            if self._local is None:
                self._local = Local.open(self._conf)
            containers = self._local.read(found.servers)
            # With the options of this program, which need not be those of
            # nova-rt-compute.
            capacity = self._local.read_capacity()
        if capacity is not None and capacity.total_ppm != inventory_ppm:
            # Of another time than what nova-rt-compute has published.
            capacity = None
        return Picture(
            host=host,
            provider=node.uuid,
            servers=found.servers,
            moves=found.moves,
            allocations=allocations,
            others=resources,
            holders=self.cloud.classify(others, node, found),
            inventory_ppm=inventory_ppm,
            free=found.free,
            capacity=capacity,
            containers=containers,
        )

    def _is_local(
        self, host: str, found: Found, inventory_ppm: int | None
    ) -> bool:
        """Whether this is that host, and one with reservations."""
        return host == self.local_name and bool(
            found.servers or found.free is not None or inventory_ppm
        )

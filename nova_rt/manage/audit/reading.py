# SPDX-License-Identifier: Apache-2.0
"""Makes pictures of hosts from all that can be read here."""

from collections.abc import Callable
import time

from nova_rt.cloud.reading import Cloud, Node
from nova_rt.cloud.snapshot import Extent, Finding, HostSnapshot
from nova_rt.manage.audit.compare import compare
from nova_rt.reservation.extra_specs import RESOURCE_CLASS

#: Seconds between two readings: what only changed meanwhile differs in one.
_SETTLE_S = 2.0


class Auditor:
    """Nova and Placement, read from anywhere.

    :ivar cloud: both
    :ivar extent: of the comparison so far
    """

    def __init__(self) -> None:
        """Connect.

        :raises Unreadable: if a database or Placement does not answer
        """
        self.cloud = Cloud()
        self.extent = Extent()
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
        """Find the differences on a host.

        The sources are read one after the other. After a difference, they
        are read again a little later; a difference that remains is
        returned.

        :param host: one of those listed
        :returns: the findings
        :raises Unreadable: if a source does not answer
        """
        snapshot = self.read(host)
        first = compare(snapshot)
        self.extent.add(snapshot)
        if not first:
            return []
        sleep(_SETTLE_S)
        again = compare(self.read(host))
        return [finding for finding in again if finding in first]

    def read(self, host: str) -> HostSnapshot:
        """Make a snapshot of a host.

        Placement is read before Nova: a server that comes meanwhile is not
        taken for one that is gone.

        :returns: the snapshot
        :raises Unreadable: if a source does not answer
        """
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
        return HostSnapshot(
            host=host,
            provider=node.uuid,
            servers=found.servers,
            moves=found.moves,
            allocations=allocations,
            others=resources,
            holders={
                uuid: self.cloud.classify(uuid, node, found) for uuid in others
            },
            inventory_ppm=inventory_ppm,
            free=found.free,
        )

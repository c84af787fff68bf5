# SPDX-License-Identifier: Apache-2.0
"""The reservations of a host according to Nova and Placement.

Read from Nova's databases, cell by cell, as ``nova-manage`` does.
"""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
from typing import Any

from keystoneauth1 import exceptions as ks_exc
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects, rpc
from nova.compute import utils as compute_utils
from nova.scheduler.client import report

from nova_rt.cloud import instances, nova_db
from nova_rt.cloud.nova_db import Unreadable
from nova_rt.cloud.snapshot import Holder, Move, NovaServer
from nova_rt.reservation import extra_specs
from nova_rt.reservation.admission import Capacity
from nova_rt.tracking import servers

_RC = extra_specs.RESOURCE_CLASS


@dataclasses.dataclass(frozen=True)
class Node:
    """A compute node.

    :ivar cell: its nova.objects.CellMapping
    """

    host: str
    name: str
    uuid: str
    cell: Any


@dataclasses.dataclass(frozen=True)
class Found:
    """The servers, moves and free bandwidth of a node in Nova's database.

    :ivar servers: real-time servers, by UUID
    :ivar plain: UUIDs of its other servers
    :ivar moving: UUIDs of moves, and of servers that are being moved
    :ivar lost: UUIDs of moves that nobody will finish
    :ivar moves: those that wait to be confirmed or reverted; see
        :class:`.snapshot.HostSnapshot`
    :ivar free: see :class:`.snapshot.HostSnapshot`
    """

    servers: Mapping[str, NovaServer]
    plain: frozenset[str]
    moving: frozenset[str]
    lost: frozenset[str]
    moves: Mapping[str, Move]
    free: Capacity | str | None


@contextlib.contextmanager
def placement_errors() -> Iterator[None]:
    """Turn errors of Placement into one of ours.

    :returns: nothing, once
    :raises Unreadable: instead
    """
    try:
        yield
    except (ks_exc.ClientException, nova_exception.NovaException) as err:
        raise Unreadable(
            f'Placement does not answer ({type(err).__name__})'
        ) from err


class Cloud:
    """Nova's databases and Placement.

    :ivar context: of an administrator
    :ivar client: nova.scheduler.client.report.SchedulerReportClient
    """

    def __init__(self) -> None:
        """Connect.

        :raises Unreadable: if something does not answer or is not configured
        """
        with nova_db.errors():
            self.context = nova_db.connect()
            # Makes the option known that the URLs of cells may refer to.
            rpc.get_transport_url()
            self._cells = [
                cell
                for cell in objects.CellMappingList.get_all(self.context)
                if not cell.is_cell0()
            ]
        with placement_errors():
            self.client = report.report_client_singleton()

    # Nova

    @contextlib.contextmanager
    def _in_cell(self, cell: Any) -> Iterator[Any]:
        """Read the database of a cell."""
        with (
            nova_db.errors(),
            nova_context.target_cell(self.context, cell) as context,
        ):
            yield context

    def list_nodes(self) -> list[Node]:
        """List all compute nodes.

        :returns: by name of the host
        :raises Unreadable: if a cell does not answer
        """
        nodes = []
        for cell in self._cells:
            with self._in_cell(cell) as c:
                nodes += [
                    Node(node.host, node.hypervisor_hostname, node.uuid, cell)
                    for node in objects.ComputeNodeList.get_all(c)
                ]
        return sorted(nodes, key=lambda node: node.host)

    def read_node(self, node: Node) -> Found:
        """Read the servers and moves of a node in Nova.

        :returns: its servers and the published bandwidth
        :raises Unreadable: if its cell does not answer
        """
        with self._in_cell(node.cell) as cell:
            stats = objects.ComputeNode.get_by_uuid(cell, node.uuid).stats
            found = list(
                objects.InstanceList.get_by_host(
                    cell,
                    node.host,
                    expected_attrs=['flavor', 'system_metadata'],
                )
            )
            moves = objects.MigrationList.get_in_progress_by_host_and_node(
                cell, node.host, node.name
            )
            lost = [move for move in moves if instances.is_lost(move)]
            moves = [move for move in moves if move not in lost]
            waiting = [move for move in moves if instances.is_waiting(move)]
            under_way = [move for move in moves if move not in waiting]
            moving = {move.uuid for move in under_way}
            moving |= {move.instance_uuid for move in under_way}
            left = {
                move.uuid: instances.read_move(move)
                for move in waiting
                if move.source_compute == node.host
            }
            ours = [each for each in found if servers.is_rt(each)]
            hints = self._read_hints([each.uuid for each in ours])
        return Found(
            {
                each.uuid: instances.make_server(
                    each, hints.get(each.uuid), each.uuid in moving
                )
                for each in ours
            },
            frozenset({each.uuid for each in found})
            - {each.uuid for each in ours},
            frozenset(moving),
            frozenset(move.uuid for move in lost),
            {uuid: move for uuid, move in left.items() if move is not None},
            instances.parse_free(stats or {}),
        )

    def _read_hints(self, uuids: list[str]) -> dict[str, Mapping[str, Any]]:
        specs = objects.RequestSpec.get_by_instance_uuids(self.context, uuids)
        return {
            spec.instance_uuid: spec.scheduler_hints or {} for spec in specs
        }

    def classify(
        self, uuid: str, node: Node | None, found: Found | None
    ) -> Holder:
        """Classify the holder of an allocation that is no server of a host.

        :param uuid: a consumer that is no real-time server of the host
        :param node: the host; None if Nova does not have it
        :returns: its kind
        :raises Unreadable: if a database does not answer
        """
        if found is not None:
            if uuid in found.moving:
                return Holder.BUSY
            if uuid in found.plain:
                return Holder.PLAIN
            if uuid in found.lost:
                return Holder.LOST
        instance = self.find(uuid)
        if instance is None:
            returning = node is not None and self._is_returning(node, uuid)
            return Holder.BUSY if returning else Holder.GONE
        if instance is PENDING or instances.is_busy(instance):
            return Holder.BUSY
        if instance.host is None:
            return Holder.UNPLACED
        if node is not None and instance.host == node.host:
            # It has come since the host was read.
            return Holder.BUSY
        if node is None:
            return Holder.ELSEWHERE
        with self._in_cell(node.cell) as cell:
            return instances.classify_absent(
                node.host,
                objects.MigrationList.get_by_filters(
                    cell, {'instance_uuid': uuid}
                ),
            )

    def _is_returning(self, node: Node, uuid: str) -> bool:
        """Whether a UUID is of a revert that its source has not ended.

        For Nova the migration is over by then.
        """
        with self._in_cell(node.cell) as cell:
            try:
                return instances.is_returning(
                    objects.Migration.get_by_uuid(cell, uuid)
                )
            except nova_exception.MigrationNotFound:
                return False

    def find(self, uuid: str) -> Any:
        """Look for a server, wherever it is.

        :returns: nova.objects.Instance with its flavor and metadata; None
            if there is none; PENDING if it is in no cell yet
        :raises Unreadable: if a database does not answer
        """
        with nova_db.errors():
            try:
                mapping = objects.InstanceMapping.get_by_instance_uuid(
                    self.context, uuid
                )
                if mapping.cell_mapping is None:
                    return PENDING
                with nova_context.target_cell(
                    self.context, mapping.cell_mapping
                ) as cell:
                    return objects.Instance.get_by_uuid(
                        cell,
                        uuid,
                        expected_attrs=['flavor', 'system_metadata'],
                    )
            except (
                nova_exception.InstanceMappingNotFound,
                nova_exception.InstanceNotFound,
            ):
                return None

    def is_volume_backed(self, instance: Any) -> bool:
        """Look whether the root disk of a server is a volume.

        :param instance: the result of :meth:`find`
        :returns: whether it is
        :raises Unreadable: if a database does not answer
        """
        with nova_db.errors():
            mapping = objects.InstanceMapping.get_by_instance_uuid(
                self.context, instance.uuid
            )
            with nova_context.target_cell(
                self.context, mapping.cell_mapping
            ) as cell:
                return bool(
                    compute_utils.is_volume_backed_instance(cell, instance)
                )

    # Placement

    def read_allocations(self, provider: str) -> dict[str, dict[str, int]]:
        """Read the allocations on a host in Placement.

        :param provider: UUID of the compute node
        :returns: amounts by UUID of the consumer and by resource class;
            nothing for a host that Placement does not have
        :raises Unreadable: if Placement does not answer
        """
        url = f'/resource_providers/{provider}/allocations'
        found = self._get(url).get('allocations', {})
        return {uuid: each['resources'] for uuid, each in found.items()}

    def read_inventory_ppm(self, provider: str) -> int | None:
        """Read how much bandwidth Placement can allocate on a host.

        :param provider: UUID of the compute node
        :returns: in ppm; None if it has no such inventory
        :raises Unreadable: if Placement does not answer
        """
        url = f'/resource_providers/{provider}/inventories'
        inventory = self._get(url).get('inventories', {}).get(_RC)
        if inventory is None:
            return None
        ppm: int = inventory['total'] - inventory['reserved']
        return ppm

    def _get(self, url: str) -> dict[str, Any]:
        with placement_errors():
            answer = self.client.get(
                url, global_request_id=self.context.global_id
            )
        if answer.status_code == 404:
            return {}
        if answer.status_code != 200:
            raise Unreadable(f'Placement answers {answer.status_code}')
        body: dict[str, Any] = answer.json()
        return body


#: A server that is being created and is in no cell yet.
PENDING = object()

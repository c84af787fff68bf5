# SPDX-License-Identifier: Apache-2.0
"""The reservations of hosts and servers by the records of Nova and Placement.

Needs Nova: a command imports it in its action.
"""

from collections.abc import Mapping
import dataclasses
import datetime
from typing import Any, Self

from nova import exception as nova_exception
from nova import objects
from nova.compute import vm_states
from nova.db.main import api as db
from nova.db.main import models
from oslo_utils import uuidutils

from nova_rt import exception
from nova_rt.cloud import instances, nova_db
from nova_rt.cloud.reading import PENDING, Cloud, Node
from nova_rt.formats.changes import Answer, Change, Condition, OnNoRoom
from nova_rt.reservation import extra_specs, record
from nova_rt.reservation.admission import Capacity, sum_by_cpu
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking import servers

_RC = extra_specs.RESOURCE_CLASS


@dataclasses.dataclass(frozen=True)
class Holding:
    """The bandwidth that a server holds on a host.

    :ivar record: None if it cannot be read
    :ivar state: ``held``; ``busy`` while something is being done to the
        server; ``resized`` on the host that it left, until the resize is
        confirmed or reverted; ``unreadable``
    """

    server: str
    host: str
    record: Record | None
    state: str

    @property
    def total_ppm(self) -> int | None:
        """Bandwidth on all of its CPUs."""
        return None if self.record is None else self.record.total_ppm


@dataclasses.dataclass(frozen=True)
class HostRecord:
    """A host that offers bandwidth.

    :ivar stats: statistics that its compute service has published
    :ivar free: on each CPU; None if that cannot be read
    :ivar capacity_ppm: inventory in Placement; None without an
        inventory
    :ivar used_ppm: allocated in Placement
    :ivar seen_at: when its compute service was last seen by Nova, UTC
    """

    name: str
    stats: Mapping[str, Any]
    free: Capacity | None
    capacity_ppm: int | None
    used_ppm: int
    holdings: tuple[Holding, ...]
    seen_at: datetime.datetime | None

    @property
    def reserved(self) -> Mapping[int, int]:
        """CPU -> bandwidth that servers hold there, in ppm."""
        return sum_by_cpu(
            each.record for each in self.holdings if each.record is not None
        )


@dataclasses.dataclass(frozen=True)
class ServerRecord:
    """A server with a reservation, according to Nova.

    :ivar host: '' for a server that is on none
    :ivar record: None if it cannot be read
    :ivar state: ``held``; ``busy`` while something is being done to the
        server; ``released`` on no host; ``unreadable``
    :ivar flavor: Nova's number of its flavor
    :ivar locked: whether Nova refuses operations of its owner
    :ivar generation: the last change that its host has seen
    :ivar ended: the last change that a resize has ended; 0 if there is none
    :ivar obstacle: a reason not to change it now; None if there is none
    """

    uuid: str
    project: str
    host: str
    record: Record | None
    state: str
    flavor: int
    locked: bool
    generation: int
    ended: int
    obstacle: str | None

    @classmethod
    def read(cls, instance: Any) -> Self:
        """Read a server.

        :param instance: a nova Instance with its flavor and system_metadata
        :returns: the server
        """
        rec, state = None, 'held'
        try:
            if instance.host is None:
                rec, state = servers.read_record(instance), 'released'
            else:
                rec = servers.read_claimed(instance)
        except exception.InvalidRecord:
            state = 'unreadable'
        if state == 'held' and instances.is_busy(instance):
            state = 'busy'
        return cls(
            instance.uuid,
            instance.project_id,
            instance.host or '',
            rec,
            state,
            instance.flavor.id,
            instance.locked,
            servers.read_generation(instance),
            servers.read_ended(instance),
            servers.find_unchangeable(instance),
        )

    def has_ended(self, change: Change) -> bool:
        """Tell whether a resize to another flavor has ended a change."""
        return change.flavor != self.flavor or change.generation <= self.ended

    def change(
        self,
        desired: Reservation,
        on_no_room: OnNoRoom,
        now: datetime.datetime,
    ) -> Change:
        """Make the request for a change.

        :param now: the time of the request
        :returns: the change, without an answer
        """
        return Change(
            self.uuid, self.generation + 1, desired, self.flavor, on_no_room,
            self.host, now, now, Answer(Condition.IN_PROGRESS, host=self.host),
        )  # fmt: skip


class Records(Cloud):
    """Nova's databases and Placement."""

    def find_nodes(self, host: str | None) -> list[Node]:
        """List compute nodes.

        :param host: of this host alone; None for all
        :returns: by name of the host
        :raises NotFound: if Nova has no such host
        :raises Unreadable: if a cell does not answer
        """
        nodes = self.list_nodes()
        if host is None:
            return nodes
        found = [node for node in nodes if node.host == host]
        if not found:
            raise exception.NotFound(f'Nova has no compute host {host!r}')
        return found

    def list_servers(
        self,
        limit: int,
        marker: str = '',
        host: str | None = None,
        project: str | None = None,
    ) -> tuple[list[ServerRecord], str | None]:
        """List servers with a record of a reservation.

        :param limit: at most so many
        :param marker: UUID of the last server of the page before
        :param host: those of this host alone; None for all
        :param project: those of this project alone; None for all
        :returns: by UUID, and the marker of the next page; None if this is
            the last one
        :raises Unreadable: if a cell does not answer
        """
        wanted = {'host': host, 'project_id': project}
        filters = {
            key: value for key, value in wanted.items() if value is not None
        }
        cells = self._find_cells(project)
        by_cell: list[list[str]] = []
        for cell in cells:
            with self._in_cell(cell) as c:
                by_cell.append(_list_uuids(c, limit, marker, filters))
        page = sorted(uuid for uuids in by_cell for uuid in uuids)[:limit]
        found: list[Any] = []
        for cell, uuids in zip(cells, by_cell, strict=True):
            ours = [uuid for uuid in uuids if uuid <= page[-1]]
            if ours:
                found += self._read_servers(cell, ours)
        found.sort(key=lambda each: each.uuid)
        # Servers that were deleted meanwhile do not end the list.
        following = page[-1] if len(page) == limit else None
        return [ServerRecord.read(each) for each in found], following

    def read_servers(
        self, uuids: list[str], project: str
    ) -> list[ServerRecord]:
        """Look up servers of a project with a record of a reservation.

        :returns: those that exist, in no order
        :raises Unreadable: if one of its cells does not answer
        """
        return [
            ServerRecord.read(each)
            for cell in self._find_cells(project)
            for each in self._read_servers(cell, uuids)
            if each.project_id == project and servers.is_rt(each)
        ]

    def _find_cells(self, project: str | None) -> list[Any]:
        """List the cells with servers of a project; None for all cells.

        A cell that is down concerns no other project.
        """
        if project is None:
            return self._cells
        with nova_db.errors():
            found = objects.CellMappingList.get_by_project_id(
                self.context, project
            )
        return [cell for cell in found if not cell.is_cell0()]

    def _read_servers(self, cell: Any, uuids: list[str]) -> list[Any]:
        with self._in_cell(cell) as c:
            return list(
                objects.InstanceList.get_by_filters(
                    c,
                    {'uuid': uuids, 'deleted': False},
                    expected_attrs=['flavor', 'system_metadata'],
                )
            )

    def find_server(self, uuid: str) -> ServerRecord:
        """Look up a real-time server, on a host or on none.

        :returns: the server
        :raises NotFound: if there is none
        :raises Unreadable: if a database does not answer
        """
        instance = self.find(uuid) if uuidutils.is_uuid_like(uuid) else None
        if instance in (None, PENDING) or not servers.is_rt(instance):
            raise exception.NotFound(
                f'there is no server {uuid} with a reservation'
            )
        with nova_db.errors():
            return ServerRecord.read(instance)

    def list_holdings(self, node: Node) -> list[Holding]:
        """List the bandwidth that servers hold on a host.

        :returns: by UUID
        :raises Unreadable: if its cell does not answer
        """
        found = self.read_node(node)
        held = [
            _make(uuid, node.host, server.record, server.busy)
            for uuid, server in found.servers.items()
        ]
        held += [
            dataclasses.replace(
                _make(move.server, node.host, move.record, False),
                state='resized',
            )
            for move in found.moves.values()
        ]
        return sorted(held, key=lambda each: each.server)

    def read_host(self, node: Node) -> HostRecord | None:
        """Read a host.

        :returns: None if it offers no bandwidth, or is no host any more
        :raises Unreadable: if its cell or Placement does not answer
        """
        try:
            return self._read_host(node)
        except nova_db.Unreadable as err:
            if isinstance(err.__cause__, nova_exception.ComputeHostNotFound):
                # It was deleted since the hosts were listed.
                return None
            raise

    def _read_host(self, node: Node) -> HostRecord | None:
        with self._in_cell(node.cell) as c:
            stats = objects.ComputeNode.get_by_uuid(c, node.uuid).stats or {}
            free = instances.parse_free(stats)
            if free is None:
                # Most hosts of a large cloud: Placement is not asked.
                return None
            seen_at = _read_seen(c, node.host)
        capacity_ppm = self.read_inventory_ppm(node.uuid)
        usages = self._get(f'/resource_providers/{node.uuid}/usages')
        return HostRecord(
            node.host,
            stats,
            free if isinstance(free, Capacity) else None,
            capacity_ppm,
            usages.get('usages', {}).get(_RC, 0),
            tuple(self.list_holdings(node)),
            seen_at,
        )

    def find_holding(self, uuid: str) -> Holding | None:
        """Look up the bandwidth that a server holds on its host.

        :returns: None if Nova has no such server, or if it is on no host
        :raises NotFound: if it is no real-time server
        :raises Unreadable: if a database does not answer
        """
        if not uuidutils.is_uuid_like(uuid):
            raise exception.NotFound(f'{uuid!r} is no UUID of a server')
        instance = self.find(uuid)
        if instance in (None, PENDING) or instance.host is None:
            return None
        if not servers.is_rt(instance):
            raise exception.NotFound(f'server {uuid} is not real-time')
        found: Record | str | None
        with nova_db.errors():
            try:
                found = servers.read_claimed(instance)
            except exception.InvalidRecord as err:
                found = str(err)
        return _make(uuid, instance.host, found, instances.is_busy(instance))


@db.pick_context_manager_reader
def _list_uuids(
    context: Any, limit: int, marker: str, filters: Mapping[str, str]
) -> list[str]:
    """List the servers of a cell with a record, in the order of their UUIDs.

    Without those that InstanceList.get_by_filters() leaves out: a page of them
    alone would be empty.

    No method of Nova's objects finds them without reading all servers.
    """
    server, kept = models.Instance, models.InstanceSystemMetadata
    query = (
        context.session.query(server.uuid)
        .join(kept, kept.instance_uuid == server.uuid)
        .filter(kept.key == record.KEY, kept.deleted == 0)
        .filter(server.deleted == 0, server.uuid > marker)
        .filter(server.vm_state.is_distinct_from(vm_states.SOFT_DELETED))
        .filter(server.hidden.is_distinct_from(True))
        .filter(*(getattr(server, key) == filters[key] for key in filters))
        .order_by(server.uuid)
        .limit(limit)
    )
    return [uuid for (uuid,) in query]


def _make(
    uuid: str, host: str, record: Record | str | None, busy: bool
) -> Holding:
    readable = record if isinstance(record, Record) else None
    if busy:
        return Holding(uuid, host, readable, 'busy')
    state = 'held' if readable is not None else 'unreadable'
    return Holding(uuid, host, readable, state)


def _read_seen(context: Any, host: str) -> datetime.datetime | None:
    try:
        service = objects.Service.get_by_compute_host(context, host)
    except nova_exception.NotFound:
        return None
    # As Nova's own judgement does, for one that has just come.
    seen: datetime.datetime | None = service.last_seen_up or service.created_at
    return seen

# SPDX-License-Identifier: Apache-2.0
"""Nova, Placement, the database and the message bus, as nova-rt-api uses them.

Everything is read anew for each request. The database has the desired state,
and conductors look for it: a message bus that is away delays a change and
loses nothing.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
import datetime
import threading
from typing import Any
import uuid

from nova.limit import utils as limit_utils
from oslo_config import cfg
from oslo_limit import exception as limit_exception
from oslo_limit import limit
from oslo_log import log as logging

from nova_rt import exception
from nova_rt.cloud import instances
from nova_rt.cloud.nova_db import Unreadable
from nova_rt.cloud.reading import PENDING
from nova_rt.cloud.records import HostRecord, Records
from nova_rt.conductor import queue
from nova_rt.db import api, changes
from nova_rt.formats.changes import WAKE, Answer, Change, Condition, OnNoRoom
from nova_rt.formats.history import HistoryEvent
from nova_rt.reservation import extra_specs
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking import servers

LOG = logging.getLogger(__name__)

_LIMIT = f'class:{extra_specs.RESOURCE_CLASS}'


class OverLimit(exception.NovaRTError):
    """A change would exceed the limit of a project."""


@dataclasses.dataclass(frozen=True)
class Server:
    """A server with a reservation, according to Nova.

    :ivar host: '' for a server that is on none
    :ivar record: None if it cannot be read
    :ivar state: ``held``; ``busy`` while something is being done to the
        server; ``released`` on no host; ``unreadable``
    :ivar flavor: Nova's number of its flavor
    :ivar generation: the last change that its host has seen
    :ivar obstacle: a reason not to change it now; None if there is none
    """

    uuid: str
    project: str
    host: str
    record: Record | None
    state: str
    flavor: int
    generation: int
    obstacle: str | None


def make_server(instance: Any) -> Server:
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
    return Server(
        instance.uuid,
        instance.project_id,
        instance.host or '',
        rec,
        state,
        instance.flavor.id,
        servers.read_generation(instance),
        servers.find_unchangeable(instance),
    )


class Sources:
    """The sources of one process.

    :param conf: the global configuration
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._sender: queue.Sender | None = None
        self._lock = threading.Lock()

    # Nova and Placement

    def find_server(self, server: str) -> Server:
        """Look up a real-time server.

        :param server: UUID
        :returns: the server
        :raises NotFound: if there is none
        """
        instance = Records().find(server)
        if instance in (None, PENDING) or not servers.is_rt(instance):
            raise exception.NotFound(
                f'there is no server {server} with a reservation'
            )
        return make_server(instance)

    def list_servers(
        self, limit: int, marker: str, host: str | None, project: str | None
    ) -> list[Server]:
        """List real-time servers; see :meth:`.Records.list_servers`.

        :returns: by UUID
        """
        found = Records().list_servers(limit, marker, host, project)
        return [make_server(instance) for instance in found]

    def list_hosts(self, limit: int, marker: str) -> list[HostRecord]:
        """List hosts that offer bandwidth.

        :param marker: name of the last host of the page before
        :returns: by name
        """
        records = Records()
        found: list[HostRecord] = []
        for node in records.find_nodes(None):
            if node.host > marker and len(found) < limit:
                host = records.read_host(node)
                found += [] if host is None else [host]
        return found

    def read_host(self, name: str) -> HostRecord:
        """Read a host.

        :returns: the host
        :raises NotFound: if Nova has none, or it offers no bandwidth
        """
        records = Records()
        (node, *_) = records.find_nodes(name)
        host = records.read_host(node)
        if host is None:
            raise exception.NotFound(f'host {name} offers no bandwidth')
        return host

    def check_limit(self, server: Server, wish: Reservation) -> None:
        """Require that the limit of a project allows a server to grow.

        :raises OverLimit: if it does not
        :raises Unreadable: if Keystone or Placement does not answer
        """
        assert server.record is not None
        grown = wish.ppm * server.record.request.vcpus
        grown -= server.record.total_ppm
        if grown <= 0 or not limit_utils.use_unified_limits():
            return
        records = Records()

        def count(
            project: str | None, names: Collection[str]
        ) -> dict[str, int]:
            used = records.client.get_usages_counts_for_limits(
                records.context, project
            )
            return {
                name: used.get(name.removeprefix('class:'), 0)
                for name in names
            }

        try:
            limit.Enforcer(count).enforce(server.project, {_LIMIT: grown})
        except limit_exception.ProjectOverLimit as err:
            if limit_utils.should_enforce(err):
                raise OverLimit(str(err)) from err
        except Exception as err:
            # Of Keystone or Placement, through several libraries.
            raise Unreadable(
                f'the limit cannot be read ({type(err).__name__})'
            ) from err

    # The database and the bus

    def get_history(self, server: str, limit: int) -> list[HistoryEvent]:
        """Read the latest events of a server.

        :returns: the latest first; none if there are none
        """
        try:
            return api.get_history(server, limit)
        except exception.ServerNotFound:
            return []

    def get_changes(self, uuids: Iterable[str]) -> Mapping[str, Change]:
        """Read the last changes of servers.

        :returns: by UUID
        """
        return changes.get_all(list(uuids))

    def ask(
        self,
        server: Server,
        wish: Reservation,
        on_no_room: OnNoRoom,
        known: int | None,
    ) -> Change:
        """Store the wish for a change, and wake a conductor.

        :param known: the generation that the caller has seen, if any
        :returns: the change
        :raises GenerationConflict: if there is another generation by now
        """
        now = datetime.datetime.now(datetime.UTC)
        change = changes.ask(
            Change(
                server.uuid,
                server.generation + 1,
                wish,
                server.flavor,
                on_no_room,
                server.host,
                now,
                now,
                Answer(Condition.IN_PROGRESS, host=server.host),
            ),
            known,
        )
        try:
            with self._lock:
                self._sender = self._sender or queue.Sender(self._conf)
            self._sender.send(str(uuid.uuid4()), 'nova-rt-api', WAKE, {})
        except Exception as err:
            # Of the driver, which has many.
            LOG.warning(
                'No conductor could be woken (%s): they find the change by '
                'themselves', err, extra={'instance_uuid': server.uuid},
            )  # fmt: skip
        return change

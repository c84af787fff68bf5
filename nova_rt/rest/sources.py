# SPDX-License-Identifier: Apache-2.0
"""Nova, Placement, the database and the message bus, as nova-rt-api uses them.

Everything is read anew for each request, except limits of projects.
"""

from collections.abc import Collection, Iterable, Mapping
import datetime
import time

from nova.limit import utils as limit_utils
from oslo_config import cfg
from oslo_limit import exception as limit_exception
from oslo_limit import limit

from nova_rt import exception
from nova_rt.cloud import buses
from nova_rt.cloud.nova_db import Unreadable
from nova_rt.cloud.records import HostRecord, Records, ServerRecord
from nova_rt.conductor import wishes
from nova_rt.db import api, changes
from nova_rt.formats.changes import Change, OnNoRoom
from nova_rt.formats.history import (
    BOOST_KINDS,
    Boost,
    HistoryEvent,
    find_boost,
)
from nova_rt.reservation import extra_specs
from nova_rt.reservation.reservation import Reservation

_LIMIT = f'class:{extra_specs.RESOURCE_CLASS}'
#: Seconds for which limits of projects are not asked for again.
_LIMITS_S = 30
#: By which the clocks of hosts and of this service may differ, for the start
#: of a boosted server to be found.
_SKEW = datetime.timedelta(minutes=5)


class OverLimit(exception.NovaRTError):
    """A change would exceed the limit of a project."""


class Sources:
    """The sources of one process.

    :param conf: the global configuration
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._wishes = wishes.Wishes(conf, 'nova-rt-api', buses.Buses().find)
        self._enforcer: limit.Enforcer | None = None
        self._enforcer_until_s = 0.0
        #: Project -> its limit in ppm, while the enforcer lasts; -1 for none.
        self._limits: dict[str, int] = {}

    # Nova and Placement

    def find_server(self, server: str) -> ServerRecord:
        """Look up a real-time server.

        :param server: UUID
        :returns: the server
        :raises NotFound: if there is none
        """
        return Records().find_server(server)

    def list_servers(
        self, limit: int, marker: str, host: str | None, project: str | None
    ) -> tuple[list[ServerRecord], str | None]:
        """List real-time servers; see :meth:`.Records.list_servers`.

        :returns: by UUID, and the marker of the next page, if any
        """
        return Records().list_servers(limit, marker, host, project)

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

    def check_limit(self, server: ServerRecord, wish: Reservation) -> None:
        """Require that the limit of a project allows a server to grow.

        :raises OverLimit: if it does not
        :raises Unreadable: if Keystone, Placement or a database of Nova does
            not answer
        """
        grown = _grow(server, wish)
        if grown <= 0 or not limit_utils.use_unified_limits():
            return
        # Placement knows nothing of it yet.
        grown += _sum_open_growth(server)
        try:
            self._enforce(server.project, grown)
        except OverLimit:
            raise
        except Exception as err:
            # Of Keystone or Placement, through several libraries.
            raise Unreadable(
                f'the limit cannot be read ({type(err).__name__})'
            ) from err

    def _enforce(self, project: str, grown: int) -> None:
        enforcer = self._get_enforcer()
        most = self._limits.get(project)
        if most is None:
            # The enforcer asks Keystone each time if the project has no limit
            # of its own.
            ((_, most),) = enforcer.get_project_limits(project, [_LIMIT])
            self._limits[project] = most
        if most < 0 or _count(project, [_LIMIT])[_LIMIT] + grown <= most:
            return
        try:
            enforcer.enforce(project, {_LIMIT: grown})
        except limit_exception.ProjectOverLimit as err:
            # Keystone is asked once more if there is no limit at all.
            if limit_utils.should_enforce(err):
                raise OverLimit(str(err)) from err
            self._limits[project] = -1

    def _get_enforcer(self) -> limit.Enforcer:
        """Make an Enforcer, or take the last one.

        :returns: it; Keystone answers four requests for a new one
        """
        now_s = time.monotonic()
        if self._enforcer is None or now_s >= self._enforcer_until_s:
            self._enforcer = limit.Enforcer(_count)
            self._enforcer_until_s = now_s + _LIMITS_S
            self._limits.clear()
        return self._enforcer

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

    def find_boosts(
        self, servers: Iterable[ServerRecord]
    ) -> Mapping[str, Boost]:
        """Find the boosts of servers, as their hosts have reported them.

        :returns: by UUID, of those that are boosted
        """
        spans = {
            each.uuid: (each.host, datetime.timedelta(seconds=startup_s))
            for each in servers
            if each.host
            and each.record is not None
            and (startup_s := each.record.request.startup_s) is not None
        }
        if not spans:
            return {}
        now = datetime.datetime.now(datetime.UTC)
        longest = max(span for _, span in spans.values())
        events = api.get_latest(
            list(spans), now - longest - _SKEW, BOOST_KINDS
        )
        found = {
            uuid: find_boost(events.get(uuid, ()), host, span, now)
            for uuid, (host, span) in spans.items()
        }
        return {uuid: boost for uuid, boost in found.items() if boost}

    def ask(
        self,
        server: ServerRecord,
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
        return self._wishes.add(server.change(wish, on_no_room, now), known)


def _grow(server: ServerRecord, wish: Reservation) -> int:
    """Count the bandwidth that a server needs beside its own, in ppm."""
    assert server.record is not None
    return wish.ppm * server.record.request.vcpus - server.record.total_ppm


def _grow_later(server: ServerRecord, change: Change) -> int:
    """Count the bandwidth that a server gets if its change is made, in ppm."""
    if server.record is None or server.has_ended(change):
        return 0
    return max(0, _grow(server, change.desired))


def _sum_open_growth(server: ServerRecord) -> int:
    """Add up the growth of a project by changes that have not ended.

    :param server: a server of it; its own change is to be replaced, and does
        not count
    :returns: ppm beside the usage in Placement
    """
    known = changes.get_open()
    known.pop(server.uuid, None)
    if not known:
        return 0
    return sum(
        _grow_later(each, known[each.uuid])
        for each in Records().read_servers(list(known), server.project)
    )


def _count(project: str | None, names: Collection[str]) -> dict[str, int]:
    """Count what a project uses, as Enforcer asks for it."""
    records = Records()
    used = records.client.get_usages_counts_for_limits(
        records.context, project
    )
    return {name: used.get(name.removeprefix('class:'), 0) for name in names}

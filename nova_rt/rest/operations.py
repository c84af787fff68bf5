# SPDX-License-Identifier: Apache-2.0
"""The table of operations, and the function of each."""

from collections.abc import Callable, Mapping
import dataclasses
import re
from typing import Any
from urllib import parse

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log as logging
from oslo_policy import policy

from nova_rt import exception
from nova_rt.cloud.records import ServerRecord
from nova_rt.conf import nova_api
from nova_rt.formats.changes import OnNoRoom
from nova_rt.reservation.reservation import Reservation
from nova_rt.rest import openapi, policies, schemas, views
from nova_rt.rest.sources import Sources

LOG = logging.getLogger(__name__)

SERVICE = 'rt'
#: The microversions, the oldest first.
VERSIONS = ('1.0',)

_ETAG = re.compile('"([0-9]{1,18})"')


class Forbidden(exception.NovaRTError):
    """The policy does not allow a call."""


class Conflict(exception.NovaRTError):
    """A server cannot be changed now."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A request that has been validated.

    :ivar query: its parameters
    :ivar body: None for a call without one
    :ivar if_match: the header, if any
    """

    conf: cfg.ConfigOpts
    sources: Sources
    enforcer: policy.Enforcer
    context: oslo_context.RequestContext
    query: Mapping[str, Any]
    body: Any
    if_match: str | None

    def allows(self, rule: str, project: str | None = None) -> bool:
        """Check a policy rule.

        :param project: of the target; None for that of the user
        :returns: whether it allows the call
        """
        target = {'project_id': project or self.context.project_id}
        try:
            return bool(self.enforcer.authorize(rule, target, self.context))
        except policy.InvalidScope:
            return False

    def require(self, rule: str, project: str | None = None) -> None:
        """Require a policy rule, as :meth:`allows`.

        :raises Forbidden: if the rule does not allow the call
        """
        if not self.allows(rule, project):
            raise Forbidden(f'the policy does not allow {rule}')

    def find_server(self, uuid: str) -> ServerRecord:
        """Look up a server that the user may see.

        :returns: the server
        :raises NotFound: if there is none
        """
        server = self.sources.find_server(uuid)
        if not self.allows(policies.SHOW, server.project):
            raise exception.NotFound(
                f'there is no server {uuid} with a reservation'
            )
        return server

    def render(
        self, server: ServerRecord, change: Any, boost: Any
    ) -> dict[str, Any]:
        """Render a server as far as the user may see it.

        :returns: an object of the schema
        """
        return views.render_state(
            server,
            change,
            boost,
            self.allows(policies.SHOW_HOST, server.project),
            self.conf.nova_rt.refusal_details == exception.RefusalDetails.FULL,
        )

    @property
    def limit(self) -> int:
        """The most entries of a page."""
        return int(self.query.get('limit', schemas.MAX_LIMIT))

    def make_links(self, path: str, marker: str | None) -> Any:
        """Make the link to the next page.

        :param marker: the last entry of this page; None if it is the last page
        :returns: one link, or none
        """
        if marker is None:
            return []
        query = dict(self.query) | {'marker': marker}
        for name, value in query.items():
            if isinstance(value, bool):
                query[name] = str(value).lower()
        return [{'rel': 'next', 'href': f'{path}?{parse.urlencode(query)}'}]


#: Body and generation of an answer.
Answer = tuple[dict[str, Any], int | None]


def get_reservation(call: Call, server: str) -> Answer:
    """Show the reservation of a server, and the state of its last change."""
    found = call.find_server(server)
    change = call.sources.get_changes([server]).get(server)
    boost = call.sources.find_boosts([found]).get(server)
    shown = call.render(found, change, boost)
    return {'reservation': shown}, shown['generation']


def put_reservation(call: Call, server: str) -> Answer:
    """Change the reservation of a running server."""
    found = call.find_server(server)
    call.require(policies.SET, found.project)
    asked = call.body['reservation']
    # JSON has no integers: 600.0 is one for the schema.
    wish = Reservation(int(asked['runtime_us']), int(asked['period_us']))
    known = _parse_etag(call.if_match)
    on_no_room = OnNoRoom(asked.get('on_no_room', OnNoRoom.FAIL))
    if on_no_room is OnNoRoom.MIGRATE:
        call.require(policies.SET_MIGRATE, found.project)
        if not nova_api.is_configured(call.conf):
            raise exception.InvalidRequest(nova_api.NO_CREDENTIALS)
    if found.record is None:
        raise Conflict('the record of the reservation cannot be read')
    present = found.record.request.reservation
    # A server goes on with a period that the operator allows no more.
    if wish.period_us != present.period_us:
        group = call.conf.nova_rt
        wish.check_period(group.min_period_us, group.max_period_us)
    if not call.allows(policies.SET_ANY, found.project):
        # As nova.compute.api, check_instance_lock().
        if found.locked:
            raise Conflict('the server is locked')
        # The present reservation withdraws a change that waits.
        if wish != present:
            found.record.request.check_change(wish)
    if found.obstacle is not None:
        raise Conflict(found.obstacle)
    call.sources.check_limit(found, wish)
    change = call.sources.ask(found, wish, on_no_room, known)
    LOG.info(
        'Change %d of reservation to %s was asked for by user %s',
        change.generation, wish, call.context.user_id,
        extra={'instance_uuid': server},
    )  # fmt: skip
    boost = call.sources.find_boosts([found]).get(server)
    shown = call.render(found, change, boost)
    return {'reservation': shown}, shown['generation']


def _parse_etag(text: str | None) -> int | None:
    if text is None or text.strip() == '*':
        return None
    match = _ETAG.fullmatch(text.strip())
    if match is None:
        raise exception.InvalidRequest(
            'If-Match must be the ETag of the reservation, such as "3"'
        )
    return int(match[1])


def get_history(call: Call, server: str) -> Answer:
    """Show the events of the reservation of a server, the latest first."""
    try:
        project = call.sources.find_server(server).project
    except exception.NotFound:
        # A deleted server has a history, and no project for Nova.
        if not call.allows(policies.LIST_ALL):
            raise
        project = None
    if not call.allows(policies.HISTORY, project):
        raise exception.NotFound(
            f'there is no server {server} with a reservation'
        )
    hosts = call.allows(policies.SHOW_HOST, project)
    events = call.sources.get_history(server, call.limit)
    return {
        'events': [views.render_event(each, hosts) for each in events]
    }, None


def list_reservations(call: Call) -> Answer:
    """List the reservations of servers, by UUID; those of the own project."""
    query = call.query
    project = query.get('project_id', call.context.project_id)
    if query.get('all_projects'):
        call.require(policies.LIST_ALL)
        project = query.get('project_id')
    elif not project:
        # Rules may compare it with that of the user, which is none, too.
        raise Forbidden('the token is for no project')
    else:
        call.require(policies.LIST, project)
    if 'host' in query:
        call.require(policies.SHOW_HOST)
    found, marker = call.sources.list_servers(
        call.limit, query.get('marker', ''), query.get('host'), project
    )
    changes = call.sources.get_changes(each.uuid for each in found)
    boosts = call.sources.find_boosts(found)
    shown = [
        call.render(each, changes.get(each.uuid), boosts.get(each.uuid))
        for each in found
    ]
    links = call.make_links('/v1/reservations', marker)
    return {'reservations': shown, 'reservations_links': links}, None


def list_hosts(call: Call) -> Answer:
    """List the hosts that offer bandwidth, by name."""
    call.require(policies.LIST_HOSTS)
    found = call.sources.list_hosts(call.limit, call.query.get('marker', ''))
    shown = [views.render_host(host) for host in found]
    full = len(found) == call.limit
    links = call.make_links('/v1/hosts', found[-1].name if full else None)
    return {'hosts': shown, 'hosts_links': links}, None


def get_host(call: Call, name: str) -> Answer:
    """Show a host: capacity, reserved and free bandwidth of each CPU."""
    call.require(policies.GET_HOST)
    host = call.sources.read_host(name)
    shown = views.render_host(host) | {'cpus': views.render_cpus(host)}
    return {'host': shown}, None


def get_document(call: Call) -> Answer:
    """Show this document."""
    return openapi.render(OPERATIONS, VERSIONS[-1]), None


@dataclasses.dataclass(frozen=True)
class Operation:
    """A row of the table.

    :ivar path: as Flask takes it
    :ivar function: takes a :class:`Call` and the names in the path
    :ivar answer: schema of the answer
    :ivar query: schema of each parameter
    :ivar body: schema of the body; None for a call without one
    :ivar status: of the answer
    :ivar errors: further statuses
    :ivar etag: whether the answer has the generation as its ETag
    :ivar public: whether it needs no token
    """

    method: str
    path: str
    function: Callable[..., Answer]
    answer: schemas.Schema
    query: schemas.Schema = dataclasses.field(default_factory=dict)
    body: schemas.Schema | None = None
    status: int = 200
    errors: tuple[int, ...] = (400, 401, 403, 404, 406, 503)
    etag: bool = False
    public: bool = False

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def summary(self) -> str:
        """The docstring of the function."""
        return self.function.__doc__ or ''


_SERVER = '/v1/servers/<uuid:server>/reservation'

OPERATIONS = (
    Operation('GET', _SERVER, get_reservation, schemas.STATE, etag=True),
    Operation(
        'PUT',
        _SERVER,
        put_reservation,
        schemas.STATE,
        body=schemas.CHANGE,
        status=202,
        errors=(400, 401, 403, 404, 406, 409, 503),
        etag=True,
    ),
    Operation(
        'GET',
        f'{_SERVER}/history',
        get_history,
        schemas.HISTORY,
        query=schemas.LATEST,
    ),
    Operation(
        'GET',
        '/v1/reservations',
        list_reservations,
        schemas.STATES,
        query=schemas.LISTED,
    ),
    Operation(
        'GET', '/v1/hosts', list_hosts, schemas.HOSTS, query=schemas.PAGE
    ),
    Operation('GET', '/v1/hosts/<name>', get_host, schemas.HOST),
    Operation(
        'GET',
        '/v1/openapi.json',
        get_document,
        {'type': 'object'},
        errors=(400, 406),
        public=True,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""nova-rt-api in this process, on sources that are values."""

import dataclasses
import json
import pathlib

import fixtures
import jsonschema
from keystonemiddleware import fixture as token_fixture
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base
from werkzeug import test

from nova_rt import conf as nova_rt_conf
from nova_rt import exception
from nova_rt.cloud.records import ServerRecord
from nova_rt.formats.changes import Answer, Change, Condition, OnNoRoom
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import Reservation
from nova_rt.rest import app, operations, policies, schemas
from nova_rt.tests.fixtures import specs
from nova_rt.tests.fixtures.history import NOW, make_uuid

OURS, THEIRS = 'a' * 32, 'b' * 32
ADMIN = 'admin'

FLAVOR = {
    'rt:reservation': '1000/2000',
    'rt:runtime_min': '500',
    'rt:runtime_max': '1500',
}


def make_server(number, project=OURS, flavor=None, **values):
    """Make a server with two CPUs."""
    record = Record(specs.parse(flavor or FLAVOR), (3, 7))
    made = ServerRecord(
        make_uuid(number), project, 'one', record, 'held', 5, False, 0, 0,
        None,
    )  # fmt: skip
    return dataclasses.replace(made, **values)


def pick(found, *names):
    """Choose fields of an answer."""
    return tuple(found[name] for name in names)


def make_change(server, generation=1, answer=None, flavor=5):
    """Make the last change of a server."""
    return Change(
        server.uuid, generation, Reservation(1200, 2000), flavor,
        OnNoRoom.DEFER, 'one', NOW, NOW,
        answer or Answer(Condition.APPLIED, actual='1200/2000'),
    )  # fmt: skip


class Sources:
    """Servers, hosts and events in memory.

    :ivar error: raised by all methods
    :ivar gone: UUIDs of servers that are deleted while they are listed
    """

    def __init__(self):
        self.servers, self.changes, self.hosts = {}, {}, []
        self.events, self.boosts = [], {}
        self.asked, self.gone = [], set()
        self.error = self.over = None

    def add(self, server, change=None):
        """Add a server."""
        self.servers[server.uuid] = server
        if change is not None:
            self.changes[server.uuid] = change
        return server

    def _fail(self):
        if self.error is not None:
            raise self.error

    def find_server(self, uuid):
        self._fail()
        try:
            return self.servers[uuid]
        except KeyError:
            raise exception.NotFound(
                f'there is no server {uuid} with a reservation'
            ) from None

    def list_servers(self, limit, marker, host, project):
        self._fail()
        page = [
            server
            for uuid, server in sorted(self.servers.items())
            if uuid > marker
            and project in (None, server.project)
            and host in (None, server.host)
        ][:limit]
        return (
            [each for each in page if each.uuid not in self.gone],
            page[-1].uuid if len(page) == limit else None,
        )

    def list_hosts(self, limit, marker):
        return [host for host in self.hosts if host.name > marker][:limit]

    def read_host(self, name):
        for host in self.hosts:
            if host.name == name:
                return host
        raise exception.NotFound(f'Nova has no compute host {name!r}')

    def get_changes(self, uuids):
        return {
            uuid: self.changes[uuid] for uuid in uuids if uuid in self.changes
        }

    def find_boosts(self, servers):
        return {
            each.uuid: self.boosts[each.uuid]
            for each in servers
            if each.uuid in self.boosts
        }

    def get_history(self, server, limit):
        return [each for each in self.events if each.server == server][:limit]

    def check_limit(self, server, wish):
        if self.over is not None:
            raise self.over

    def ask(self, server, wish, on_no_room, known):
        present = getattr(self.changes.get(server.uuid), 'generation', 0)
        if known not in (None, present):
            raise exception.GenerationConflict(known, present)
        self.asked.append((server.uuid, str(wish), on_no_room))
        self.changes[server.uuid] = Change(
            server.uuid, present + 1, wish, server.flavor, on_no_room,
            server.host, NOW, NOW, Answer(Condition.IN_PROGRESS),
        )  # fmt: skip
        return self.changes[server.uuid]


class APITestCase(base.BaseTestCase):
    """Sends requests with the tokens of some users."""

    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        path = pathlib.Path(directory, 'nova.conf')
        path.write_text(
            '[keystone_authtoken]\n'
            'www_authenticate_uri = http://keystone\n'
            '[oslo_policy]\n'
            f'policy_file = {directory}/policy.yaml\n'
        )
        self.policy = pathlib.Path(directory, 'policy.yaml')
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        self.conf([], project='nova', default_config_files=[str(path)])
        self.flags = self.useFixture(config.Config(self.conf)).config
        self.sources = Sources()
        self.app = app.make_app(
            self.conf, self.sources, policies.make_enforcer(self.conf)
        )
        self.client = test.Client(app.add_middleware(self.app, self.conf))
        tokens = self.useFixture(token_fixture.AuthTokenFixture())
        for name, project, roles in (
            (ADMIN, THEIRS, ('admin', 'manager', 'member', 'reader')),
            ('member', OURS, ('member', 'reader')),
            ('reader', OURS, ('reader',)),
            ('stranger', THEIRS, ('member', 'reader')),
            ('unscoped', None, ()),
        ):
            tokens.add_token_data(
                name, user_id=f'user-{name}', project_id=project,
                role_list=roles,
            )  # fmt: skip

    def send(self, method, path, user=ADMIN, body=None, status=200, **headers):
        """Send a request, and hold the answer against its schema.

        :param headers: ``_`` stands for ``-``
        :returns: the response, and its body
        """
        given = {name.replace('_', '-'): headers[name] for name in headers}
        if user is not None:
            given['X-Auth-Token'] = user
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        response = self.client.open(
            path, method=method, headers=given, data=body
        )
        self.assertEqual(status, response.status_code, response.data)
        found = json.loads(response.data)
        schema = schemas.ERRORS
        if status < 300:
            adapter = self.app.url_map.bind('localhost')
            name, _ = adapter.match(path.partition('?')[0], method)
            (schema,) = (
                each.answer
                for each in operations.OPERATIONS
                if each.name == name
            )
        jsonschema.validate(found, schema, jsonschema.Draft202012Validator)
        return response, found

    def read(self, path, user=ADMIN, status=200):
        """Send a GET.

        :returns: the body
        """
        return self.send('GET', path, user, status=status)[1]

    def assert_error(self, status, code, *texts, path, method='GET', **more):
        """An error in the format of the API SIG.

        :returns: the response
        """
        response, found = self.send(method, path, status=status, **more)
        (error,) = found['errors']
        self.assertEqual((status, f'rt.{code}'),
                         (error['status'], error['code']))  # fmt: skip
        self.assertEqual(
            response.headers['X-OpenStack-Request-ID'], error['request_id']
        )
        for text in texts:
            self.assertIn(text, error['detail'])
        return response

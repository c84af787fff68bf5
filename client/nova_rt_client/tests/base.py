# SPDX-License-Identifier: Apache-2.0
"""Commands in this process, and a service that requests-mock plays."""

import copy
import io
import json
from unittest import mock

from keystoneauth1 import session, token_endpoint
from requests_mock.contrib import fixture
import testtools

from nova_rt_client import api

URL = 'http://rt.example'
UUID = '6a1f2c1e-0c55-4d5e-9e0b-3a8f0f7d0001'
PATH = f'{URL}/v1/servers/{UUID}/reservation'

STATE = {
    'server_id': UUID,
    'project_id': 'p',
    'state': 'held',
    'host': 'one',
    'cpus': '3,7',
    'vcpus': 2,
    'generation': 3,
    'desired': {'runtime_us': 600, 'period_us': 1000},
    'allocated': {'runtime_us': 400, 'period_us': 1000},
    'actual': None,
    'on_no_room': 'defer',
    'condition': {
        'type': 'InProgress',
        'since': '2027-03-01T12:00:07Z',
        'reason': '',
        'asked_ppm': None,
        'free_ppm': None,
        'rule': None,
    },
    'enforcement': 'guarantee',
}


def make_state(kind='Applied', generation=3, **condition):
    """Make the answer of the service about a server."""
    state = copy.deepcopy(STATE) | {'generation': generation}
    state['condition'] |= {'type': kind} | condition
    return {'reservation': state}


class CommandTestCase(testtools.TestCase):
    """Runs commands."""

    def setUp(self):
        super().setUp()
        self.service = self.useFixture(fixture.Fixture())
        self.app = mock.Mock()
        self.app.stdout, self.app.stderr = io.StringIO(), io.StringIO()
        self.cloud = self.app.client_manager.sdk_connection
        self.app.client_manager.rt = api.Client(
            session.Session(token_endpoint.Token(URL, 'token')),
            service_type='rt',
        )

    def run_command(self, kind, *words):
        """Run a command, and read its output."""
        command = kind(self.app, None)
        self.app.stdout.seek(0)
        self.app.stdout.truncate()
        parsed = command.get_parser('rt').parse_args([*words, '-f', 'json'])
        self.assertEqual(0, command.run(parsed))
        return json.loads(self.app.stdout.getvalue())

    def answer(self, body, url=PATH, method='GET', **more):
        """Have the service answer a request."""
        self.service.register_uri(method, url, json=body, **more)

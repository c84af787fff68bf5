# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conductor.nova_api."""

import json

from keystoneauth1 import fixture as keystone
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base
import requests
from requests_mock.contrib import fixture

from nova_rt.conductor import nova_api
from nova_rt.conductor.nova_api import (
    Action,
    Gone,
    NoAnswer,
    NotNow,
    Refused,
    Server,
)
from nova_rt.conf import nova_api as nova_api_conf

_KEYSTONE = 'http://keystone/v3'
_NOVA = 'http://nova/v2.1'
_SERVER = f'{_NOVA}/servers/s'


class NovaAPITest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        nova_api_conf.register_opts(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.flags = self.useFixture(config.Config(self.conf))
        self.http = self.useFixture(fixture.Fixture())
        self.configure(username='nova', password='secret')

    def configure(self, **values):
        """Set options of the plug-in, as a file does."""
        self.flags.config(auth_type='password', group='nova_rt_nova')
        self.flags.load_raw_values(
            group='nova_rt_nova', auth_url=_KEYSTONE, project_name='service',
            user_domain_id='default', project_domain_id='default', **values,
        )  # fmt: skip

    def make(self):
        token = keystone.V3Token(user_id='us')
        token.set_project_scope()
        service = token.add_service('compute')
        service.add_standard_endpoints(internal=_NOVA)
        self.http.get(_KEYSTONE, json=keystone.V3Discovery(_KEYSTONE))
        self.http.post(
            f'{_KEYSTONE}/auth/tokens',
            json=token,
            headers={'X-Subject-Token': 'token'},
        )
        return nova_api.NovaAPI.from_options(self.conf)

    def test_not_configured(self):
        self.flags.config(auth_type=None, group='nova_rt_nova')
        self.assertIsNone(nova_api.NovaAPI.from_options(self.conf))
        self.assertIsNone(nova_api.check(self.conf))

    def test_check(self):
        self.assertIsNone(nova_api.check(self.conf))
        self.flags.config(auth_type='nonsense', group='nova_rt_nova')
        self.assertIn('nonsense', nova_api.check(self.conf))

    def test_actions(self):
        nova = self.make()
        self.assertEqual('us', nova.user)
        self.http.get(
            f'{_SERVER}/os-instance-actions',
            json={
                'instanceActions': [
                    {'action': 'migrate', 'request_id': 'req-2',
                     'user_id': 'us', 'message': 'Error'},
                    {'action': 'create', 'request_id': 'req-1',
                     'user_id': None, 'message': None},
                ]
            },
        )  # fmt: skip
        self.assertEqual(
            [Action('migrate', 'req-2', 'us', True),
             Action('create', 'req-1', None, False)],
            nova.list_actions('s'),
        )  # fmt: skip
        sent = self.http.last_request.headers
        self.assertEqual('compute 2.84', sent['OpenStack-API-Version'])

    def test_reason(self):
        """The last one: the first hosts may have refused."""
        nova = self.make()
        events = [
            {'result': 'Error', 'start_time': '2027-03-01T12:00:02.000000',
             'details': 'No valid host'},
            {'result': 'Error', 'start_time': '2027-03-01T12:00:01.000000',
             'details': 'a host has refused'},
            {'result': 'Success', 'start_time': '2027-03-01T12:00:03.000000',
             'details': None},
        ]  # fmt: skip
        path = f'{_SERVER}/os-instance-actions/req-2'
        for found, reason in (events, 'No valid host'), ([], ''):
            self.http.get(path, json={'instanceAction': {'events': found}})
            self.assertEqual(reason, nova.find_reason('s', 'req-2'))

    def test_server(self):
        nova = self.make()
        for vm_state, task, expected in (
            ('active', None, Server('a', False, True)),
            ('active', 'resize_prep', Server('a', False, False)),
            ('resized', None, Server('a', True, True)),
            ('resized', 'resize_reverting', Server('a', False, False)),
        ):
            shown = {
                'OS-EXT-STS:vm_state': vm_state,
                'OS-EXT-STS:task_state': task,
                'OS-EXT-SRV-ATTR:host': 'a',
            }
            self.http.get(_SERVER, json={'server': shown})
            self.assertEqual(expected, nova.find_server('s'))
        # Its cell is down.
        self.http.get(_SERVER, json={'server': {'status': 'UNKNOWN'}})
        self.assertRaises(NoAnswer, nova.find_server, 's')

    def test_requests(self):
        nova = self.make()
        self.http.post(f'{_SERVER}/action', status_code=202)
        for method, body in (
            (nova.migrate, {'migrate': None}),
            (nova.confirm, {'confirmResize': None}),
        ):
            method('s')
            self.assertEqual(body, json.loads(self.http.last_request.body))

    def test_errors(self):
        nova = self.make()
        path = f'{_SERVER}/action'
        for status, kind in (
            (400, Refused), (403, Refused), (404, NoAnswer), (409, NotNow),
            (500, NoAnswer),
        ):  # fmt: skip
            self.http.post(
                path,
                status_code=status,
                json={'oops': {'message': 'not\nnow', 'code': status}},
            )
            err = self.assertRaises(kind, nova.migrate, 's')
            self.assertEqual('Nova: not now', str(err))
        # Unlike that of a proxy above.
        gone = {'itemNotFound': {'message': 'there is none', 'code': 404}}
        self.http.get(_SERVER, status_code=404, json=gone)
        err = self.assertRaises(Gone, nova.find_server, 's')
        self.assertEqual('Nova: there is none', str(err))
        self.http.post(path, status_code=503, text='<html>')
        err = self.assertRaises(NoAnswer, nova.migrate, 's')
        self.assertIn('503', str(err))
        self.http.post(path, exc=requests.exceptions.ConnectTimeout)
        self.assertRaises(NoAnswer, nova.migrate, 's')

    def test_timeout(self):
        """Neither Nova nor Keystone is waited for without end."""
        for timeout_s in 30, 7:
            # The first one is the default.
            if timeout_s != 30:
                self.flags.config(timeout=timeout_s, group='nova_rt_nova')
            nova = self.make()
            self.http.post(f'{_SERVER}/action', status_code=202)
            nova.migrate('s')
            sent = self.http.request_history[-3:]
            self.assertEqual(
                ['/v3', '/v3/auth/tokens', '/v2.1/servers/s/action'],
                [each.path for each in sent],
            )
            self.assertEqual({timeout_s}, {each.timeout for each in sent})

    def test_no_keystone(self):
        nova = self.make()
        self.http.post(f'{_KEYSTONE}/auth/tokens', status_code=500)
        self.assertRaises(NoAnswer, lambda: nova.user)
        self.assertRaises(NoAnswer, nova.find_server, 's')

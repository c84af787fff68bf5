# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.api.middleware, on flavors in a real API database."""

import json

import ddt
from nova import context as nova_context
from nova import objects, test
import webob

from nova_rt.api import middleware
from nova_rt.tests.unit import test_reservation

HINTS = 'os:scheduler_hints'


@ddt.ddt
class RTHintMiddlewareTest(test.TestCase):
    def setUp(self):
        super().setUp()
        self.context = nova_context.RequestContext('user', 'project')
        admin = nova_context.get_admin_context()
        self._flavor(admin, 'plain', {})
        self._flavor(admin, 'rt', {'rt:reservation': '1400/2000'})
        self._flavor(admin, 'broken', {'rt:reservation': 'abc'})
        self._flavor(
            admin, 'hidden', {'rt:reservation': '1400/2000'}, public=False
        )
        self.passed = []

    def _flavor(self, admin, name, specs, public=True):
        objects.Flavor(
            admin,
            flavorid=name,
            name=name,
            vcpus=2,
            memory_mb=64,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            rxtx_factor=1.0,
            is_public=public,
            extra_specs=specs,
        ).create()

    def _nova(self, environ, start_response):
        """What stands behind the middleware: notes the body, answers 202."""
        self.passed.append(webob.Request(environ).body)
        return webob.Response(status=202)(environ, start_response)

    def _send(self, body, path='/servers', method='POST', **kwargs):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        request = webob.Request.blank(
            path,
            base_url='http://localhost/v2.1',
            method=method,
            content_type='application/json',
            body=body,
            **kwargs,
        )
        request.environ['nova.context'] = self.context
        return request.get_response(
            middleware.RTHintMiddleware.factory({})(self._nova)
        )

    def _create(self, hints, flavor='rt', key=HINTS, **kwargs):
        body = {'server': {'name': 's', 'flavorRef': flavor}, key: hints}
        return self._send(body, **kwargs)

    def assertPasses(self, response):
        self.assertEqual(202, response.status_int)
        self.assertEqual(1, len(self.passed))

    def assertRefused(self, response, *words):
        self.assertEqual(400, response.status_int)
        self.assertEqual('application/json', response.content_type)
        self.assertEqual([], self.passed)
        fault = response.json['badRequest']
        self.assertEqual(400, fault['code'])
        for word in words:
            self.assertIn(word, fault['message'])

    # What is allowed

    def test_good_hint(self):
        self.assertPasses(self._create({'rt_reservation': '1000/2000'}))

    def test_good_hint_in_a_list(self):
        self.assertPasses(self._create({'rt_reservation': ['1000/2000']}))

    def test_body_is_passed_on_unchanged(self):
        body = (
            b'{"server": {"flavorRef":"rt" , "name": "\xc3\xa9"},'
            b' "os:scheduler_hints": {"rt_reservation": "1000/2000"}}'
        )
        self.assertPasses(self._send(body))
        self.assertEqual([body], self.passed)

    def test_no_hints(self):
        for flavor in ('plain', 'rt', 'broken', 'none'):
            with self.subTest(flavor=flavor):
                self.passed.clear()
                self.assertPasses(
                    self._send({'server': {'flavorRef': flavor}})
                )

    def test_hints_of_others(self):
        self.assertPasses(
            self._create({'group': 'x', 'query': ['>=', 1]}, flavor='plain')
        )

    # Bad hints

    @ddt.data(*test_reservation.BAD.items())
    @ddt.unpack
    def test_bad_reservation(self, _name, text):
        self.assertRefused(
            self._create({'rt_reservation': text}), 'rt_reservation'
        )

    @ddt.data(
        ['1000/2000', '500/2000'],
        [],
        [None],
        [['1000/2000']],
        None,
        {'runtime_us': 1000, 'period_us': 2000},
        {'rt_reservation': '1000/2000'},
        1000,
        0.5,
        True,
    )
    def test_not_one_text(self, value):
        self.assertRefused(
            self._create({'rt_reservation': value}),
            'rt_reservation',
            '<runtime_us>/<period_us>',
        )

    def test_plain_flavor(self):
        self.assertRefused(
            self._create({'rt_reservation': '1000/2000'}, flavor='plain'),
            'needs a real-time flavor',
        )

    def test_larger_than_the_flavor(self):
        self.assertRefused(
            self._create({'rt_reservation': '1500/2000'}),
            '750000',
            '700000',
            'only ask for less',
        )

    def test_larger_where_any_hint_is_allowed(self):
        self.flags(hints='any', group='nova_rt')
        self.assertPasses(self._create({'rt_reservation': '1500/2000'}))

    def test_denied(self):
        self.flags(hints='deny', group='nova_rt')
        self.assertRefused(
            self._create({'rt_reservation': '1000/2000'}), 'not allowed'
        )

    @ddt.data('499/999', '500/5001')
    def test_period_out_of_the_operators_bounds(self, text):
        self.flags(min_period_us=1000, max_period_us=5000, group='nova_rt')
        self.assertRefused(
            self._create({'rt_reservation': text}), '1000 to 5000'
        )

    @ddt.data('rt_reservations', 'rt_runtime_us', 'rt_')
    def test_unknown_hint_of_ours(self, key):
        self.assertRefused(
            self._create({'rt_reservation': '1000/2000', key: '1'}), key
        )

    def test_flavor_that_is_broken_itself(self):
        self.assertRefused(
            self._create({'rt_reservation': '1000/2000'}, flavor='broken'),
            "'abc'",
        )

    # Ways in

    def test_other_name_of_the_hints(self):
        self.assertRefused(
            self._create(
                {'rt_reservation': 'abc'}, key='OS-SCH-HNT:scheduler_hints'
            )
        )

    def test_the_hints_that_nova_takes_decide(self):
        body = {
            'server': {'flavorRef': 'rt'},
            'os:scheduler_hints': {'rt_reservation': '1000/2000'},
            'OS-SCH-HNT:scheduler_hints': {'rt_reservation': 'abc'},
        }
        self.assertPasses(self._send(body))

    @ddt.data(
        '/servers',
        '/servers/',
        '/servers.json',
        '/project/servers',
        '/os-volumes_boot',
        '/project/os-volumes_boot',
    )
    def test_every_path_that_creates(self, path):
        self.assertRefused(self._create({'rt_reservation': 'abc'}, path=path))

    @ddt.data('/servers/x/action', '/project/servers/x', '/flavors')
    def test_other_paths(self, path):
        self.assertPasses(self._create({'rt_reservation': 'abc'}, path=path))

    def test_other_methods(self):
        self.assertPasses(
            self._create({'rt_reservation': 'abc'}, method='PUT')
        )

    def test_flavor_as_url(self):
        self.assertRefused(
            self._create(
                {'rt_reservation': '1500/2000'},
                flavor='http://localhost/v2.1/flavors/rt',
            )
        )

    # Left to Nova

    @ddt.data(
        b'',
        b'not JSON',
        b'{"server": ',
        b'\xff\xfe',
        b'[' * 100_000,
        b'null',
        b'[]',
        b'"rt_reservation"',
    )
    def test_body_that_is_no_request(self, body):
        self.assertPasses(self._send(body))
        self.assertEqual([body], self.passed)

    @ddt.data(None, [], 'rt_reservation', 5)
    def test_hints_that_are_no_object(self, hints):
        self.assertPasses(self._create(hints))

    @ddt.data(None, [], 'x', {}, {'flavorRef': None}, {'flavorRef': {}})
    def test_no_flavor(self, server):
        self.assertPasses(
            self._send(
                {'server': server, HINTS: {'rt_reservation': '1000/2000'}}
            )
        )

    def test_no_server(self):
        self.assertPasses(self._send({HINTS: {'rt_reservation': '1000/2000'}}))

    def test_unknown_flavor(self):
        self.assertPasses(
            self._create({'rt_reservation': 'abc'}, flavor='none')
        )

    def test_flavor_the_user_may_not_see(self):
        self.assertPasses(
            self._create({'rt_reservation': 'abc'}, flavor='hidden')
        )

    def test_unbounded_body(self):
        body = {
            'server': {'flavorRef': 'rt'},
            HINTS: {'rt_reservation': 'abc', 'x': 'y' * (1 << 20)},
        }
        self.assertPasses(self._send(body))

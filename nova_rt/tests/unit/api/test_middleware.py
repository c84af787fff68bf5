# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.api.middleware, on flavors in a real API database."""

import io
import json

import ddt
from nova import context as nova_context
from nova import objects, test
from oslo_middleware import sizelimit
import webob

from nova_rt.api import middleware
from nova_rt.tests.unit.reservation import test_reservation

HINTS = 'os:scheduler_hints'


class Dripping(io.RawIOBase):
    """A stream that gives less than it is asked for, as a network does.

    :ivar given: bytes that were read
    """

    def __init__(self, text):
        super().__init__()
        self._text = io.BytesIO(text)
        self.given = 0

    def readable(self):
        return True

    def read(self, size=-1):
        some = self._text.read(min(size, 1000) if size > 0 else size)
        self.given += len(some)
        return some


class MiddlewareTestCase(test.TestCase):
    """Flavors, and what stands behind the middleware."""

    def setUp(self):
        super().setUp()
        self.context = nova_context.RequestContext('user', 'project')
        admin = self.admin = nova_context.get_admin_context()
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
        """Stand behind the middleware: note the body, answer 202."""
        self.passed.append(webob.Request(environ).body)
        return webob.Response(status=202)(environ, start_response)

    def _send(
        self,
        body,
        path='/servers',
        method='POST',
        context=None,
        chunked=False,
        **kwargs,
    ):
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
        if chunked:
            # As Nova's limit on bodies hands it on: a stream that ends.
            request.body_file = Dripping(body)
            assert request.content_length is None
        request.environ['nova.context'] = context or self.context
        return request.get_response(
            middleware.RequestValidator.factory({})(self._nova)
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


@ddt.ddt
class HintsTest(MiddlewareTestCase):
    # What is allowed

    def test_good_hint(self):
        self.assertPasses(self._create({'rt_reservation': '1000/2000'}))

    def test_good_hint_in_a_list(self):
        self.assertPasses(self._create({'rt_reservation': ['1000/2000']}))

    def test_body_is_passed_on_with_the_flavor(self):
        """The flavor that came with the hint is noted; the rest is kept."""
        body = (
            b'{"server": {"flavorRef":"rt" , "name": "\xc3\xa9"},'
            b' "os:scheduler_hints": {"rt_reservation": "1000/2000"}}'
        )
        self.assertPasses(self._send(body))
        (passed,) = self.passed
        expected = json.loads(body)
        expected['os:scheduler_hints']['rt_flavor'] = 'rt'
        self.assertEqual(expected, json.loads(passed))

    def test_body_without_a_hint_is_passed_on_unchanged(self):
        body = (
            b'{"server": {"flavorRef":"rt" , "name": "\xc3\xa9"},'
            b' "os:scheduler_hints": {"group": "x"}}'
        )
        self.assertPasses(self._send(body))
        self.assertEqual([body], self.passed)

    def test_users_cannot_name_the_flavor(self):
        for hints in (
            {'rt_flavor': 'rt'},
            {'rt_flavor': 'rt', 'rt_reservation': '1000/2000'},
        ):
            with self.subTest(hints=hints):
                self.assertRefused(self._create(hints), 'rt_flavor')

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

    def test_shorter_period_than_the_flavors(self):
        self.assertRefused(
            self._create({'rt_reservation': '500/1000'}), '1000 us', '2000 us'
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
        self.flags(hints='any', group='nova_rt')
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
        '/servers%0a',
        '/0f-3/servers',
        '/0f-3/servers%0a',
        '/os-volumes_boot',
        '/0f-3/os-volumes_boot%0a',
    )
    def test_every_path_that_creates(self, path):
        self.assertRefused(self._create({'rt_reservation': 'abc'}, path=path))

    def test_method_in_the_query(self):
        """Nova routes by it, and reads the body of the PUT."""
        self.assertRefused(
            self._create(
                {'rt_reservation': 'abc'},
                path='/servers?_method=POST',
                method='PUT',
            )
        )

    @ddt.data(
        '/servers/x/action', '/0f-3/servers/x', '/flavors', '/servers.json'
    )
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

    # Bodies that come in chunks, and long ones

    def test_in_chunks(self):
        self.assertRefused(
            self._create({'rt_reservation': 'abc'}, chunked=True),
            'rt_reservation',
        )

    def test_good_hint_in_chunks(self):
        self.assertPasses(
            self._create({'rt_reservation': '1000/2000'}, chunked=True)
        )
        (passed,) = self.passed
        self.assertEqual(
            {'rt_reservation': '1000/2000', 'rt_flavor': 'rt'},
            json.loads(passed)[HINTS],
        )

    @ddt.data(b'', b'{"server": {"name": "' + 5000 * b'x' + b'"}}', b'{"a')
    def test_without_a_hint_in_chunks(self, body):
        self.assertPasses(self._send(body, chunked=True))
        self.assertEqual([body], self.passed)

    def test_nobody_says_that_the_stream_ends(self):
        """Nova reads nothing of it, and nor do we: it may never end."""
        request = webob.Request.blank('/servers', method='POST')
        request.environ['wsgi.input'] = stream = Dripping(b'{}')
        request.environ.pop('CONTENT_LENGTH', None)
        request.environ['nova.context'] = self.context
        self.assertPasses(
            request.get_response(middleware.RequestValidator(self._nova))
        )
        self.assertEqual(0, stream.given)

    @ddt.data(False, True)
    def test_unbounded_body(self, chunked):
        body = {
            'server': {'flavorRef': 'rt'},
            HINTS: {'rt_reservation': 'abc', 'x': 'y' * (1 << 20)},
        }
        response = self._send(body, chunked=chunked)
        self.assertEqual(413, response.status_int)
        self.assertIn('1048576', response.json['overLimit']['message'])
        self.assertEqual([], self.passed)

    def test_longest_body_in_chunks(self):
        body = b'{}'.ljust(1 << 20)
        self.assertPasses(self._send(body, chunked=True))
        self.assertEqual([body], self.passed)

    def test_limit_of_nova_in_chunks(self):
        request = webob.Request.blank('/servers', method='POST')
        request.body_file = sizelimit.LimitingReader(io.BytesIO(b'12345'), 4)
        request.environ['nova.context'] = self.context
        response = request.get_response(
            middleware.RequestValidator(self._nova)
        )
        self.assertEqual(413, response.status_int)
        self.assertIn('overLimit', response.json)


BAD_SPECS = {
    **{
        f'reservation, {name}': ('rt:reservation', text)
        for name, text in test_reservation.BAD.items()
    },
    'policy': ('rt:policy', 'fair'),
    'priority': ('rt:priority', '100'),
    'number': ('rt:priority', 100),
    'no priority': ('rt:priority', True),
    'fraction': ('rt:priority', 1.5),
    'enforcement': ('rt:enforcement', 'maybe'),
    'unknown': ('rt:reservaton', '1400/2000'),
    'empty': ('rt:', '1400/2000'),
    'long period': ('rt:reservation', '1000/4000000'),
    'dedicated CPUs': ('hw:cpu_policy', 'dedicated'),
    'PCPU': ('resources:PCPU', 2),
    'group': ('resources1:VCPU', '2'),
}


@ddt.ddt
class ExtraSpecsTest(MiddlewareTestCase):
    """A flavor is given extra specs, at whatever microversion."""

    def setUp(self):
        super().setUp()
        self.context = self.admin

    def _post(self, specs, flavor='rt', **kwargs):
        return self._send(
            {'extra_specs': specs},
            path=f'/flavors/{flavor}/os-extra_specs',
            **kwargs,
        )

    def _put(self, specs, flavor='rt', **kwargs):
        (key,) = specs
        return self._send(
            specs,
            path=f'/flavors/{flavor}/os-extra_specs/{key}',
            method='PUT',
            **kwargs,
        )

    @ddt.data(*BAD_SPECS.items())
    @ddt.unpack
    def test_bad(self, _name, pair):
        key, value = pair
        for send in (self._post, self._put):
            self.assertRefused(send({key: value}), key)

    def test_one_bad_among_good_ones(self):
        self.assertRefused(
            self._post({'a': 'b', 'rt:policy': 'rr', 'rt:priority': '0'}),
            'rt:priority',
        )

    @ddt.data(
        {'rt:reservation': '500/1000'},
        {'rt:priority': 5},
        {'rt:policy': 'fifo'},
        {'resources:VCPU': '0'},
        {'hw:cpu_policy': 'shared'},
        {'rtx:policy': 'fair'},
    )
    def test_good(self, specs):
        self.assertPasses(self._post(specs))
        self.passed.clear()
        self.assertPasses(self._put(specs))

    def test_in_any_order(self):
        """No key can be demanded of a flavor that is being made."""
        self.assertPasses(self._post({'rt:priority': '5'}, flavor='plain'))

    @ddt.data(('hw:cpu_policy', 'dedicated'), ('resources:PCPU', '2'))
    @ddt.unpack
    def test_contradiction_in_any_order(self, key, value):
        self._flavor(self.admin, 'pinned', {key: value})
        self.assertRefused(
            self._post({'rt:reservation': '500/1000'}, flavor='pinned'), key
        )

    def test_plain_flavors_are_novas(self):
        self.assertPasses(
            self._post({'hw:cpu_policy': 'dedicated'}, flavor='plain')
        )

    def test_bounds_are_the_operators(self):
        self.flags(min_period_us=5000, group='nova_rt')
        self.assertRefused(
            self._post({'rt:reservation': '1000/4999'}), '4999', '5000'
        )

    @ddt.data(
        '/flavors/rt/os-extra_specs',
        '/flavors/rt/os-extra_specs%0a',
        '/0f-3/flavors/rt/os-extra_specs',
    )
    def test_every_path(self, path):
        body = {'extra_specs': {'rt:policy': 'fair'}}
        self.assertRefused(self._send(body, path=path))

    @ddt.data(
        '/flavors/rt/os-extra_specs/rt:policy%0a',
        '/0f-3/flavors/rt/os-extra_specs/rt:policy',
    )
    def test_every_path_of_one(self, path):
        body = {'rt:policy': 'fair'}
        self.assertRefused(self._send(body, path=path, method='PUT'))

    def test_method_in_the_query(self):
        body = {'rt:policy': 'fair'}
        path = '/flavors/rt/os-extra_specs/rt:policy?_method=PUT'
        self.assertRefused(self._send(body, path=path))

    def test_in_chunks(self):
        for send in (self._post, self._put):
            self.assertRefused(send({'rt:policy': 'fair'}, chunked=True))
            self.assertPasses(send({'rt:policy': 'rr'}, chunked=True))
            self.passed.clear()

    def test_users_get_novas_answer(self):
        """A 403; they do not learn what an unseen flavor says."""
        self.policy.set_rules(
            {'os_compute_api:os-flavor-extra-specs:create': 'is_admin:True'},
            overwrite=False,
        )
        user = nova_context.RequestContext('user', 'project')
        bad = {'rt:policy': 'fair'}
        self.assertPasses(self._post(bad, context=user))
        self.assertEqual(400, self._post(bad).status_int)

    def test_unknown_flavor(self):
        self.assertPasses(self._post({'rt:policy': 'rr'}, flavor='none'))

    @ddt.data(None, [], 'rt:policy', 5, {'rt:policy': None, 'a': []})
    def test_left_to_nova(self, specs):
        self.assertPasses(self._post(specs))

    @ddt.data(b'', b'not JSON', b'[]', b'null', b'{"rt:policy": ')
    def test_body_that_is_no_request(self, body):
        for method, tail in (('POST', ''), ('PUT', '/rt:policy')):
            self.passed.clear()
            self.assertPasses(
                self._send(
                    body,
                    path=f'/flavors/rt/os-extra_specs{tail}',
                    method=method,
                )
            )

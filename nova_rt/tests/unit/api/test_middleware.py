# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.api.middleware, on flavors in a real API database."""

import io
import json

from nova import context as nova_context
from nova import objects, test
from oslo_middleware import sizelimit
import webob

from nova_rt.api import middleware

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
        self.admin = nova_context.get_admin_context()
        self._flavor('plain')
        self._flavor('rt', '1400/2000')
        self._flavor('broken', 'abc')
        self._flavor('hidden', '1400/2000', public=False)
        self.passed = []

    def _flavor(self, name, reservation=None, public=True, **specs):
        if reservation is not None:
            specs['rt:reservation'] = reservation
        objects.Flavor(
            self.admin, flavorid=name, name=name, vcpus=2, memory_mb=64,
            root_gb=1, ephemeral_gb=0, swap=0, rxtx_factor=1.0,
            is_public=public, extra_specs=specs,
        ).create()  # fmt: skip

    def _nova(self, environ, start_response):
        """Stand behind the middleware: note the body, answer 202."""
        self.passed.append(webob.Request(environ).body)
        return webob.Response(status=202)(environ, start_response)

    def _send(
        self, body, path='/servers', method='POST', context=None, chunked=False
    ):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        request = webob.Request.blank(
            path,
            base_url='http://localhost/v2.1',
            method=method,
            content_type='application/json',
            body=body,
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
        """It comes to Nova.

        :returns: the body that Nova sees
        """
        self.assertEqual(202, response.status_int)
        (body,) = self.passed
        self.passed.clear()
        return body

    def assertRefused(self, response, *words):
        self.assertEqual(400, response.status_int)
        self.assertEqual('application/json', response.content_type)
        self.assertEqual([], self.passed)
        fault = response.json['badRequest']
        self.assertEqual(400, fault['code'])
        for word in words:
            self.assertIn(word, fault['message'])


class HintsTest(MiddlewareTestCase):
    def test_good(self):
        """The flavor that came with the hint is noted; the rest is kept."""
        body = (
            b'{"server": {"flavorRef":"rt" , "name": "\xc3\xa9"},'
            b' "os:scheduler_hints": {"rt_reservation": "1000/2000"}}'
        )
        expected = json.loads(body)
        expected[HINTS]['rt_flavor'] = 'rt'
        for chunked in (False, True):
            passed = self.assertPasses(self._send(body, chunked=chunked))
            self.assertEqual(expected, json.loads(passed))
        self.assertPasses(self._create({'rt_reservation': ['1000/2000']}))

    def test_bad(self):
        good = {'rt_reservation': '1000/2000'}
        for hints, *words in (
            ({'rt_reservation': 'abc'}, 'hint rt_reservation'),
            ({'rt_reservation': None}, '<runtime_us>/<period_us>'),
            ({'rt_reservation': {}}, '<runtime_us>/<period_us>'),
            ({'rt_reservation': ['1/2', '1/2']}, '<runtime_us>/<period_us>'),
            ({'rt_reservation': '1500/2000'}, '750000', '700000'),
            ({'rt_reservation': '500/1000'}, '1000 us', '2000 us'),
            # Users cannot name the flavor.
            ({'rt_flavor': 'rt'}, 'rt_flavor'),
            (good | {'rt_flavor': 'rt'}, 'rt_flavor'),
            (good | {'rt_': '1'}, 'rt_'),
        ):
            with self.subTest(hints=hints):
                self.assertRefused(self._create(hints), *words)
        for flavor, word in (
            ('plain', 'needs a real-time flavor'),
            ('broken', "'abc'"),
        ):
            self.assertRefused(self._create(good, flavor), word)

    def test_rules_are_the_operators(self):
        self.flags(min_period_us=1000, max_period_us=5000, group='nova_rt')
        for rule, hint, word in (
            ('deny', '1000/2000', 'not allowed'),
            ('any', '1500/2000', None),
            ('any', '499/999', '1000 to 5000'),
            ('any', '500/5001', '1000 to 5000'),
        ):
            self.flags(hints=rule, group='nova_rt')
            response = self._create({'rt_reservation': hint})
            if word:
                self.assertRefused(response, word)
            else:
                self.assertPasses(response)

    def test_ways(self):
        """Each that creates a server, as Nova finds it: see test_routing."""
        bad = {'rt_reservation': '1500/2000'}
        for way in (
            {'key': 'OS-SCH-HNT:scheduler_hints'},
            {'path': '/servers%0a'},
            {'path': '/0f-3/os-volumes_boot'},
            # Nova routes by the query, and reads the body of the PUT.
            {'path': '/servers?_method=POST', 'method': 'PUT'},
            {'flavor': 'http://localhost/v2.1/flavors/rt'},
            {'chunked': True},
        ):
            with self.subTest(way=way):
                self.assertRefused(self._create(bad, **way), '750000')
        for way in ({'path': '/servers/x/action'}, {'method': 'PUT'}):
            self.assertPasses(self._create(bad, **way))

    def test_left_to_nova(self):
        """Without a change."""
        bad = {'rt_reservation': 'abc'}
        for body in (
            b'',
            b'not JSON',
            b'{"server": ',
            b'\xff\xfe',
            b'[' * 100_000,
            b'null',
            b'[]',
            b'"rt_reservation"',
            b'{"server": {"flavorRef":"rt" , "name": "\xc3\xa9"},'
            b' "os:scheduler_hints": {"group": "x", "query": [">=", 1]}}',
            *(
                {'server': {'flavorRef': flavor}}
                for flavor in ('plain', 'rt', 'broken', 'none')
            ),
            *(
                {'server': {'flavorRef': 'rt'}, HINTS: hints}
                for hints in (None, [], 'rt_reservation', 5)
            ),
            *(
                {'server': server, HINTS: bad}
                for server in (None, [], 'x', {}, {'flavorRef': {}})
            ),
            {HINTS: bad},
            # Nova has no such flavor for this user.
            {'server': {'flavorRef': 'none'}, HINTS: bad},
            {'server': {'flavorRef': 'hidden'}, HINTS: bad},
            # Those that Nova takes decide.
            {
                'server': {'flavorRef': 'rt'},
                HINTS: {},
                'OS-SCH-HNT:scheduler_hints': bad,
            },
            b'{}'.ljust(1 << 20),
        ):
            if not isinstance(body, bytes):
                body = json.dumps(body).encode()
            for chunked in (False, True):
                with self.subTest(body=body[:80], chunked=chunked):
                    passed = self.assertPasses(
                        self._send(body, chunked=chunked)
                    )
                    self.assertEqual(body, passed)

    # Bodies that come in chunks, and long ones

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

    def test_unbounded_body(self):
        for chunked in (False, True):
            response = self._send(b'{}'.ljust((1 << 20) + 1), chunked=chunked)
            self.assertEqual(413, response.status_int)
            self.assertIn('1048576', response.json['overLimit']['message'])
            self.assertEqual([], self.passed)

    def test_limit_of_nova_in_chunks(self):
        request = webob.Request.blank('/servers', method='POST')
        request.body_file = sizelimit.LimitingReader(io.BytesIO(b'12345'), 4)
        request.environ['nova.context'] = self.context
        response = request.get_response(
            middleware.RequestValidator(self._nova)
        )
        self.assertEqual(413, response.status_int)
        self.assertIn('overLimit', response.json)


class ExtraSpecsTest(MiddlewareTestCase):
    """A flavor is given extra specs, at whatever microversion."""

    def setUp(self):
        super().setUp()
        self.context = self.admin

    def _both(self, specs, flavor='rt', **kwargs):
        """Send extra specs in one request, and the last in one of its own."""
        path = f'/flavors/{flavor}/os-extra_specs'
        yield self._send({'extra_specs': specs}, path=path, **kwargs)
        key = [*specs][-1]
        yield self._send(
            {key: specs[key]}, path=f'{path}/{key}', method='PUT', **kwargs
        )

    def test_bad(self):
        self._flavor('pinned', **{'resources:PCPU': '2'})
        self.flags(min_period_us=1000, group='nova_rt')
        for specs, *words in (
            ({'rt:reservation': 'abc'}, 'rt:reservation'),
            ({'rt:reservation': '100/999'}, '999', '1000'),
            ({'rt:reservation': '1000/4000000'}, '4000000'),
            ({'rt:policy': 'fair'},),
            ({'a': 'b', 'rt:policy': 'rr', 'rt:priority': '0'},),
            # Nova keeps numbers as texts.
            ({'rt:priority': 100},),
            ({'rt:priority': True},),
            ({'rt:priority': 1.5},),
            ({'rt:reservaton': '1400/2000'},),
            ({'rt:': '1400/2000'},),
            ({'hw:cpu_policy': 'dedicated'},),
            ({'resources:PCPU': 2},),
            ({'resources1:VCPU': '2'},),
        ):
            for chunked in (False, True):
                with self.subTest(specs=specs):
                    for each in self._both(specs, chunked=chunked):
                        self.assertRefused(each, *words, [*specs][-1])
        for each in self._both({'rt:reservation': '500/1000'}, 'pinned'):
            self.assertRefused(each, 'resources:PCPU')

    def test_good(self):
        for specs, *flavor in (
            ({'rt:reservation': '500/1000'},),
            ({'rt:priority': 5},),
            ({'resources:VCPU': '0'},),
            ({'hw:cpu_policy': 'shared'},),
            ({'rtx:policy': 'fair'},),
            ({'rt:policy': None, 'a': []},),
            # No key can be demanded of a flavor that is being made.
            ({'rt:priority': '5'}, 'plain'),
            ({'hw:cpu_policy': 'dedicated'}, 'plain'),
            ({'rt:policy': 'rr'}, 'none'),
        ):
            for chunked in (False, True):
                with self.subTest(specs=specs, flavor=flavor):
                    for each in self._both(specs, *flavor, chunked=chunked):
                        self.assertPasses(each)

    def test_ways(self):
        """Each as Nova finds it: see test_routing."""
        for path, method in (
            ('/flavors/rt/os-extra_specs/rt:policy%0a', 'PUT'),
            ('/0f-3/flavors/rt/os-extra_specs/rt:policy', 'PUT'),
            ('/flavors/rt/os-extra_specs/rt:policy?_method=PUT', 'POST'),
        ):
            response = self._send({'rt:policy': 'fair'}, path, method)
            self.assertRefused(response, 'rt:policy')

    def test_users_get_novas_answer(self):
        """A 403; they do not learn what an unseen flavor says."""
        rule = 'os_compute_api:os-flavor-extra-specs:'
        user = nova_context.RequestContext('user', 'project')
        for create, update in (('!', '@'), ('@', '!')):
            self.policy.set_rules(
                {f'{rule}create': create, f'{rule}update': update},
                overwrite=False,
            )
            sent = self._both({'rt:policy': 'fair'}, context=user)
            for allowed in (create, update):
                if allowed == '@':
                    self.assertRefused(next(sent), 'rt:policy')
                else:
                    self.assertPasses(next(sent))

    def test_bodies_left_to_nova(self):
        path = '/flavors/rt/os-extra_specs'
        for body in (b'', b'not JSON', b'[]', b'null', b'{"rt:policy": '):
            self.assertPasses(self._send(body, path))
            self.assertPasses(self._send(body, f'{path}/rt:policy', 'PUT'))
        for specs in (None, [], 'rt:policy', 5):
            self.assertPasses(self._send({'extra_specs': specs}, path))

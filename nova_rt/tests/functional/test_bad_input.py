# SPDX-License-Identifier: Apache-2.0
"""Mistakes that users can make, through the real API."""

import io
import json

from nova.tests.fixtures import policy as policy_fixture
from nova.tests.functional.api import client
import webob

from nova_rt.api import policies
from nova_rt.reservation import extra_specs
from nova_rt.tests.functional import base

BAD_SPECS = {
    extra_specs.RESERVATION: (
        'abc', '5', '0/1000', '-1/5', '3000/2000', '1/1e9', '1400/2000/3',
        '99999999999999999999/99999999999999999999', '1400 /2000',
        ' 1400/2000', '1400/2000\n', '\u0661\u0664/\u0662\u0660', '', '/',
    ),
    extra_specs.POLICY: ('fair', 'RR', '', 'deadline'),
    extra_specs.PRIORITY: ('0', '100', '-1', 'high', '1.5', ''),
    extra_specs.ENFORCEMENT: ('maybe', ''),
}  # fmt: skip

BAD_HINTS = (
    'abc', '5', '0/1000', '-1/5', '3000/2000', '1/1e9', '1400/2000/3',
    '99999999999999999999/99999999999999999999', '1400 /2000',
    '\u0661\u0664/\u0662\u0660', '', 5, 0.7, True,
    ['1000/2000', '500/2000'], [], {'runtime': 1000},
    {'a': {'b': 'c'}}, [['1000/2000']],
)  # fmt: skip


class BadFlavorTest(base.RTServersTestBase):
    """Extra specs are refused where the flavor is made.

    At the latest microversion, where Nova has validators as well, and as
    ``openstack flavor create`` sends it.
    """

    MICROVERSIONS = 'latest', '2.1'

    def refused(self, method, *args):
        refusal = self.assertRaises(
            client.OpenStackApiException, method, *args
        )
        self.assertEqual(400, refusal.response.status_code)
        return refusal.response.json()['badRequest']['message']

    def assert_refused(self, specs, *texts):
        flavor = self._create_flavor()
        with self.case(self.admin_api.microversion, specs):
            text = self.refused(
                self.admin_api.post_extra_spec, flavor, {'extra_specs': specs}
            )
            for key, value in specs.items():
                path = f'/flavors/{flavor}/os-extra_specs/{key}'
                self.refused(self.admin_api.api_put, path, {key: value})
            found = self.admin_api.api_get(f'/flavors/{flavor}/os-extra_specs')
            self.assertEqual({}, found.body['extra_specs'])
            for each in texts:
                self.assertIn(each, text)

    def test_values(self):
        for self.admin_api.microversion in self.MICROVERSIONS:
            for key, values in BAD_SPECS.items():
                for value in values:
                    self.assert_refused({key: value})
            for key in ('rt:runtime', 'rt:reservations', 'rt:'):
                self.assert_refused({key: '1400/2000'})
            self.assert_refused(
                {extra_specs.RESERVATION: '3000/2000'}, '3000', '2000'
            )

    def test_dedicated_cpus(self):
        """Whichever comes last."""
        ours, theirs = (
            {extra_specs.RESERVATION: '500/1000'}, {'resources:PCPU': '1'},
        )  # fmt: skip
        for self.admin_api.microversion in self.MICROVERSIONS:
            for first, last in (ours, theirs), (theirs, ours):
                flavor = self._create_flavor(extra_spec=first)
                text = self.refused(
                    self.admin_api.post_extra_spec,
                    flavor,
                    {'extra_specs': last},
                )
                self.assertIn('PCPU', text)


class UnvalidatedFlavorTest(base.RTServersTestBase):
    """Made below microversion 2.86, in a nova-api without our filter."""

    def test_refused_by_the_scheduler(self):
        self.start_compute()
        self.skip_api_filter()
        for reservation, text, specs in (
            ('3000/2000', '3000', {}),
            # Out of the operator's range.
            ('3000000/4000000', '4000000', {}),
            ('1400/2000', 'rt:polcy', {'polcy': 'rr'}),
            ('1400/2000', 'fair', {'policy': 'fair'}),
        ):
            with self.case(reservation, specs):
                self.admin_api.microversion = '2.61'
                flavor = self.rt_flavor(reservation, **specs)
                self.admin_api.microversion = 'latest'
                server = self.create(flavor, state='ERROR')
                self.assertIn(text, base.fault_of(server))
                self.assert_nothing_left(of=[server])


class HintsTestBase(base.RTServersTestBase):
    """A bad hint is a 400 at POST /servers."""

    def setUp(self):
        super().setUp()
        self.start_compute()

    def assert_refused(self, flavor, hint):
        refusal = self.assertRaises(
            client.OpenStackApiException,
            self.api.post_server,
            self.server_request(flavor, hint),
        )
        self.assertEqual(400, refusal.response.status_code)
        self.assertEqual([], self.api.get_servers())
        return refusal.response.json()['badRequest']['message']


class BadHintTest(HintsTestBase):
    def test_each(self):
        flavor = self.rt_flavor('1400/2000')
        for hint in BAD_HINTS:
            with self.case(hint):
                self.assert_refused(flavor, hint)
        # Larger than the flavor, or out of the operator's range.
        message = self.assert_refused(flavor, '1500/2000')
        self.assertIn('750000', message)
        self.assertIn('700000', message)
        self.assert_refused(flavor, '2000000/4000000')
        message = self.assert_refused(self._create_flavor(), '100/2000')
        self.assertIn(extra_specs.RESERVATION, message)


class DeniedHintTest(HintsTestBase):
    def setUp(self):
        self.flags_of_ours(hints='deny')
        super().setUp()

    def test_operator_allows_none(self):
        self.assert_refused(self.rt_flavor('1400/2000'), '100/2000')


class HintPolicyTestBase(base.RTServersTestBase):
    """A flavor that takes hints, and a policy file that can be changed."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.flavor = self.rt_flavor('1400/2000')

    def override(self, rules):
        self.useFixture(
            policy_fixture.OverridePolicyFixture(rules_in_file=rules)
        )


class HintPolicyTest(HintPolicyTestBase):
    """A rule in Nova's policy file says who may give hints."""

    def assert_forbidden(self, hint):
        refusal = self.assertRaises(
            client.OpenStackApiException,
            self.api.post_server,
            self.server_request(self.flavor, hint),
        )
        self.assertEqual(403, refusal.response.status_code)
        message = refusal.response.json()['forbidden']['message']
        self.assertIn(policies.HINTS, message)
        self.assertEqual([], self.api.get_servers())

    def test_it(self):
        self.override({})
        self._delete_server(self.create(self.flavor, '100/2000'))
        self.override({policies.HINTS: 'role:admin'})
        self.assert_forbidden('100/2000')
        # Whoever may not, does not learn what is wrong with it.
        self.assert_forbidden('3000/2000')
        self.create(self.flavor)
        server = self.admin_api.post_server(
            self.server_request(self.flavor, '100/2000')
        )
        self._wait_for_state_change(server, 'ACTIVE')


class RoundaboutTest(HintPolicyTestBase):
    """Requests that Nova takes although they look unlike those of clients."""

    def send(self, method, path, body, version='2.1', chunked=False):
        """Send a request past the client, which would tidy it up.

        :returns: the response
        """
        body = json.dumps(body).encode()
        request = webob.Request.blank(
            f'/v2.1{path}',
            method=method,
            content_type='application/json',
            body=body,
            headers={
                'X-OpenStack-Nova-API-Version': version,
                'X-Auth-User': 'admin',
                'X-User-Id': 'admin',
                'X-Auth-Project-Id': self.api.project_id,
                'X-Roles': 'reader,member,admin',
            },
        )
        if chunked:
            # As a server hands on a body whose length nobody has named.
            request.body_file = io.BytesIO(body)
            assert request.content_length is None
        return request.get_response(self.api_fixture.app())

    def send_hint(self, hint, **way):
        body = self.server_request(self.flavor, hint)
        return self.send(body=body, version='2.37', **way)

    def test_hints(self):
        for way in (
            {'method': 'POST', 'path': '/servers', 'chunked': True},
            {'method': 'POST', 'path': '/servers%0a'},
            {'method': 'PUT', 'path': '/servers?_method=POST'},
        ):
            with self.case(way):
                self.check_hint(way)

    def check_hint(self, way):
        response = self.send_hint('1500/2000', **way)
        self.assertEqual(400, response.status_int)
        self.assertIn('750000', response.json['badRequest']['message'])
        self.override({policies.HINTS: '!'})
        response = self.send_hint('100/2000', **way)
        self.assertEqual(403, response.status_int)
        self.assertEqual([], self.api.get_servers())
        self.override({})
        # They are requests that Nova takes, which is the danger.
        response = self.send_hint('100/2000', **way)
        self.assertEqual(202, response.status_int)
        server = self._wait_for_state_change(response.json['server'], 'ACTIVE')
        self.assertEqual(
            50_000, self.record_of(server).request.reservation.ppm
        )
        self._delete_server(server)

    def test_extra_specs(self):
        for sent in (
            {'method': 'POST', 'chunked': True},
            {'method': 'POST', 'tail': '%0a'},
            {'method': 'PUT', 'tail': '?_method=POST'},
        ):
            tail = sent.pop('tail', '')
            path = f'/flavors/{self.flavor}/os-extra_specs{tail}'
            for value, status in (('abc', 400), ('5/1000', 200)):
                body = {'extra_specs': {extra_specs.RESERVATION: value}}
                response = self.send(path=path, body=body, **sent)
                self.assertEqual(status, response.status_int, (sent, value))


class UncheckedHintTest(HintPolicyTestBase):
    """nova-api without our filter: hints are still refused later.

    The compute refuses what the scheduler has let pass: see ``test_events``.
    """

    def setUp(self):
        super().setUp()
        self.skip_api_filter()

    def test_larger_than_the_flavor(self):
        server = self.create(self.flavor, '1500/2000', state='ERROR')
        self.assertIn('750000', base.fault_of(server))
        self.assert_nothing_left(of=[server])

    def test_policy(self):
        self.override({policies.HINTS: 'role:admin'})
        # A good one and a bad one: whoever may not, learns no more.
        for hint in ('100/2000', '3000/2000'):
            server = self.create(self.flavor, hint, state='ERROR')
            self.assertIn(policies.HINTS, base.fault_of(server))
            self.assertNotIn('RT bandwidth', base.fault_of(server))
            self.assert_nothing_left(of=[server])
            self._delete_server(server)
        body = self.server_request(self.flavor, '100/2000', min_count=2)
        self.api.post_server(body)
        for server in self.api.get_servers(detail=False):
            server = self._wait_for_state_change(server, 'ERROR')
            self.assertIn(policies.HINTS, base.fault_of(server))
        server = self.admin_api.post_server(
            self.server_request(self.flavor, '100/2000')
        )
        self._wait_for_state_change(server, 'ACTIVE')
        self.create(self.flavor)

# SPDX-License-Identifier: Apache-2.0
"""Mistakes that users can make, through the real API."""

import io
import json

import ddt
import fixtures
from nova.tests.fixtures import policy as policy_fixture
from nova.tests.functional.api import client
import webob

from nova_rt.api import policies
from nova_rt.reservation import extra_specs
from nova_rt.tests.functional import base, moves

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


class BadFlavorTests:
    """Extra specs are refused where the flavor is made."""

    def setUp(self):
        super().setUp()
        self.admin_api.microversion = self.MICROVERSION

    def refused(self, method, *args):
        refusal = self.assertRaises(
            client.OpenStackApiException, method, *args
        )
        self.assertEqual(400, refusal.response.status_code)
        return refusal.response.json()['badRequest']['message']

    def assert_refused(self, specs):
        flavor = self._create_flavor()
        text = self.refused(
            self.admin_api.post_extra_spec, flavor, {'extra_specs': specs}
        )
        for key, value in specs.items():
            path = f'/flavors/{flavor}/os-extra_specs/{key}'
            self.refused(self.admin_api.api_put, path, {key: value})
        found = self.admin_api.api_get(f'/flavors/{flavor}/os-extra_specs')
        self.assertEqual({}, found.body['extra_specs'])
        return text

    def test_values(self):
        for key, values in BAD_SPECS.items():
            for value in values:
                self.assert_refused({key: value})

    def test_unknown_keys(self):
        for key in ('rt:runtime', 'rt:reservations', 'rt:'):
            self.assert_refused({key: '1400/2000'})

    def test_the_message_says_what_is_wrong(self):
        text = self.assert_refused({extra_specs.RESERVATION: '3000/2000'})
        self.assertIn('3000', text)
        self.assertIn('2000', text)

    def test_dedicated_cpus(self):
        """Whichever comes last."""
        for first, last in (
            ({extra_specs.RESERVATION: '500/1000'}, {'resources:PCPU': '1'}),
            ({'resources:PCPU': '1'}, {extra_specs.RESERVATION: '500/1000'}),
        ):
            flavor = self._create_flavor(extra_spec=first)
            text = self.refused(
                self.admin_api.post_extra_spec, flavor, {'extra_specs': last}
            )
            self.assertIn('PCPU', text)


class BadFlavorTest(BadFlavorTests, base.RTServersTestBase):
    """At the latest microversion, where Nova has validators as well."""

    MICROVERSION = 'latest'


class BadFlavorOldTest(BadFlavorTests, base.RTServersTestBase):
    """As ``openstack flavor create`` sends it."""

    MICROVERSION = '2.1'


class UnvalidatedFlavorTest(base.RTServersTestBase):
    """Made below microversion 2.86, in a nova-api without our filter."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.api.middleware.RequestValidator.process_request',
                lambda self, req: None,
            )
        )

    def assert_refused(self, flavor_says, fault_says, **specs):
        self.admin_api.microversion = '2.61'
        flavor = self.rt_flavor(flavor_says, **specs)
        self.admin_api.microversion = 'latest'
        server = self.create(flavor, state='ERROR')
        self.assertIn(fault_says, base.fault_of(server))
        self.assert_nothing_left(of=[server])

    def test_runtime_over_the_period(self):
        self.assert_refused('3000/2000', '3000')

    def test_period_out_of_the_operators_range(self):
        self.assert_refused('3000000/4000000', '4000000')

    def test_unknown_key(self):
        self.assert_refused('1400/2000', 'rt:polcy', polcy='rr')

    def test_policy(self):
        self.assert_refused('1400/2000', 'fair', policy='fair')


class BadHintTest(base.RTServersTestBase):
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

    def test_not_a_reservation(self):
        flavor = self.rt_flavor('1400/2000')
        for hint in BAD_HINTS:
            with self.case(hint):
                self.assert_refused(flavor, hint)

    def test_larger_than_the_flavor(self):
        message = self.assert_refused(self.rt_flavor('1400/2000'), '1500/2000')
        self.assertIn('750000', message)
        self.assertIn('700000', message)

    def test_on_a_plain_flavor(self):
        message = self.assert_refused(self._create_flavor(), '100/2000')
        self.assertIn(extra_specs.RESERVATION, message)

    def test_period_out_of_the_operators_range(self):
        self.assert_refused(self.rt_flavor('1400/2000'), '2000000/4000000')


class DeniedHintTest(base.RTServersTestBase):
    """The operator allows no hints."""

    def setUp(self):
        self.flags_of_ours(hints='deny')
        super().setUp()
        self.start_compute()

    def test_denied(self):
        refusal = self.assertRaises(
            client.OpenStackApiException,
            self.api.post_server,
            self.server_request(self.rt_flavor('1400/2000'), '100/2000'),
        )
        self.assertEqual(400, refusal.response.status_code)


class PolicyMixin:
    """A policy file that can be changed."""

    def override(self, rules):
        self.useFixture(
            policy_fixture.OverridePolicyFixture(rules_in_file=rules)
        )


class HintPolicyTestBase(PolicyMixin, base.RTServersTestBase):
    """A flavor that takes hints."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.flavor = self.rt_flavor('1400/2000')


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

    def test_any_user_by_default(self):
        self.override({})
        self.create(self.flavor, '100/2000')

    def test_denied(self):
        self.override({policies.HINTS: 'role:admin'})
        self.assert_forbidden('100/2000')
        # Whoever may not, does not learn what is wrong with it.
        self.assert_forbidden('3000/2000')
        self.create(self.flavor)

    def test_allowed(self):
        self.override({policies.HINTS: 'role:admin'})
        server = self.admin_api.post_server(
            self.server_request(self.flavor, '100/2000')
        )
        self._wait_for_state_change(server, 'ACTIVE')


class StoredHintTest(PolicyMixin, moves.MovesTestBase):
    """A hint stays with its server when nobody may give it any more."""

    def setUp(self):
        super().setUp()
        self.server = self.create(self.rt_flavor('1400/2000'), '100/2000')
        self.before = self.record_of(self.server)
        self.override({policies.HINTS: '!'})

    def assert_kept(self):
        rec = self.assert_held(self.server, self.host_of(self.server))
        self.assertEqual(self.before.request, rec.request)

    def test_migration(self):
        self.migrate(self.server)
        with self.as_source(self.server):
            self.api.post_server_action(
                self.server['id'], {'confirmResize': None}
            )
            self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_kept()

    def test_unshelving(self):
        self.flags(shelved_offload_time=0)
        self.api.post_server_action(self.server['id'], {'shelve': {}})
        self._wait_for_state_change(self.server, 'SHELVED_OFFLOADED')
        self.api.post_server_action(self.server['id'], {'unshelve': None})
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_kept()


@ddt.ddt
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

    @ddt.data(
        {'method': 'POST', 'path': '/servers', 'chunked': True},
        {'method': 'POST', 'path': '/servers%0a'},
        {'method': 'PUT', 'path': '/servers?_method=POST'},
    )
    def test_hint(self, way):
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

    @ddt.data(
        {'chunked': True},
        {'tail': '%0a'},
        {'tail': '?_method=POST', 'method': 'PUT'},
    )
    def test_extra_spec(self, way):
        sent = {'method': 'POST'} | way
        tail = sent.pop('tail', '')
        path = f'/flavors/{self.flavor}/os-extra_specs{tail}'
        for value, status in (('abc', 400), ('5/1000', 200)):
            body = {'extra_specs': {extra_specs.RESERVATION: value}}
            response = self.send(path=path, body=body, **sent)
            self.assertEqual(status, response.status_int)


class UncheckedHintTest(base.RTServersTestBase):
    """nova-api without our filter: the hint is still refused later."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.api.middleware.RequestValidator.process_request',
                lambda self, req: None,
            )
        )

    def test_by_the_scheduler(self):
        server = self.create(
            self.rt_flavor('1400/2000'), '1500/2000', state='ERROR'
        )
        self.assertIn('750000', base.fault_of(server))
        self.assert_nothing_left(of=[server])

    def test_by_the_compute(self):
        """A scheduler that knows nothing of us chose the host."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.scheduler.request_filter.ALL_REQUEST_FILTERS', []
            )
        )
        self.scheduler.manager.host_manager.enabled_filters = []
        server = self.create(
            self.rt_flavor('1400/2000'), '1500/2000', state='ERROR'
        )
        self.assertIn('750000', base.fault_of(server))
        self.assert_nothing_left(of=[server])


class UncheckedPolicyTest(HintPolicyTestBase):
    """nova-api without our filter: the policy holds in the scheduler."""

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.api.middleware.RequestValidator.process_request',
                lambda self, req: None,
            )
        )
        self.override({policies.HINTS: 'role:admin'})

    def test_denied(self):
        # A good one and a bad one: whoever may not, learns no more.
        for hint in ('100/2000', '3000/2000'):
            server = self.create(self.flavor, hint, state='ERROR')
            self.assertIn(policies.HINTS, base.fault_of(server))
            self.assertNotIn('RT bandwidth', base.fault_of(server))
            self.assert_nothing_left(of=[server])

    def test_several(self):
        body = self.server_request(self.flavor, '100/2000', min_count=2)
        self.api.post_server(body)
        for server in self.api.get_servers(detail=False):
            server = self._wait_for_state_change(server, 'ERROR')
            self.assertIn(policies.HINTS, base.fault_of(server))

    def test_allowed(self):
        server = self.admin_api.post_server(
            self.server_request(self.flavor, '100/2000')
        )
        self._wait_for_state_change(server, 'ACTIVE')

    def test_no_hint(self):
        self.create(self.flavor)

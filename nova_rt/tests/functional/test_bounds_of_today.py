# SPDX-License-Identifier: Apache-2.0
"""The operator allows less than when a server was created."""

import fixtures
from nova import objects
from nova.tests.fixtures import policy as policy_fixture

from nova_rt.api import policies
from nova_rt.tests.functional import base, moves


class BoundsOfTodayTest(moves.MovesTestBase):
    """A server keeps its claim wherever it goes."""

    def setUp(self):
        super().setUp()
        self.flavor = self.rt_flavor('1400/2000')
        self.hinted = self.create(self.flavor, '1000/2000')
        self.by_flavor = self.create(self.rt_flavor('400/1000'))
        self.smaller = self.rt_flavor('300/1000')
        self.flags_of_ours(hints='deny', min_period_us=10000)
        self.useFixture(
            policy_fixture.OverridePolicyFixture(
                rules_in_file={policies.HINTS: '!'}
            )
        )
        # The services read it when they start.
        for host in moves.HOSTS:
            self.restart_compute_service(host)
        self.scheduler.stop()
        self.scheduler = self.start_service('scheduler')

    def assert_kept(self, server, reservation):
        rec = self.assert_runs(server, reservation)
        self.assertEqual(rec.request.total_ppm, self.allocated(server))

    def test_migrate(self):
        for server, reservation in (
            (self.hinted, '1000/2000'), (self.by_flavor, '400/1000'),
        ):  # fmt: skip
            self.confirm(self.migrate(server))
            self.assert_kept(server, reservation)

    def test_evacuate(self):
        source = self.host_of(self.hinted)
        self.die(source)
        server = self._evacuate_server(
            self.hinted, expected_state='SHUTOFF',
            expected_migration_status='done',
        )  # fmt: skip
        self.assertEqual(self.other(source), self.host_of(server))
        self._start_server(server)
        self.assertEqual(
            '1000/2000', str(self.record_of(server).request.reservation)
        )

    def test_unshelve_and_rebuild(self):
        self._shelve_server(self.hinted)
        self._unshelve_server(self.hinted)
        self.assert_kept(self.hinted, '1000/2000')
        self._rebuild_server(
            self.hinted, '70a599e0-31e7-49b7-b260-868f441e862b'
        )
        self.assert_kept(self.hinted, '1000/2000')

    def test_new_servers_and_flavors_keep_to_them(self):
        server = self.create(self.flavor, state='ERROR')
        self.assertIn('10000', base.fault_of(server))
        self.ask_in_vain(
            self.by_flavor, 'resize', {'flavorRef': self.smaller},
            'cold_migrate',
        )  # fmt: skip
        server = self._wait_for_state_change(self.by_flavor, 'ACTIVE')
        self.assert_kept(server, '400/1000')


class CheckTypeTest(base.RTServersTestBase):
    """A hint for Nova's own use, given by a user (CVE-2026-46448)."""

    CAST_AS_CALL = False

    def create_with_hint(self, state):
        self.start_compute()
        body = self.server_request(self.rt_flavor())
        body['os:scheduler_hints'] = {'_nova_check_type': 'rebuild'}
        server = self.api.post_server(body)
        return self._wait_for_state_change(server, state)

    def test_nova_api_removes_it(self):
        self.assert_held(self.create_with_hint('ACTIVE'))

    def test_older_nova_api(self):
        """Past filters and Placement, the claim refuses the server."""
        original = objects.RequestSpec.from_components

        def add(*args, **kwargs):
            spec = original(*args, **kwargs)
            spec.scheduler_hints = {'_nova_check_type': ['rebuild']}
            return spec

        self.useFixture(
            fixtures.MockPatchObject(
                objects.RequestSpec, 'from_components', add
            )
        )
        server = self.create_with_hint('ERROR')
        self.assertIn('Placement holds 0', base.fault_of(server))
        self.assert_nothing_left(of=[server])
        self.assertEqual(0, self.used())

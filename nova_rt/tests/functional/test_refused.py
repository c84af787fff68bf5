# SPDX-License-Identifier: Apache-2.0
"""Actions that real-time servers are refused: they run on untouched."""

from nova_rt.tests.functional import base


class RefusedTest(base.RTServersTestBase):
    """Each leaves the server ACTIVE, its reservation held, and a reason."""

    ADMIN_API = True
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        self.start_compute('compute1')
        self.start_compute('compute2')
        self.flavor = self.rt_flavor()
        self.server = self.create(self.flavor)
        self.host = self.instance(self.server).host
        self.other = ({'compute1', 'compute2'} - {self.host}).pop()

    def assert_refused(self, request, action, event, text):
        self.api.post_server_action(self.server['id'], request)
        failed = self._wait_for_instance_action_event(
            self.server, action, event, 'error'
        )
        server = self._wait_for_server_parameter(
            self.server,
            {'OS-EXT-STS:task_state': None, 'status': 'ACTIVE'},
        )
        self.assertIn(text, failed['details'])
        self.assertEqual(self.host, self.instance(server).host)
        self.assert_held(server, self.host)
        self.assertEqual({}, self.claims(self.other))
        self.assertEqual(0, self.used(self.other))
        self.assertEqual(
            1,
            self.containers.started.count(self.instance(server).name),
        )

    def test_suspend(self):
        self.assert_refused(
            {'suspend': None},
            'suspend',
            'compute_suspend_instance',
            'cannot be saved',
        )

    def test_rescue(self):
        self.assert_refused(
            {'rescue': None},
            'rescue',
            'compute_rescue_instance',
            'no second root disk',
        )

    def test_live_migration(self):
        self.assert_refused(
            {'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
            'live-migration',
            'compute_check_can_live_migrate_destination',
            'use cold migration',
        )

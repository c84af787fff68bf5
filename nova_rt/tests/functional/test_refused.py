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

    def assert_refused(self, action, arguments, event, text, name=None):
        seen = self.listen(self.host)
        details = self.ask_in_vain(
            self.server, action, arguments, event, name
        )['details']
        server = self.wait_idle(self.server)
        self.assertIn(text, details)
        self.assertEqual(self.host, self.instance(server).host)
        self.assert_held(server, self.host)
        self.assertEqual({}, self.claims(self.other))
        self.assertEqual(0, self.used(self.other))
        self.assertEqual(
            1,
            self.containers.started.count(self.instance(server).name),
        )
        return [(event.uuid, event.action) for event in seen]

    def test_refused_by_its_host(self):
        for action, text in (
            ('suspend', 'cannot be saved'), ('rescue', 'no second root disk'),
        ):  # fmt: skip
            seen = self.assert_refused(
                action, None, f'compute_{action}_instance', text
            )
            self.assertEqual([(self.server['id'], action)], seen)

    def test_live_migration(self):
        self.assert_refused(
            'os-migrateLive',
            {'host': None, 'block_migration': 'auto'},
            'compute_check_can_live_migrate_destination',
            'use cold migration',
            'live-migration',
        )

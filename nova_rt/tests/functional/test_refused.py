# SPDX-License-Identifier: Apache-2.0
"""What real-time servers cannot do: refused, and they run on untouched."""

import fixtures

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
            'cannot be moved, resized or shelved',
        )

    def test_cold_migration(self):
        self.assert_refused(
            {'migrate': None},
            'migrate',
            'compute_prep_resize',
            'cannot be moved, resized or shelved',
        )

    def test_resize(self):
        self.assert_refused(
            {'resize': {'flavorRef': self.rt_flavor('700/1000')}},
            'resize',
            'compute_prep_resize',
            'cannot be moved, resized or shelved',
        )

    def test_resize_to_a_plain_flavor(self):
        self.assert_refused(
            {'resize': {'flavorRef': self._create_flavor(memory_mb=64)}},
            'resize',
            'compute_prep_resize',
            'cannot be moved, resized or shelved',
        )

    def test_shelving(self):
        images = self.images()
        self.assert_refused(
            {'shelve': None},
            'shelve',
            'compute_shelve_instance',
            'cannot be moved, resized or shelved',
        )
        # nova-api has made one for the snapshot.
        self.assertEqual(images, self.images())

    def test_shelving_of_a_server_on_a_volume(self):
        """It is offloaded without a snapshot."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.compute.utils.is_volume_backed_instance',
                lambda *args: True,
            )
        )
        self.assert_refused(
            {'shelve': None},
            'shelve',
            'compute_shelve_offload_instance',
            'cannot be moved, resized or shelved',
        )

    def images(self):
        return {image['id'] for image in self.glance.detail(self.ctxt)}

    def test_evacuation(self):
        self.computes[self.host].stop()
        self.api.put_service(
            self.api.get_services('nova-compute', self.host)[0]['id'],
            {'forced_down': True},
        )
        self.api.post_server_action(self.server['id'], {'evacuate': {}})
        self._wait_for_migration_status(self.server, ['failed'])
        server = self._wait_for_server_parameter(
            self.server,
            {'OS-EXT-STS:task_state': None, 'status': 'ACTIVE'},
        )
        self.assertEqual(self.host, self.instance(server).host)
        self.assertEqual({}, self.claims(self.other))
        self.assertEqual(0, self.used(self.other))


class PlainServerMovesTest(base.RTServersTestBase):
    """Servers of ordinary flavors are refused one thing: becoming RT."""

    ADMIN_API = True
    CAST_AS_CALL = False

    def test_resize_to_a_real_time_flavor(self):
        self.start_compute('compute1')
        self.start_compute('compute2')
        server = self.create(self._create_flavor(memory_mb=64))
        self.api.post_server_action(
            server['id'], {'resize': {'flavorRef': self.rt_flavor()}}
        )
        self._wait_for_instance_action_event(
            server, 'resize', 'compute_prep_resize', 'error'
        )
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None, 'status': 'ACTIVE'}
        )
        self.assertEqual(0, self.used('compute1') + self.used('compute2'))

# SPDX-License-Identifier: Apache-2.0
"""A service is killed in a resize, before its server leaves.

Nova ends the resize when the source starts. What Placement holds for it must
go back to what the server has.
"""

import threading

import fixtures
from nova import exception as nova_exception
from nova.virt.libvirt import driver as nova_driver

from nova_rt.compute import manager, resource_tracker
from nova_rt.tests.functional import kills
from nova_rt.tests.functional.kills import NEW, OLD

_MANAGER = manager.RTComputeManager
_TRACKER = resource_tracker.RTResourceTracker
_DRIVER = nova_driver.LibvirtDriver


class KilledTestBase(kills.KilledResizeTestBase):
    def kill_at(self, owner, name, host=None, **kwargs):
        action = {'resize': {'flavorRef': self.larger}}
        self.kill(host or self.source, action, owner, name, **kwargs)

    def assert_undone(self):
        server = self._wait_for_server_parameter(
            self.server,
            {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None},
        )
        self.assertEqual({self.source: OLD}, self.held(server['id']))
        migration = self.migration(server)
        self.assertEqual('error', migration.status)
        self.assertEqual({}, self.held(migration.uuid))
        self.assertEqual({}, self.moving_keys(server))
        self.assertIsNone(self.instance(server).migration_context)
        self.assertEqual(self.before, self.record_of(server))
        self.audit()
        self.assertEqual((OLD, 0), self.ppm(server)[self.source])
        self.assertEqual(0, self.used(self.other(self.source)))
        self.assert_runs(server, '400/1000')
        self.assert_stable(server)
        return server

    def assert_survived(self):
        """It can be resized again, to either end."""
        server = self.assert_undone()
        server = self.resize(server, self.larger)
        server = self.revert(server)
        self.assertEqual(OLD, self.allocated(server))
        self.confirm(self.resize(server, self.larger))
        self.assertEqual(NEW, self.allocated(server))
        self.assert_runs(server, '600/1000')
        self.assert_stable(server)


class SameHostTest(KilledTestBase):
    def setUp(self):
        super().setUp()
        self.stay(self.source)

    def test_claimed(self):
        self.kill_at(_TRACKER, 'resize_claim', after=True)
        self.assert_survived()

    def test_before_the_disk_moves(self):
        self.kill_at(_DRIVER, 'migrate_disk_and_power_off')
        self.assert_survived()

    def test_disk_moved(self):
        self.kill_at(_DRIVER, 'migrate_disk_and_power_off', after=True)
        self.assert_survived()

    def test_disk_of_a_stopped_server_moved(self):
        """It has its disk again, and is not started."""
        self._stop_server(self.server)
        self.kill_at(_DRIVER, 'migrate_disk_and_power_off', after=True)
        server = self._wait_for_server_parameter(
            self.server, {'status': 'SHUTOFF', 'OS-EXT-STS:task_state': None}
        )
        self.assertFalse(self.guest(server, self.source).is_active())
        self._start_server(server)
        self.assert_survived()

    def test_placement_fails(self):
        """The service starts, and an audit finds what is left."""

        def fail(*args, **kwargs):
            raise nova_exception.AllocationMoveFailed(
                source_consumer='', target_consumer='', error='conflict'
            )

        with fixtures.MockPatchObject(_MANAGER, '_revert_allocation', fail):
            self.kill_at(_DRIVER, 'migrate_disk_and_power_off')
        server = self._wait_for_server_parameter(
            self.server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )
        self.assertEqual({self.source: NEW}, self.held(server['id']))
        self.assertEqual('error', self.migration(server).status)
        self.assert_runs(server, '400/1000')


class OtherHostTest(KilledTestBase):
    def setUp(self):
        super().setUp()
        self.target = self.other(self.source)

    def test_before_the_source_begins(self):
        self.kill_at(_MANAGER, '_resize_instance')
        self.assert_survived()

    def test_before_the_disk_moves(self):
        self.kill_at(_DRIVER, 'migrate_disk_and_power_off')
        self.assert_survived()

    def test_disk_moved(self):
        self.kill_at(_DRIVER, 'migrate_disk_and_power_off', after=True)
        self.assert_survived()

    def test_destination_has_claimed(self):
        """The source may have begun, so that only its own start ends it."""
        self.kill_at(_TRACKER, 'resize_claim', self.target, after=True)
        self.assertEqual({self.target: NEW}, self.held(self.server['id']))
        self.restart_compute_service(self.source)
        self.assert_survived()

    def arrive(self, action):
        """The destination is killed before it has finished."""
        # So that the CPUs differ.
        self.create(self.rt_flavor('100/1000'), host=self.target)
        self.kill(self.target, action, _MANAGER, '_finish_resize_helper')
        self.assertEqual(self.target, self.host_of(self.server))
        self.audit()
        return self.held(self.server['id'])

    def reset(self):
        self.admin_api.post_server_action(
            self.server['id'], {'os-resetState': {'state': 'active'}}
        )

    def assert_arrived(self, asked, reservation):
        """It runs with what its new host has claimed, and holds no more."""
        server = self._wait_for_server_parameter(
            self.server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )
        rec = self.assert_runs(server, reservation)
        if rec is not None:
            self.assertNotEqual(self.before.cpus, rec.cpus)
        self.assertEqual(asked, self.held(server['id']))
        migration = self.migration(server)
        self.assertEqual('error', migration.status)
        self.assertEqual({}, self.held(migration.uuid))
        self.assertEqual({}, self.moving_keys(server))
        self.assertIsNone(self.instance(server).migration_context)
        self.audit()
        self.assertEqual(0, self.used(self.source))
        self.assert_stable(server)
        self.confirm(self.migrate(server))

    def test_left_by_resize(self):
        asked = self.arrive({'resize': {'flavorRef': self.larger}})
        self.assertEqual({self.target: NEW}, asked)
        self.reset()
        # What counts is what the destination has claimed.
        self.audit()
        self.assertEqual((NEW, 0), self.ppm(self.server)[self.target])
        self.hard_reboot(self.server)
        self.assert_arrived(asked, '600/1000')

    def test_left_by_resize_to_plain(self):
        flavor = self.plain_flavor()
        self.kill(
            self.target,
            {'resize': {'flavorRef': flavor}},
            _MANAGER,
            '_finish_resize_helper',
        )
        self.reset()
        self.hard_reboot(self.server)
        self.assert_runs(self.server, None)
        self.audit()
        self.assertEqual(0, self.used(self.source))
        self.assertEqual(0, self.used(self.target))

    def test_left_by_migration(self):
        """Reset while the service is down, and not yet audited."""
        asked = self.arrive({'migrate': None})
        self.reset()
        self.hard_reboot(self.server)
        self.assert_arrived(asked, '400/1000')

    def test_left_and_stopped(self):
        asked = self.arrive({'migrate': None})
        self.reset()
        self.api.post_server_action(self.server['id'], {'os-stop': None})
        self._wait_for_state_change(self.server, 'SHUTOFF')
        self.api.post_server_action(self.server['id'], {'os-start': None})
        self.assert_arrived(asked, '400/1000')

    def test_left_and_moved_on(self):
        self.arrive({'migrate': None})
        self.reset()
        server = self.fail_move(
            self.server, None, 'migrate', 'compute_prep_resize'
        )
        self.assertIn('hard reboot', self.reason(server))

    def test_left_at_the_start_of_the_host(self):
        self.flags(resume_guests_state_on_host_boot=True)
        asked = self.arrive({'migrate': None})
        self.reset()
        self.restart_compute_service(self.target)
        self.assert_arrived(asked, '400/1000')

    def test_before_the_destination_has_claimed(self):
        """The destination lives: what it needs stays until it gives up."""
        reached, go_on = threading.Event(), threading.Event()
        original = _MANAGER._prep_resize

        def wait(*args, **kwargs):
            reached.set()
            go_on.wait(60)
            return original(*args, **kwargs)

        self.addCleanup(go_on.set)
        self.useFixture(
            fixtures.MockPatchObject(_MANAGER, '_prep_resize', wait)
        )
        action = {'resize': {'flavorRef': self.larger}}
        self.api.post_server_action(self.server['id'], action)
        self.assertTrue(reached.wait(60))
        self.restart_compute_service(self.source)
        self.assertEqual({self.target: NEW}, self.held(self.server['id']))
        migration = self.migration(self.server)
        self.assertEqual({self.source: OLD}, self.held(migration.uuid))
        go_on.set()
        self._wait_for_assert(
            lambda: self.assertEqual(
                {self.source: OLD}, self.held(self.server['id'])
            )
        )
        self.assertEqual({}, self.held(migration.uuid))

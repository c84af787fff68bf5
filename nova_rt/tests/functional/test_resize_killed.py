# SPDX-License-Identifier: Apache-2.0
"""A service is killed in a resize, before its server leaves or arrives.

Nova ends the resize when the source starts. What Placement holds for it must
go back to what the server has.
"""

import fixtures
from nova import exception as nova_exception
from nova.virt.libvirt import driver as nova_driver

from nova_rt.compute import manager, resource_tracker
from nova_rt.tests.functional import kills
from nova_rt.tests.functional.moves import NEW, OLD
from nova_rt.tracking import servers

_MANAGER = manager.RTComputeManager
_TRACKER = resource_tracker.RTResourceTracker
_DRIVER = nova_driver.LibvirtDriver
_IMAGE = '70a599e0-31e7-49b7-b260-868f441e862b'

_BEFORE_THE_DISK = _DRIVER, 'migrate_disk_and_power_off'
_AFTER_THE_DISK = *_BEFORE_THE_DISK, True


class KilledTestBase(kills.KilledResizeTestBase):
    def kill_at(self, owner, name, after=False, host=None):
        action = {'resize': {'flavorRef': self.larger}}
        self.kill(host or self.source, action, owner, name, after)

    def assert_undone(self):
        server = self.wait_idle(self.server)
        self.assertEqual({self.source: OLD}, self.held(server['id']))
        self.assert_given_up(server)
        self.assertEqual(self.before, self.record_of(server))
        self.audit()
        self.assertEqual((OLD, 0), self.ppm(server)[self.source])
        self.assertEqual(0, self.used(self.other(self.source)))
        self.assert_runs(server, '400/1000')
        self.assert_stable(server)
        return server

    def assert_given_up(self, server):
        """Nothing is left of the move."""
        migration = self.migration(server)
        self.assertEqual('error', migration.status)
        self.assertEqual({}, self.held(migration.uuid))
        self.assertEqual({}, self.moving_keys(server))
        self.assertIsNone(self.instance(server).migration_context)

    def check(self, *steps):
        """Kill the source at each step; it survives, and moves after all."""
        for step in steps:
            with self.case(*step):
                self.kill_at(*step)
                server = self.assert_undone()
        server = self.revert(self.resize(server, self.larger))
        self.assertEqual(OLD, self.allocated(server))
        self.confirm(self.resize(server, self.larger))
        self.assertEqual(NEW, self.allocated(server))
        self.assert_runs(server, '600/1000')
        self.assert_stable(server)


class SameHostTest(KilledTestBase):
    def setUp(self):
        super().setUp()
        self.stay(self.source)

    def test_each_step(self):
        self.check(
            (_TRACKER, 'resize_claim', True), _BEFORE_THE_DISK, _AFTER_THE_DISK
        )

    def test_stopped_server(self):
        """It has its disk again, and is not started."""
        self._stop_server(self.server)
        self.kill_at(*_AFTER_THE_DISK)
        server = self.wait_idle(self.server, 'SHUTOFF')
        self.assertFalse(self.guest(server, self.source).is_active())
        self._start_server(server)
        self.assert_undone()

    def test_placement_fails(self):
        """The service starts, and an audit finds what is left."""
        failure = nova_exception.AllocationMoveFailed(
            source_consumer='', target_consumer='', error='conflict'
        )
        with fixtures.MockPatchObject(
            _MANAGER, '_revert_allocation', side_effect=failure
        ):
            self.kill_at(*_BEFORE_THE_DISK)
        server = self.wait_idle(self.server)
        self.assertEqual({self.source: NEW}, self.held(server['id']))
        self.assertEqual('error', self.migration(server).status)
        self.assert_runs(server, '400/1000')


class OtherHostTest(KilledTestBase):
    def test_each_step_of_the_source(self):
        self.check(
            (_MANAGER, '_resize_instance'), _BEFORE_THE_DISK, _AFTER_THE_DISK
        )

    def test_destination_has_claimed(self):
        """The source may have begun, so that only its own start ends it."""
        self.kill_at(_TRACKER, 'resize_claim', True, self.target)
        self.assertEqual({self.target: NEW}, self.held(self.server['id']))
        self.restart_compute_service(self.source)
        self.assert_undone()

    def test_before_the_destination_has_claimed(self):
        """The destination lives: what it needs stays until it gives up."""
        wait, go_on = self.hold_up(_MANAGER, '_prep_resize')
        action = {'resize': {'flavorRef': self.larger}}
        self.api.post_server_action(self.server['id'], action)
        wait()
        self.restart_compute_service(self.source)
        self.assertEqual({self.target: NEW}, self.held(self.server['id']))
        migration = self.migration(self.server)
        self.assertEqual({self.source: OLD}, self.held(migration.uuid))
        go_on()
        self._wait_for_assert(
            lambda: self.assertEqual(
                {self.source: OLD}, self.held(self.server['id'])
            )
        )
        self.assertEqual({}, self.held(migration.uuid))


class ArrivalTest(KilledTestBase):
    """The destination is killed before it has finished.

    Somebody sets the state back, and a start of the server ends the move.
    """

    def arrive(self, action):
        """Move the server, and set its state back."""
        self.kill(self.target, action, _MANAGER, '_finish_resize_helper')
        self.assertEqual(self.target, self.host_of(self.server))
        self.audit()
        self.reset(self.server)

    def assert_arrived(self, asked, reservation):
        """It runs with what its new host has claimed, and holds no more."""
        server = self.wait_idle(self.server)
        rec = self.assert_runs(server, reservation)
        self.assertNotEqual(self.before.cpus, rec.cpus)
        self.assertEqual(asked, self.held(server['id']))
        self.assert_given_up(server)
        self.audit()
        self.assertEqual(0, self.used(self.source))
        self.assert_stable(server)
        self.confirm(self.migrate(server))

    def start_again(self):
        self._stop_server(self.server)
        self._start_server(self.server)

    def start_with_host(self):
        self.flags(resume_guests_state_on_host_boot=True)
        self.restart_compute_service(self.target)

    def rebuild(self, result='success'):
        self.api.post_server_action(
            self.server['id'], {'rebuild': {'imageRef': _IMAGE}}
        )
        self._wait_for_instance_action_event(
            self.server, 'rebuild', 'compute_rebuild_instance', result
        )

    def test_each_start(self):
        # So that the CPUs differ.
        self.create(self.rt_flavor('100/1000'), host=self.target)
        for start in (
            lambda: self.hard_reboot(self.server),
            self.start_again,
            self.rebuild,
            self.start_with_host,
        ):
            with self.case(start):
                self.arrive({'migrate': None})
                asked = self.held(self.server['id'])
                start()
                self.assert_arrived(asked, '400/1000')

    def test_other_flavor(self):
        """The claim of the destination is what counts."""
        self.create(self.rt_flavor('100/1000'), host=self.target)
        instance = self.instance(self.server)
        # A change of the old flavor, which the resize ends.
        instance.system_metadata[servers.CHANGED] = f'3 {instance.flavor.id}'
        instance.save()
        self.arrive({'resize': {'flavorRef': self.larger}})
        asked = self.held(self.server['id'])
        self.assertEqual({self.target: NEW}, asked)
        self.audit()
        self.assertEqual((NEW, 0), self.ppm(self.server)[self.target])
        self.hard_reboot(self.server)
        self.assert_arrived(asked, '600/1000')
        metadata = self.instance(self.server).system_metadata
        self.assertEqual('3 0', metadata[servers.CHANGED])
        self.assertNotIn(servers.OLD_CHANGED, metadata)

    def test_plain_flavor(self):
        self.arrive({'resize': {'flavorRef': self.plain_flavor()}})
        self.hard_reboot(self.server)
        self.assert_runs(self.server, None)
        self.audit()
        self.assertEqual(0, self.used(self.source))
        self.assertEqual(0, self.used(self.target))

    def test_moved_on(self):
        self.arrive({'migrate': None})
        server = self.fail_move(
            self.server, None, 'migrate', 'compute_prep_resize'
        )
        self.assertIn('hard reboot', self.reason(server))

    def test_rebuild_fails(self):
        """Nothing is destroyed before the move has ended; claims stay."""
        self.create(self.rt_flavor('100/1000'), host=self.target)
        self.arrive({'resize': {'flavorRef': self.larger}})
        asked = self.held(self.server['id'])
        disk = self.disk(self.instance(self.server))
        disk.write_text('of the customer')
        for broken in (
            'nova.network.neutron.API.migrate_instance_finish',
            'nova.virt.libvirt.driver.LibvirtDriver.spawn',
        ):
            self.assertEqual('of the customer', disk.read_text())
            with fixtures.MockPatch(broken, side_effect=RuntimeError('no')):
                self.rebuild('error')
        self.rebuild()
        self.assert_arrived(asked, '600/1000')

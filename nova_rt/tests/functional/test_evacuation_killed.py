# SPDX-License-Identifier: Apache-2.0
"""The destination's service is killed in the middle of an evacuation."""

import fixtures
from nova import exception as nova_exception
from nova import objects
from nova.virt.libvirt import driver as nova_driver

from nova_rt.compute import manager, resource_tracker
from nova_rt.lxc import containers
from nova_rt.tests.functional import kills

_MANAGER = manager.RTComputeManager
_TRACKER = resource_tracker.RTResourceTracker
_DRIVER = nova_driver.LibvirtDriver


class KilledTest(kills.KilledResizeTestBase):
    RESERVATION, HINT = '1400/2000', '1000/2000'

    def setUp(self):
        super().setUp()
        self.die(self.source)

    def kill_at(self, owner, name, after=False):
        """Evacuate, and kill the destination; see :meth:`kill`."""
        self.kill(self.target, {'evacuate': {}}, owner, name, after)

    def evacuate(self):
        server = self._evacuate_server(self.server, expected_state='ACTIVE')
        self.assertEqual(self.target, self.host_of(server))
        rec = self.record_of(server)
        self.assertEqual(self.before.request, rec.request)
        self.assertEqual((rec, None), self.slots(server, self.target))
        return server

    def assert_here(self, server):
        """It lives on, and nothing is left of what came before."""
        self.assertEqual({}, self.moving_keys(server))
        self.assertEqual(500_000, self.allocated(server))
        self.assert_runs(server, '1000/2000')
        self.assert_stable(server)

    def assert_undone(self):
        """Nothing is at the destination; the server has an error."""
        server = self._wait_for_server_parameter(
            self.server,
            {'status': 'ERROR', 'OS-EXT-STS:task_state': None},
            wait_for_fault_key=False,
        )
        self.assertEqual(self.source, self.host_of(server))
        self.assertEqual(self.before, self.record_of(server))
        self.assertEqual({}, self.moving_keys(server))
        self.assertEqual((None, None), self.slots(server, self.target))
        self.assertEqual(0, self.used(self.target))
        self.assertEqual(500_000, self.allocated(server))
        self.assertEqual(0, self.running(self.target))
        self.assertNotIn(server['id'], self.domains(self.target))
        self.assertEqual(set(), self.mounted)
        self.assertEqual('failed', self.migration(server).status)
        self.assertTrue(self.disk(self.instance(server)).exists())
        self.audit_host(self.target)
        self.assert_sums([self.target])

    def test_each_step(self):
        for step in (
            (_TRACKER, 'rebuild_claim', True),
            (_DRIVER, 'spawn'),
            (containers.ContainerDriver, '_create_domain_setup_lxc', True),
            (_DRIVER, 'spawn', True),
            (_TRACKER, 'finish_evacuation'),
        ):
            with self.case(*step):
                self.kill_at(*step)
                self.assert_undone()
        server = self.evacuate()
        self.come_back(self.source)
        self.assert_here(server)

    def test_here_but_not_over(self):
        """Nothing is lost but the word that it is over."""
        self.kill_at(objects.Instance, 'drop_migration_context')
        self.assertEqual('done', self.migration(self.server).status)
        self.assertIsNone(self.instance(self.server).migration_context)
        self.come_back(self.source)
        server = self._start_server(self.server)
        self.assertEqual(self.target, self.host_of(server))
        self.assert_here(server)

    def lose_the_first(self):
        """Evacuate it by a second request: the first stays accepted."""
        self.kill_at(_MANAGER, '_do_rebuild_instance_with_claim')
        self.assertEqual((0, 0), self.ppm(self.server)[self.target])
        self.assertEqual('accepted', self.migration(self.server).status)
        # Nova waits without end; the operator does not.
        self.reset(self.server, 'error')
        return self.evacuate()

    def list_statuses(self):
        return [
            each.status
            for each in objects.MigrationList.get_by_filters(
                self.ctxt, {'instance_uuid': self.server['id']}
            )
        ]

    def test_before_the_claim(self):
        """A source that may be another host ends nothing; then it does."""
        server = self.lose_the_first()
        before = self.list_statuses()
        self.assertIn('accepted', before)
        renamed = nova_exception.InvalidConfiguration('Possible rename')
        with fixtures.MockPatchObject(
            _MANAGER, '_check_for_host_rename', side_effect=renamed
        ):
            self.fail_restart(self.source)
        self.assertEqual(before, self.list_statuses())
        # Nova ends one evacuation of a server in each start, and refuses this
        # as long as there is another.
        self.come_back(self.source)
        self.assert_here(server)

    def test_deleted_after_two_requests(self):
        """The source starts all the same."""
        self.lose_the_first()
        self._delete_server(self.server)
        self.come_back(self.source)
        self.assert_nothing_left(self.target, [self.server])

    def test_deleted(self):
        self.kill_at(_DRIVER, 'spawn')
        self.assert_undone()
        self._delete_server(self.server)
        self.audit_host(self.target)
        self.assert_nothing_left(self.target, [self.server])

    def test_source_comes_back(self):
        """Its container has run there all the time."""
        self.kill_at(_DRIVER, 'spawn', after=True)
        self.assert_undone()
        self.come_back(self.source)
        self.reset(self.server)
        server = self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual(self.source, self.host_of(server))
        self.assert_here(server)

    def test_cannot_be_undone_now(self):
        """The service starts all the same."""
        busy = nova_exception.NovaException('libvirt is busy')
        with fixtures.MockPatchObject(_DRIVER, 'destroy', side_effect=busy):
            self.kill_at(_DRIVER, 'spawn')
        self.assertEqual('pre-migrating', self.migration(self.server).status)
        self.assertEqual((500_000, 0), self.ppm(self.server)[self.target])
        self.restart_compute_service(self.target)
        self.assert_undone()

    def test_plain_server(self):
        """Nova's own matter."""
        self.come_back(self.source)
        self.server = self.create(self.plain_flavor(), host=self.source)
        self.die(self.source)
        self.kill_at(_DRIVER, 'spawn')
        self.assertEqual('pre-migrating', self.migration(self.server).status)

# SPDX-License-Identifier: Apache-2.0
"""Shelved servers: what they hold, who has it meanwhile, where they return."""

import fixtures

from nova_rt import events, exception
from nova_rt.reservation import record
from nova_rt.tests.functional import base


class ShelveTestBase(base.RTServersTestBase):
    ADMIN_API = True
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        self.start_compute('compute1')

    def shelve(self, server):
        self.api.post_server_action(server['id'], {'shelve': {}})
        return self._wait_for_state_change(server, 'SHELVED_OFFLOADED')

    def unshelve(self, server, **where):
        self.api.post_server_action(server['id'], {'unshelve': where or None})
        return self._wait_for_state_change(server, 'ACTIVE')

    def assert_offloaded(self, server, before):
        """It is nowhere; what it asks for is kept."""
        instance = self.instance(server)
        self.assertEqual('shelved_offloaded', instance.vm_state)
        self.assertIsNone(instance.task_state)
        self.assertIsNone(instance.host)
        rec = self.record_of(server)
        self.assertEqual((), rec.cpus)
        self.assertEqual(before.request, rec.request)
        self.assertFalse(self.disk(instance).parent.exists())
        for hostname in self.computes:
            self.assert_nothing_left(hostname, of=[server])

    def assert_unshelving_fails(self, server, event, *texts, **where):
        self.api.post_server_action(server['id'], {'unshelve': where or None})
        failed = self._wait_for_instance_action_event(
            server, 'unshelve', event, 'error'
        )
        self._wait_for_server_parameter(
            server,
            {'status': 'SHELVED_OFFLOADED', 'OS-EXT-STS:task_state': None},
        )
        for text in texts:
            self.assertIn(text, failed['details'])


class ShelveTest(ShelveTestBase):
    """Shelved and kept on its host, by [DEFAULT] shelved_offload_time."""

    def setUp(self):
        super().setUp()
        self.flags(shelved_offload_time=-1)

    def test_start(self):
        server = self.create(self.rt_flavor())
        before = self.assert_held(server)
        self.disk(self.instance(server)).write_text('its own')
        self.api.post_server_action(server['id'], {'shelve': {}})
        self._wait_for_state_change(server, 'SHELVED')
        # As when it is stopped.
        self.assertFalse(self.guest(server).is_active())
        self.assertEqual(before, self.record_of(server))
        self.assertEqual(before, self.claims()[server['id']])
        self.assertEqual(600_000, self.used())
        self.assertEqual(set(), self.mounted)
        self.unshelve(server)
        self.assertEqual(before, self.assert_held(server))
        disk = self.disk(self.instance(server))
        self.assertEqual('its own', disk.read_text())

    def test_offload_later(self):
        server = self.create(self.rt_flavor())
        before = self.record_of(server)
        self.api.post_server_action(server['id'], {'shelve': {}})
        self._wait_for_state_change(server, 'SHELVED')
        self.api.post_server_action(server['id'], {'shelveOffload': {}})
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        self.assert_offloaded(server, before)


class OffloadTest(ShelveTestBase):
    def test_there_and_back(self):
        server = self.create(self.rt_flavor('400/1000'))
        before = self.assert_held(server)
        seen = self.listen()
        self.shelve(server)
        self.assert_offloaded(server, before)
        self.assertEqual({}, self.claims())
        self.assertEqual(self.capacity(), self.published())
        self.assertEqual([events.Released(server['id'], before)], seen)
        # Its CPU of old is taken meanwhile.
        other = self.create(self.rt_flavor('400/1000'))
        self.assertEqual(before.cpus, self.record_of(other).cpus)
        self.unshelve(server)
        self.assertNotEqual(before.cpus, self.assert_held(server).cpus)
        self.assert_held(other)
        self.assertEqual(800_000, self.used())

    def test_from_the_snapshot(self):
        server = self.create(self.rt_flavor())
        first = self.instance(server).image_ref
        self.shelve(server)
        snapshot = self.instance(server).system_metadata['shelved_image_id']
        self.unshelve(server)
        instance = self.instance(server)
        self.assertEqual(f'image {snapshot}', self.disk(instance).read_text())
        self.assertEqual(first, instance.image_ref)
        self.assert_held(server)

    def test_hint(self):
        server = self.create(self.rt_flavor('600/1000'), '300/1000')
        before = self.assert_held(server)
        self.shelve(server)
        self.assert_offloaded(server, before)
        self.unshelve(server)
        rec = self.assert_held(server)
        self.assertEqual('300/1000', str(rec.request.reservation))
        self.assertEqual(300_000, self.used())

    def test_delete(self):
        server = self.create(self.rt_flavor())
        self.shelve(server)
        self._delete_server(server)
        self.assert_nothing_left(of=[server])

    def test_restart_of_the_service(self):
        server = self.create(self.rt_flavor())
        before = self.record_of(server)
        self.shelve(server)
        self.restart_compute_service('compute1')
        self.assert_offloaded(server, before)
        self.unshelve(server)
        self.assert_held(server)

    def test_record_and_state_change_together(self):
        """Nova is interrupted as soon as it has saved that it is offloaded."""
        server = self.create(self.rt_flavor())

        class Interrupted(Exception):
            pass

        def interrupt(*args):
            raise Interrupted

        patched = fixtures.MonkeyPatch(
            'nova.compute.manager.ComputeManager._update_resource_tracker',
            interrupt,
        )
        with patched:
            self.api.post_server_action(server['id'], {'shelve': {}})
            self._wait_for_instance_action_event(
                server, 'shelve', 'compute_shelve_instance', 'error'
            )
        self.assertEqual('shelved_offloaded', self.instance(server).vm_state)
        self.assertEqual((), self.record_of(server).cpus)
        self.assertEqual(0, self.allocated(server))
        # The next audit releases the claim.
        self._run_periodics()
        self.assertEqual({}, self.claims())
        self.unshelve(server)
        self.assert_held(server)

    def test_server_on_a_volume(self):
        """It is offloaded without a snapshot."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.compute.utils.is_volume_backed_instance',
                lambda *args: True,
            )
        )
        server = self.create(self.rt_flavor())
        before = self.record_of(server)
        self.shelve(server)
        self.assert_offloaded(server, before)

    def test_plain_server(self):
        server = self.create(self._create_flavor(memory_mb=64))
        self.shelve(server)
        self.assertNotIn(record.KEY, self.instance(server).system_metadata)
        self.unshelve(server)
        self.assertTrue(self.guest(server).is_active())


class UnshelveTest(ShelveTestBase):
    """The host that a server returns to, and what happens if it cannot."""

    def setUp(self):
        super().setUp()
        self.server = self.create(self.rt_flavor('600/1000'))
        self.before = self.record_of(self.server)
        self.shelve(self.server)

    def assert_left(self):
        self.assert_offloaded(self.server, self.before)

    def test_other_host(self):
        self.start_compute('compute2')
        self.unshelve(self.server, host='compute2')
        self.assert_held(self.server, 'compute2')
        self.assertEqual(0, self.used('compute1'))
        self.assertEqual({}, self.claims('compute1'))

    def test_availability_zone(self):
        self.start_compute('compute2')
        aggregate = self.api.post_aggregate(
            {'aggregate': {'name': 'a', 'availability_zone': 'far'}}
        )
        self.api.add_host_to_aggregate(aggregate['id'], 'compute2')
        self.unshelve(self.server, availability_zone='far')
        self.assert_held(self.server, 'compute2')

    def fill(self):
        for _ in range(self.CPUS):
            self.create(self.rt_flavor('600/1000'))

    def test_no_room(self):
        self.fill()
        self.assert_unshelving_fails(
            self.server, 'schedule_instances', 'asked 600000 ppm', 'free '
        )
        self.assertEqual(0, self.allocated(self.server))
        self.assertNotIn(self.server['id'], self.claims())
        self.assertEqual((), self.record_of(self.server).cpus)
        self.assertEqual(self.CPUS * 600_000, self.used())

    def test_no_room_on_the_host_that_was_asked_for(self):
        self.fill()
        self.start_compute('compute2')
        self.assert_unshelving_fails(
            self.server, 'schedule_instances', host='compute1'
        )
        self.assertEqual(0, self.allocated(self.server))
        self.unshelve(self.server, host='compute2')
        self.assert_held(self.server, 'compute2')

    def test_room_is_gone_before_it_is_claimed(self):
        def claim(this, claims, asked):
            raise exception.InsufficientBandwidth(
                asked.reservation.ppm, asked.vcpus, (123,),
                'somebody was faster',
            )  # fmt: skip

        seen = self.listen()
        with fixtures.MonkeyPatch('nova_rt.host.host.Host.place', claim):
            self.assert_unshelving_fails(
                self.server, 'compute_unshelve_instance', 'free 123 ppm'
            )
        self.assert_left()
        (refused,) = seen
        self.assertEqual(events.Action.CLAIM, refused.action)
        self.unshelve(self.server)
        self.assert_held(self.server)

    def test_files_would_belong_to_nobody(self):
        """The snapshot has the disk of a host that mapped more users."""
        with self.owners_of_others():
            self.assert_unshelving_fails(
                self.server, 'compute_unshelve_instance', '0-99999', '0-65535'
            )
        self.assert_left()
        self.unshelve(self.server)
        self.assert_held(self.server)

    def test_kernel_refuses(self):
        self.refuse_writes()
        self.assert_unshelving_fails(
            self.server, 'compute_unshelve_instance', 'EINVAL'
        )
        self.assert_left()

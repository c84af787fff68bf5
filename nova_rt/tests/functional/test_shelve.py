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

    def unshelve(self, server, **where):
        return self.ask_for(server, 'unshelve', where or None)

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
        failed = self.ask_in_vain(server, 'unshelve', where or None, event)
        self.wait_idle(server, 'SHELVED_OFFLOADED')
        for text in texts:
            self.assertIn(text, failed['details'])


class OffloadTest(ShelveTestBase):
    def test_offload_later(self):
        """Kept on its host, by [DEFAULT] shelved_offload_time, then not."""
        self.flags(shelved_offload_time=-1)
        server = self.create(self.rt_flavor())
        before = self.assert_held(server)
        self.disk(self.instance(server)).write_text('its own')
        self._shelve_server(server, 'SHELVED')
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
        self._shelve_server(server, 'SHELVED')
        self.ask_for(server, 'shelveOffload', {}, 'SHELVED_OFFLOADED')
        self.assert_offloaded(server, before)

    def test_there_and_back(self):
        server = self.create(self.rt_flavor('400/1000'))
        before = self.assert_held(server)
        seen = self.listen()
        self._shelve_server(server)
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

    def test_restart_of_the_service(self):
        """Its snapshot and its hint are what it comes back with."""
        server = self.create(self.rt_flavor('600/1000'), '300/1000')
        before = self.assert_held(server)
        first = self.instance(server).image_ref
        self._shelve_server(server)
        self.restart_compute_service('compute1')
        self.assert_offloaded(server, before)
        snapshot = self.instance(server).system_metadata['shelved_image_id']
        self.unshelve(server)
        instance = self.instance(server)
        self.assertEqual(f'image {snapshot}', self.disk(instance).read_text())
        self.assertEqual(first, instance.image_ref)
        rec = self.assert_held(server)
        self.assertEqual('300/1000', str(rec.request.reservation))
        self.assertEqual(300_000, self.used())
        self._shelve_server(server)
        self._delete_server(server)
        self.assert_nothing_left(of=[server])

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

    def test_servers_of_other_kinds(self):
        plain = self.create(self.plain_flavor())
        self._shelve_server(plain)
        self.assertNotIn(record.KEY, self.instance(plain).system_metadata)
        self.unshelve(plain)
        self.assertTrue(self.guest(plain).is_active())
        # It is offloaded without a snapshot.
        self.stub_out(
            'nova.compute.utils.is_volume_backed_instance', lambda *args: True
        )
        on_volume = self.create(self.rt_flavor())
        before = self.record_of(on_volume)
        self._shelve_server(on_volume)
        self.assert_offloaded(on_volume, before)


class UnshelveTest(ShelveTestBase):
    """The host that a server returns to, and what happens if it cannot."""

    def setUp(self):
        super().setUp()
        self.server = self.create(self.rt_flavor('600/1000'))
        self.before = self.record_of(self.server)
        self._shelve_server(self.server)

    def test_other_host(self):
        self.start_compute('compute2')
        aggregate = self.api.post_aggregate(
            {'aggregate': {'name': 'a', 'availability_zone': 'far'}}
        )
        self.api.add_host_to_aggregate(aggregate['id'], 'compute2')
        for where in {'host': 'compute2'}, {'availability_zone': 'far'}:
            self.unshelve(self.server, **where)
            self.assert_held(self.server, 'compute2')
            self.assertEqual(0, self.used('compute1'))
            self.assertEqual({}, self.claims('compute1'))
            self._shelve_server(self.server)

    def test_no_room(self):
        for _ in range(self.CPUS):
            self.create(self.rt_flavor('600/1000'))
        self.assert_unshelving_fails(
            self.server, 'schedule_instances', 'asked 600000 ppm', 'free '
        )
        self.assertEqual(0, self.allocated(self.server))
        self.assertNotIn(self.server['id'], self.claims())
        self.assertEqual((), self.record_of(self.server).cpus)
        self.assertEqual(self.CPUS * 600_000, self.used())
        # Room elsewhere is no room on the host that is asked for.
        self.start_compute('compute2')
        self.assert_unshelving_fails(
            self.server, 'schedule_instances', host='compute1'
        )
        self.assertEqual(0, self.allocated(self.server))
        self.unshelve(self.server, host='compute2')
        self.assert_held(self.server, 'compute2')

    def test_compute_refuses(self):
        """A claim that comes too late, files of nobody, and the kernel."""
        seen = self.listen()
        event = 'compute_unshelve_instance'
        faster = exception.InsufficientBandwidth(
            600_000, 1, (123,), 'somebody was faster'
        )
        with fixtures.MockPatch(
            'nova_rt.host.host.Host.place', side_effect=faster
        ):
            self.assert_unshelving_fails(self.server, event, 'free 123 ppm')
        self.assert_offloaded(self.server, self.before)
        (refused,) = seen
        self.assertEqual(events.Action.CLAIM, refused.action)
        # The snapshot has the disk of a host that mapped more users.
        with self.owners_of_others():
            self.assert_unshelving_fails(
                self.server, event, '0-99999', '0-65535'
            )
        self.assert_offloaded(self.server, self.before)
        self.refuse_writes()
        self.assert_unshelving_fails(self.server, event, 'EINVAL')
        self.assert_offloaded(self.server, self.before)
        self.refuse_writes(0)
        self.unshelve(self.server)
        self.assert_held(self.server)

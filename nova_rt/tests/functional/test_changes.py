# SPDX-License-Identifier: Apache-2.0
"""A reservation is changed while its server runs."""

import errno

import fixtures
from nova import exception as nova_exception
from nova.compute import task_states
from nova.scheduler.client import report
from nova.tests.functional.api import client

from nova_rt import events
from nova_rt.formats.changes import Condition
from nova_rt.tests.functional import changes
from nova_rt.tracking import servers
from nova_rt.virt.libvirt import running


class ChangesTest(changes.ChangesTestBase):
    def test_grow_and_shrink(self):
        before = self.record_of(self.server)
        for reservation in ('600/1000', '60/100', '100/1000', '400/1000'):
            answer = self.change(self.server, reservation)
            self.assertEqual(reservation, answer.actual)
            rec = self.assert_changed(reservation)
            self.assertEqual(before.cpus, rec.cpus)

    def test_one_write(self):
        """The container never has less than the smaller of both."""
        del self.kernel.writes[:]
        self.change(self.server, '600/1000')
        self.change(self.server, '300/500')
        self.change(self.server, '100/1000')
        self.assertEqual(
            ['600 1000', '300 500', '100 1000'],
            [
                text
                for path, text in self.writes(self.host)
                if path.name == 'cpu.rt.max'
            ],
        )

    def test_the_same_again(self):
        del self.kernel.writes[:]
        self.change(self.server, '400/1000')
        self.assertEqual([], self.writes(self.host))
        self.assert_changed('400/1000')
        generation = servers.read_generation(self.instance(self.server))
        answer = self.ask_change(
            self.server, '400/1000', generation=generation
        )
        self.assertEqual(Condition.APPLIED, answer.condition)

    def test_other_cpus(self):
        """Its own has no room, another one has."""
        others = self.fill('500/1000', 4)
        shared = [
            each
            for each in others
            if self.record_of(each).cpus == self.record_of(self.server).cpus
        ]
        self.assertEqual(1, len(shared))
        others.remove(shared[0])
        self._delete_server(others[0])
        before = self.record_of(self.server)
        del self.kernel.writes[:]
        self.change(self.server, '700/1000')
        rec = self.assert_changed('700/1000')
        self.assertNotEqual(before.cpus, rec.cpus)
        # It moves while it is small.
        self.assertEqual(
            ['cpuset.cpus', 'cpu.rt.max'],
            [path.name for path, _ in self.writes(self.host)],
        )
        self.hard_reboot(self.server)
        self.assert_changed('700/1000')

    def test_stopped(self):
        self._stop_server(self.server)
        self.change(self.server, '600/1000')
        self.assertEqual(
            '600/1000',
            str(self.record_of(self.server).request.reservation),
        )
        self.assertEqual(600_000, self.allocated(self.server))
        self._start_server(self.server)
        self.assert_changed('600/1000')

    def test_no_room(self):
        self.fill('500/1000', 4)
        answer = self.change(self.server, '600/1000', Condition.DEFERRED)
        self.assertEqual(600_000, answer.asked_ppm)
        self.assertLess(answer.free_ppm, 600_000)
        self.assertIn('CPU of its own', answer.rule)
        self.assert_changed('400/1000')

    def test_too_large(self):
        answer = self.change(self.server, '999/1000', Condition.INFEASIBLE)
        self.assertEqual(999_000, answer.asked_ppm)
        self.assert_changed('400/1000')

    def test_placement_has_no_room(self):
        """Another consumer holds what no server has claimed."""
        self.take_in_placement(but=500_000)
        answer = self.change(self.server, '600/1000', Condition.DEFERRED)
        self.assertEqual((600_000, 500_000), (
            answer.asked_ppm, answer.free_ppm))  # fmt: skip
        self.assertIn('Placement', answer.rule)
        self.assert_ended(self.server, '400/1000', self.host)

    def test_placement_holds_nothing(self):
        """The server does not wait for that: it can be used."""
        self.placement.delete(f'/allocations/{self.server["id"]}')
        self.change(self.server, '600/1000', Condition.IN_PROGRESS)
        instance = self.instance(self.server)
        self.assertIsNone(instance.task_state)
        self.assertNotIn(servers.CHANGE, instance.system_metadata)

    def test_journal_that_cannot_be_read(self):
        """The server keeps its record, and can be used again."""
        manager = self.computes[self.host].manager
        for end in (
            lambda: manager._settle_changes(self.ctxt),
            lambda: self.restart_compute_service(self.host),
            lambda: self.change(self.server, '400/1000'),
        ):
            instance = self.instance(self.server)
            instance.system_metadata[servers.CHANGE] = 'v=9'
            instance.task_state = task_states.RESIZE_PREP
            instance.save()
            manager.rt.update_available_resource(self.ctxt, self.host)
            end()
            self.assert_changed('400/1000')
            manager = self.computes[self.host].manager

    def test_the_kernel_refuses(self):
        for reservation in ('600/1000', '200/1000'):
            self.refuse_writes(errno.EINVAL, self.host)
            answer = self.ask_change(self.server, reservation)
            self.assertEqual(Condition.INFEASIBLE, answer.condition)
            self.refuse_writes(0, self.host)
            self.assert_changed('400/1000')

    def test_a_task(self):
        """nova-api refuses one during the other, both ways."""
        instance = self.instance(self.server)
        instance.task_state = task_states.REBOOTING
        instance.save()
        answer = self.change(self.server, '600/1000', Condition.IN_PROGRESS)
        self.assertIn(task_states.REBOOTING, answer.reason)
        instance.task_state = None
        instance.save()

        original = running.RunningContainers.change

        def change(*args):
            err = self.assertRaises(
                client.OpenStackApiException,
                self.api.post_server_action,
                self.server['id'], {'migrate': None},
            )  # fmt: skip
            self.assertEqual(409, err.response.status_code)
            return original(*args)

        with fixtures.MockPatchObject(
            running.RunningContainers, 'change', change
        ):
            self.change(self.server, '600/1000')
        self.assert_changed('600/1000')

    def test_not_here(self):
        answer = self.ask_change(
            self.server, '600/1000', host=self.other(self.host)
        )
        self.assertEqual(
            (Condition.IN_PROGRESS, self.host), (answer.condition, answer.host)
        )
        self._delete_server(self.server)
        endpoint = self.computes[self.host].manager.rt_changes
        found = endpoint.change_reservation(
            self.ctxt, self.server['id'], 9, 1, '600/1000'
        )
        self.assertTrue(found['gone'])

    def test_generations(self):
        """An older request that comes late changes nothing."""
        self.change(self.server, '600/1000')
        self.change(self.server, '500/1000')
        answer = self.ask_change(self.server, '600/1000', generation=1)
        self.assertEqual(Condition.INFEASIBLE, answer.condition)
        self.assert_changed('500/1000')

    def test_plain(self):
        server = self.create(self.plain_flavor())
        answer = self.ask_change(server, '100/1000')
        self.assertEqual(Condition.INFEASIBLE, answer.condition)


class V1Test(changes.ChangesTestBase):
    """A kernel that sums over the host, and limits."""

    INTERFACE = 'v1-throttle'

    def test_grow_and_shrink(self):
        for reservation in '600/1000', '20/100', '100/1000':
            self.change(self.server, reservation)
            self.assert_changed(reservation)

    def test_no_room(self):
        self.fill('300/1000', 1)
        self.change(self.server, '600/1000')
        answer = self.change(self.server, '700/1000', Condition.DEFERRED)
        self.assertIn('sums over the whole host', answer.rule)
        self.assert_changed('600/1000')


class SoftTest(changes.ChangesTestBase):
    """A host on which each period costs something."""

    INTERFACE = 'v2-sched-ext'

    def test_another_period(self):
        """Less bandwidth in a shorter period takes more of a CPU."""
        owner = self.computes[self.host].manager.rt
        end, seen = owner.rt_end_change, []

        def look(*args, **kwargs):
            seen.append(
                [
                    str(each.request.reservation)
                    for each in self.all_claims(self.host)
                ]
            )
            return end(*args, **kwargs)

        with fixtures.MockPatchObject(owner, 'rt_end_change', look):
            for reservation in '78/200', '400/1000':
                self.change(self.server, reservation)
                self.assert_changed(reservation)
        self.assertEqual([['78/200'], ['78/200']], seen)


class LaterTest(changes.ChangesTestBase):
    """All that is done to a server later uses the changed reservation."""

    def setUp(self):
        super().setUp()
        self.change(self.server, '600/1000')

    def test_verified(self):
        self.lose_reservation(self.server, self.host)
        self.computes[self.host].manager.driver.running.verify_all()
        self.assert_changed('600/1000')

    def test_restart(self):
        self.restart_compute_service(self.host)
        self.audit()
        self.assert_changed('600/1000')

    def test_reboot_and_rebuild(self):
        self.hard_reboot(self.server)
        self.assert_changed('600/1000')
        self.api.post_server_action(
            self.server['id'],
            {'rebuild': {'imageRef': '155d900f-4e14-4e4c-a73d-069cbf4541e6'}},
        )
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_changed('600/1000')

    def test_migrate(self):
        self.confirm(self.migrate(self.server))
        self.assert_changed('600/1000', self.other(self.host))

    def test_migrate_and_revert(self):
        self.revert(self.migrate(self.server))
        self.assert_changed('600/1000')

    def test_shelve(self):
        self.flags(shelved_offload_time=0)
        self.api.post_server_action(self.server['id'], {'shelve': None})
        self._wait_for_state_change(self.server, 'SHELVED_OFFLOADED')
        self.api.post_server_action(self.server['id'], {'unshelve': None})
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_changed('600/1000', self.host_of(self.server))

    def test_evacuate(self):
        self.die(self.host)
        self.api.post_server_action(self.server['id'], {'evacuate': {}})
        server = self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None,
                          'OS-EXT-SRV-ATTR:host': self.other(self.host)}
        )  # fmt: skip
        self.api.post_server_action(server['id'], {'os-start': None})
        self._wait_for_state_change(server, 'ACTIVE')
        rec = self.record_of(server)
        self.assertEqual('600/1000', str(rec.request.reservation))

    def test_resize(self):
        """Another flavor ends the change; its revert brings it back."""
        smaller = self.rt_flavor('300/1000')
        self.resize(self.server, smaller)
        self.assertFalse(servers.is_changed(self.instance(self.server)))
        self.revert(self.server)
        self.assertTrue(servers.is_changed(self.instance(self.server)))
        self.assert_changed('600/1000')
        self.confirm(self.resize(self.server, smaller))
        host = self.host_of(self.server)
        self.assert_changed('300/1000', host)

    def test_resized(self):
        """A resize that waits for its end is in the way."""
        self.resize(self.server, self.rt_flavor('300/1000'))
        answer = self.ask_change(self.server, '500/1000')
        self.assertEqual(Condition.IN_PROGRESS, answer.condition)
        self.assertIn('resized', answer.reason)


class FaultsTest(changes.ChangesTestBase):
    """Placement, or a database, is away at each step."""

    def break_placement(self, name, error, times=1):
        """The next calls of a method of Placement's client fail."""
        owner = report.SchedulerReportClient
        original = getattr(owner, name)
        left = [times]

        def call(*args, **kwargs):
            if left[0]:
                left[0] -= 1
                raise error
            return original(*args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(owner, name, call))

    def test_placement_is_away(self):
        """More is claimed than the kernel holds, never less."""
        for name, reservation, times, claimed in (
            # Neither the change nor the way back can be told to it.
            ('get_allocs_for_consumer', '600/1000', 2, 600_000),
            # It has taken neither.
            ('put_allocations', '600/1000', 1, 400_000),
            ('get_allocs_for_consumer', '200/1000', 1, 400_000),
            ('put_allocations', '200/1000', 1, 400_000),
        ):
            with self.case(name, reservation):
                self.break_placement(
                    name, nova_exception.PlacementAPIConnectFailure(), times
                )
                self.change(self.server, reservation, Condition.IN_PROGRESS)
                self.assertEqual(
                    [claimed],
                    [each.ppm for each in self.all_claims(self.host)],
                )
                self.settle()
                self.assert_changed(min('400/1000', reservation))
                self.change(self.server, '400/1000')

    def settle(self):
        self.computes[self.host].manager._settle_changes(self.ctxt)

    def test_not_published(self):
        """A change is made, and announced, although that fails."""
        seen = self.listen(self.host)
        for reservation in '600/1000', '200/1000':
            with fixtures.MockPatch(
                'nova.objects.ComputeNode.save', side_effect=OSError
            ):
                self.change(self.server, reservation)
            event = next(e for e in seen if isinstance(e, events.Changed))
            self.assertEqual(
                reservation, str(event.record.request.reservation)
            )
            seen.clear()
            self.audit()
            self.assert_changed(reservation)

    def test_two_writers_of_placement(self):
        """Another change of the allocation in between: it is asked again."""
        self.break_placement(
            'put_allocations',
            nova_exception.AllocationUpdateFailed(consumer_uuid='', error=''),
        )
        self.change(self.server, '600/1000', Condition.IN_PROGRESS)
        self.assert_changed('400/1000')
        self.change(self.server, '600/1000')
        self.assert_changed('600/1000')

    def test_a_service_that_starts(self):
        """Placement is away then, too: the host serves, and goes on later."""
        self.break_placement('get_allocs_for_consumer',
                  nova_exception.PlacementAPIConnectFailure(), 3)  # fmt: skip
        self.change(self.server, '200/1000', Condition.IN_PROGRESS)
        self.restart_compute_service(self.host)
        self.settle()
        self.assert_changed('200/1000')

    def leave(self, reservation):
        """A change that neither goes on nor can be undone."""
        self.break_placement(
            'get_allocs_for_consumer',
            nova_exception.PlacementAPIConnectFailure(), 2,
        )  # fmt: skip
        self.change(self.server, reservation, Condition.IN_PROGRESS)
        self.assertTrue(servers.is_changing(self.instance(self.server)))

    def test_reset(self):
        """An operator resets the task: no move before the change has ended."""
        self.leave('600/1000')
        self.api.post_server_action(
            self.server['id'], {'os-resetState': {'state': 'active'}}
        )
        self.fail_move(self.server, None, 'migrate', 'compute_prep_resize')
        self.assertIn('has not ended', self.reason(self.server))
        self.settle()
        self.assert_changed('400/1000')
        self.confirm(self.migrate(self.server))

    def test_evacuated(self):
        """Its new host has the record in force, and no change."""
        self.leave('600/1000')
        self.die(self.host)
        other = self.other(self.host)
        self.api.post_server_action(self.server['id'], {'evacuate': {}})
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None,
                          'OS-EXT-SRV-ATTR:host': other}
        )  # fmt: skip
        self.assertFalse(servers.is_changing(self.instance(self.server)))
        (claim,) = self.all_claims(other)
        self.assertEqual(400_000, claim.ppm)
        self.assertEqual(400_000, self.used(other))

    def test_deleted(self):
        self.leave('600/1000')
        self._delete_server(self.server)
        self.assert_nothing_left(self.host, of=[self.server])
        self.settle()
        self.assertEqual([], self.all_claims(self.host))

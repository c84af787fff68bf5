# SPDX-License-Identifier: Apache-2.0
"""A service is killed while it confirms or reverts a move.

The next one goes on. In between, the state of a move says how far it has come.
"""

from unittest import mock

from nova import objects
from nova.compute import manager as nova_manager
from nova.compute import resource_tracker as nova_tracker
from nova.objects import instance as nova_instance
from nova.virt.libvirt import driver as nova_driver

from nova_rt.compute import manager
from nova_rt.moves import endings
from nova_rt.tests.functional import kills
from nova_rt.tests.functional.moves import NEW, OLD

_MANAGER = manager.RTComputeManager
_TRACKER = nova_tracker.ResourceTracker
_DRIVER = nova_driver.LibvirtDriver
_RPC = nova_manager.compute_rpcapi.ComputeAPI

REVERT = {'revertResize': None}
CONFIRM = {'confirmResize': None}


class EndingTestBase(kills.KilledResizeTestBase):
    """The server is moved to the larger flavor, and that is ended."""

    def wait_until_over(self):
        server = self.wait_idle(self.server)
        # What is saved last.
        self._wait_for_assert(
            lambda: self.assertIsNone(self.instance(server).old_flavor)
        )
        self._wait_for_assert(
            lambda: self.assertEqual(
                {}, self.held(self.migration(server).uuid)
            )
        )
        self.assertEqual({}, self.moving_keys(server))
        self.assertIsNone(self.instance(server).migration_context)
        self.audit()
        return server

    def assert_reverted(self):
        server = self.wait_until_over()
        self.assertEqual('reverted', self.migration(server).status)
        self.assertEqual(self.source, self.host_of(server))
        self.assertEqual({self.source: OLD}, self.held(server['id']))
        self.assertEqual(self.before, self.record_of(server))
        self.assertEqual((OLD, 0), self.ppm(server)[self.source])
        self.assert_runs(server, '400/1000')
        self.assert_stable(server)

    def assert_confirmed(self, host):
        server = self.wait_until_over()
        self.assertEqual('confirmed', self.migration(server).status)
        self.assertEqual({host: NEW}, self.held(server['id']))
        self.assertEqual((NEW, 0), self.ppm(server)[host])
        self.assert_runs(server, '600/1000')
        self.assert_stable(server)

    def check_reverts(self, *steps):
        """Nothing is left of any that is in the way of the next move.

        :param steps: the host to be killed, and what of it
        """
        for host, owner, name in steps:
            with self.case(host, name):
                self.resize(self.server, self.larger)
                self.kill(host, REVERT, owner, name)
                self.assert_reverted()
        self.revert(self.resize(self.server, self.larger))
        self.assert_stable(self.server)

    def check_confirmations(self, host, *steps):
        """The source is killed; the server is on a host then."""
        for owner, name in steps:
            with self.case(name):
                self.resize(self.server, self.larger)
                with self.as_source(self.server):
                    self.kill(self.source, CONFIRM, owner, name)
                    self.assert_confirmed(host)
            # There and back.
            self.confirm(self.resize(self.server, self.smaller))
            self.assert_stable(self.server)


class OtherHostTest(EndingTestBase):
    def test_revert_at_the_destination(self):
        self.check_reverts(
            (self.target, _MANAGER, '_is_instance_storage_shared'),
            (self.target, _DRIVER, 'destroy'),
            (self.target, _TRACKER, 'drop_move_claim_at_dest'),
            (self.target, _RPC, 'finish_revert_resize'),
        )

    def test_revert_at_the_source(self):
        self.check_reverts(
            (self.source, _MANAGER, '_finish_revert_resize'),
            (self.source, _MANAGER, '_revert_instance_flavor_host_node'),
            (self.source, _MANAGER, '_revert_allocation'),
            (self.source, _DRIVER, 'finish_revert_migration'),
            (self.source, _DRIVER, '_create_guest_with_network'),
            (self.source, nova_instance.Instance, 'drop_migration_context'),
        )

    def test_confirm(self):
        self.check_confirmations(
            self.target,
            (_MANAGER, '_confirm_resize'),
            (_DRIVER, 'confirm_migration'),
            (_TRACKER, 'drop_move_claim_at_source'),
            (_TRACKER, '_drop_move_claim'),
        )

    def test_reverted_and_not_heard(self):
        """The source was down for longer than its queue is kept."""
        for host in (self.source, self.target):
            with self.case(host):
                self.lose_revert()
                self.restart_compute_service(host)
                self.assert_reverted()

    def lose_revert(self):
        """Ask for a revert whose second half is lost."""
        self.resize(self.server, self.larger)
        with mock.patch.object(_RPC, 'finish_revert_resize') as lost:
            self.api.post_server_action(self.server['id'], REVERT)
            self._wait_for_assert(lost.assert_called)

    def test_started_with_the_host(self):
        """Its disk is not where it was: nothing but the revert starts it."""
        self.flags(resume_guests_state_on_host_boot=True)
        self.check_reverts((self.source, _DRIVER, 'finish_revert_migration'))

    def test_confirmed_meanwhile(self):
        """A queued message has ended it since the service looked."""
        self.resize(self.server, self.larger)
        seen = self.instance(self.server)
        for attribute in ('flavor', 'migration_context'):
            seen.obj_load_attr(attribute)
        self.confirm(self.server)
        service = self.computes[self.source].manager
        with (
            mock.patch.object(
                objects.InstanceList, 'get_by_filters', return_value=[seen]
            ),
            mock.patch.object(seen, 'save'),
            mock.patch.object(service, '_delete_allocation_after_move') as end,
        ):
            endings.ask_again(service, self.ctxt)
            end.assert_not_called()
            # It looks again, and only then.
            with mock.patch.object(endings, '_read', return_value=seen):
                endings.ask_again(service, self.ctxt)
            end.assert_called_once()

    def test_reads_its_own_moves_alone(self):
        """The cell may have thousands that wait to be confirmed."""
        for host in ('compute3', self.source):
            with mock.patch.object(
                objects.InstanceList, 'get_by_filters'
            ) as read:
                endings.ask_again(mock.Mock(host=host), self.ctxt)
                read.assert_not_called()

    def test_asked_twice(self):
        """A queued message is acted on once."""
        self.lose_revert()
        instance, migration = (
            self.instance(self.server), self.migration(self.server),
        )  # fmt: skip
        instance.obj_load_attr('flavor')
        self.restart_compute_service(self.source)
        self.assert_reverted()
        before = self.guest(self.server, self.source).id
        service = self.computes[self.source].manager
        for ask in (service.finish_revert_resize, service.revert_resize):
            ask(self.ctxt, instance, migration, None)
        service.confirm_resize(self.ctxt, instance, migration)
        self.assertEqual(before, self.guest(self.server, self.source).id)
        self.assertEqual({self.source: OLD}, self.held(self.server['id']))


class SameHostTest(EndingTestBase):
    def setUp(self):
        super().setUp()
        self.stay(self.source)

    def test_revert(self):
        self.check_reverts(
            (self.source, _DRIVER, 'destroy'),
            (self.source, _DRIVER, 'finish_revert_migration'),
        )

    def test_confirm(self):
        self.check_confirmations(self.source, (_DRIVER, 'confirm_migration'))

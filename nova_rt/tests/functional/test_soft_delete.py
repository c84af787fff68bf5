# SPDX-License-Identifier: Apache-2.0
"""Servers that are deleted and can be had back for a while."""

from nova_rt.tests.functional import base


class SoftDeleteTest(base.RTServersTestBase):
    ADMIN_API = True

    def setUp(self):
        super().setUp()
        self.flags(reclaim_instance_interval=3600)
        self.start_compute()
        self.server = self.create(self.rt_flavor('600/1000'))
        self.api.delete_server(self.server['id'])
        self.server = self._wait_for_state_change(self.server, 'SOFT_DELETED')

    def assert_kept(self):
        """It does not run, and nobody else gets what it has."""
        self.assertFalse(self.guest(self.server).is_active())
        self.assertEqual([], self.groups())
        self.assertEqual(600_000, self.allocated(self.server))
        claim = self.record_of(self.server)
        self.assertEqual({self.server['id']: claim}, self.claims())
        free = self.capacity()
        for cpu in claim.cpus:
            free[cpu] -= claim.ppm
        self.assertEqual(free, self.published())

    def test_restored(self):
        """Also after a restart of the service."""
        self.assert_kept()
        self.computes['compute1'].manager.update_available_resource(self.ctxt)
        self.verify()
        self.assert_kept()
        self.assertEqual(0, self.repairs())
        self.restart_compute_service('compute1')
        self.assert_kept()
        self.ask_for(self.server, 'restore')
        self.assert_held(self.server)
        self.assertEqual(0, self.repairs())

    def test_forced(self):
        self.api.post_server_action(self.server['id'], {'forceDelete': None})
        self._wait_until_deleted(self.server)
        self.assert_nothing_left(of=[self.server])
        self.assertEqual(self.capacity(), self.published())

    def test_reclaimed(self):
        """Its time is over."""
        self.flags(reclaim_instance_interval=1)
        manager = self.computes['compute1'].manager

        def is_gone():
            manager._reclaim_queued_deletes(self.ctxt)
            self.assertEqual(set(), self.domains())

        self._wait_for_assert(is_gone)
        self._wait_until_deleted(self.server)
        self.assert_nothing_left(of=[self.server])
        self.assertEqual(self.capacity(), self.published())

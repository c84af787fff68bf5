# SPDX-License-Identifier: Apache-2.0
"""Rebuilds where the server is, among them those that fail."""

import fixtures
from nova.virt.libvirt import driver as nova_driver

from nova_rt.tests.functional import base

_IMAGE = '70a599e0-31e7-49b7-b260-868f441e862b'


class FailedRebuildTest(base.RTServersTestBase):
    """A server keeps its allocation, whatever becomes of its rebuild."""

    CAST_AS_CALL = False
    ADMIN_API = True

    def setUp(self):
        super().setUp()
        self.start_compute()

    def read_held(self, server):
        found = self.placement.get(f'/allocations/{server["id"]}').body
        return [each['resources'] for each in found['allocations'].values()]

    def assert_kept(self, flavor):
        server = self.create(flavor)
        before = self.read_held(server)
        with fixtures.MockPatchObject(
            nova_driver.LibvirtDriver, 'spawn', side_effect=RuntimeError('no')
        ):
            self.ask_for(server, 'rebuild', {'imageRef': _IMAGE}, 'ERROR')
            self._wait_for_instance_action_event(
                server, 'rebuild', 'compute_rebuild_instance', 'error'
            )
        self.assertEqual(before, self.read_held(server))
        self._rebuild_server(server, _IMAGE)
        disk = self.disk(self.instance(server))
        self.assertEqual(f'image {_IMAGE}', disk.read_text())
        self.assertEqual(set(), self.mounted)
        return server

    def test_each_kind(self):
        """With a new disk, on the same CPUs."""
        server = self.assert_kept(self.rt_flavor())
        before = self.assert_held(server)
        self._rebuild_server(server, _IMAGE)
        self.assertEqual(before, self.assert_held(server))
        self.assert_kept(self.plain_flavor())

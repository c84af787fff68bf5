# SPDX-License-Identifier: Apache-2.0
"""Rebuilds where the server is, among them those that fail."""

import fixtures
from nova.virt.libvirt import driver as nova_driver

from nova_rt.compute import manager
from nova_rt.tests.functional import base, kills
from nova_rt.tests.functional.kills import NEW

_IMAGE = '70a599e0-31e7-49b7-b260-868f441e862b'


class FailedRebuildTest(base.RTServersTestBase):
    """A server keeps its allocation, whatever becomes of its rebuild."""

    CAST_AS_CALL = False
    ADMIN_API = True

    def setUp(self):
        super().setUp()
        self.start_compute()

    def rebuild(self, server, state='ACTIVE'):
        self.api.post_server_action(
            server['id'], {'rebuild': {'imageRef': _IMAGE}}
        )
        return self._wait_for_state_change(server, state)

    def fail_rebuild(self, server):
        def fail(*args, **kwargs):
            raise RuntimeError('the image cannot be mounted')

        with fixtures.MockPatchObject(
            nova_driver.LibvirtDriver, 'spawn', fail
        ):
            self.rebuild(server, 'ERROR')
            self._wait_for_instance_action_event(
                server, 'rebuild', 'compute_rebuild_instance', 'error'
            )

    def read_allocations(self, server):
        return self.placement.get(f'/allocations/{server["id"]}').body[
            'allocations'
        ]

    def assert_kept(self, flavor):
        server = self.create(flavor)
        before = self.read_allocations(server)
        self.fail_rebuild(server)
        self.assertEqual(
            [each['resources'] for each in before.values()],
            [
                each['resources']
                for each in self.read_allocations(server).values()
            ],
        )
        return self.rebuild(server)

    def test_rt(self):
        server = self.assert_kept(self.rt_flavor())
        self.assert_held(server)

    def test_plain(self):
        self.assert_kept(
            self._create_flavor(memory_mb=64, vcpu=1, disk=10, ephemeral=0)
        )


class RebuildAfterLostArrivalTest(kills.KilledResizeTestBase):
    """A rebuild ends a move that nobody has finished, as a start does."""

    def setUp(self):
        super().setUp()
        self.target = self.other(self.source)
        # So that the CPUs differ.
        self.create(self.rt_flavor('100/1000'), host=self.target)
        action = {'resize': {'flavorRef': self.larger}}
        self.kill(
            self.target, action, manager.RTComputeManager,
            '_finish_resize_helper',
        )  # fmt: skip
        self.audit()
        self.admin_api.post_server_action(
            self.server['id'], {'os-resetState': {'state': 'active'}}
        )

    def rebuild(self, result):
        self.api.post_server_action(
            self.server['id'], {'rebuild': {'imageRef': _IMAGE}}
        )
        self._wait_for_instance_action_event(
            self.server, 'rebuild', 'compute_rebuild_instance', result
        )

    def assert_arrived(self):
        rec = self.assert_runs(self.server, '600/1000')
        self.assertNotEqual(self.before.cpus, rec.cpus)
        self.assertEqual({self.target: NEW}, self.held(self.server['id']))
        self.assertEqual({}, self.moving_keys(self.server))
        self.audit()
        self.assertEqual(0, self.used(self.source))
        self.assert_stable(self.server)

    def test_it(self):
        self.rebuild('success')
        self.assert_arrived()

    def test_rebuild_fails(self):
        """Its claim on the new host stays."""

        def fail(*args, **kwargs):
            raise RuntimeError('the image cannot be mounted')

        with fixtures.MockPatchObject(
            nova_driver.LibvirtDriver, 'spawn', fail
        ):
            self.rebuild('error')
        self.rebuild('success')
        self.assert_arrived()

    def test_it_cannot_be_ended(self):
        """Nothing is destroyed, and the move can still be ended."""

        def fail(*args, **kwargs):
            raise RuntimeError('Neutron does not answer')

        disk = self.disk(self.instance(self.server))
        disk.write_text('of the customer')
        with fixtures.MockPatch(
            'nova.network.neutron.API.migrate_instance_finish', fail
        ):
            self.rebuild('error')
        self.assertEqual('of the customer', disk.read_text())
        self.hard_reboot(self.server)
        self.assert_arrived()

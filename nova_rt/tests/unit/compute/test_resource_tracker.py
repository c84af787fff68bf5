# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.resource_tracker on a host without reservations."""

from unittest import mock

from nova import exception as nova_exception
from nova import objects
from oslotest import base

from nova_rt.compute import resource_tracker
from nova_rt.reservation import extra_specs, record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

NOVA = 'nova.compute.resource_tracker.ResourceTracker'


class WithoutReservationsTest(base.BaseTestCase):
    """It tracks as Nova does, and gives real-time servers nothing."""

    def setUp(self):
        super().setUp()
        self.driver = mock.NonCallableMock(spec=[])
        self.tracker = resource_tracker.RTResourceTracker(
            'host', self.driver, mock.Mock()
        )

    def server(self, **specs):
        rec = record.Record(Request(Reservation(600, 1000), 1))
        return objects.Instance(
            uuid='6e1e2aa6-2e3c-4b1b-b5d8-1f2d0e1ea0b6',
            flavor=objects.Flavor(extra_specs=specs),
            system_metadata={record.KEY: rec.encode()},
        )

    def test_plain_server(self):
        server = self.server()
        with mock.patch(f'{NOVA}._set_instance_host_and_node') as saved:
            self.tracker._set_instance_host_and_node(server, 'node')
        saved.assert_called_once_with(server, 'node')

    def test_audit(self):
        node = objects.ComputeNode()
        for name, args in (
            ('_update', ('context', node, False)),
            ('_update_usage_from_instances', ('context', [], 'node')),
            ('_update_usage_from_migrations', ('context', [], 'node')),
        ):
            with mock.patch(f'{NOVA}.{name}') as nova:
                getattr(self.tracker, name)(*args)
            nova.assert_called_once_with(*args)
        self.assertNotIn('stats', node)

    def test_real_time_server(self):
        server = self.server(**{extra_specs.RESERVATION: '600/1000'})
        with mock.patch(f'{NOVA}._set_instance_host_and_node') as saved:
            refusal = self.assertRaises(
                nova_exception.ComputeResourcesUnavailable,
                self.tracker._set_instance_host_and_node, server, 'node',
            )  # fmt: skip
        self.assertIn('gives no reservations', str(refusal))
        saved.assert_not_called()
        self.tracker.compute_nodes['node'] = mock.Mock(uuid='its UUID')
        self.driver = self.tracker.driver = mock.Mock()
        self.assertRaises(
            nova_exception.ComputeResourcesUnavailable,
            self.tracker._move_claim, 'context', server, server.flavor,
            'node', None, {}, move_type='evacuation',
        )  # fmt: skip

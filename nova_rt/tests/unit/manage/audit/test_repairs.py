# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.audit.repairs."""

from unittest import mock

import ddt
from nova import objects
from nova.compute import vm_states
from oslotest import base

from nova_rt.cloud.reading import Node
from nova_rt.cloud.snapshot import SetAllocation
from nova_rt.manage.audit import repairs
from nova_rt.reservation import extra_specs, record
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request

UUID = 'd9bb2d4e-8b5f-4a9c-93f3-0c7a7a0d9a11'
PROVIDER = '6a1f2c1e-0c55-4d5e-9e0b-3a8f0f7d0001'


def make_instance(host, reservation):
    """Make a server with another reservation than its flavor's."""
    specs = {extra_specs.RESERVATION: '600/1000'}
    request = Request.from_flavor(
        specs | {extra_specs.RESERVATION: reservation}, 1
    )
    return objects.Instance(
        uuid=UUID, host=host, vm_state=vm_states.ACTIVE, task_state=None,
        flavor=objects.Flavor(
            vcpus=1, memory_mb=64, root_gb=1, ephemeral_gb=0, swap=0,
            flavorid='1', extra_specs=specs,
        ),
        system_metadata={record.KEY: Record(request, (3,)).encode()},
    )  # fmt: skip


@ddt.ddt
class SetAllocationTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        objects.register_all()

    def mend(self, host, reservation):
        """Mend a finding of host one; the server may have changed since.

        :returns: the bandwidth that Placement is asked to hold; None if it is
            left alone
        """
        auditor = mock.Mock()
        cloud = auditor.cloud
        nodes = {PROVIDER: Node('one', 'one', PROVIDER, None)}
        auditor.find_node = nodes.get
        cloud.find.return_value = make_instance(host, reservation)
        cloud.is_volume_backed.return_value = False
        cloud.client.get_allocs_for_consumer.return_value = {
            'allocations': {
                PROVIDER: {'resources': {extra_specs.RESOURCE_CLASS: 7}}
            }
        }
        try:
            repairs.mend(auditor, SetAllocation(UUID, PROVIDER, 7, 600_000))
        except repairs.NotMended as err:
            self.assertIn('meanwhile', str(err))
            cloud.client.put_allocations.assert_not_called()
            return None
        (_, _, payload), _ = cloud.client.put_allocations.call_args
        there = payload['allocations'][PROVIDER]['resources']
        return there[extra_specs.RESOURCE_CLASS]

    @ddt.data(
        ('one', '600/1000', 600_000), ('two', '600/1000', None),
        ('one', '500/1000', None), (None, '600/1000', None),
    )  # fmt: skip
    @ddt.unpack
    def test_a_server_that_changed_meanwhile(self, host, reservation, ppm):
        """Neither its old host nor its old reservation gets it."""
        self.assertEqual(ppm, self.mend(host, reservation))

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.allocations."""

from unittest import mock

from nova import exception as nova_exception
from nova.scheduler.client import report
from oslotest import base

from nova_rt import exception
from nova_rt.compute import allocations
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures import specs

BUSY = report.Retry('put_allocations', 'another writer')


class AllocationsTest(base.BaseTestCase):
    """Placement's answers, one after another."""

    def setUp(self):
        super().setUp()
        self.client = mock.Mock()
        self.client.get_allocs_for_consumer.side_effect = lambda *_: {
            'allocations': {
                'one': {
                    'generation': 7,
                    'resources': {'CUSTOM_RT_BANDWIDTH': 300_000},
                },
                'two': {'generation': 8, 'resources': {'DISK_GB': 1}},
            },
            'consumer_generation': 3,
        }

    def change(self, *answers, runtime=400, provider='one', vcpus=1):
        self.client.put_allocations.side_effect = answers
        asked = specs.parse({'rt:reservation': f'{runtime}/1000'}, vcpus)
        record = Record(asked, (3, 4, 5)[:vcpus])
        allocations.Allocations(self.client).change(
            mock.Mock(), 'server', provider, record
        )

    def test_change(self):
        self.change(True)
        (_, uuid, payload), _ = self.client.put_allocations.call_args
        self.assertEqual('server', uuid)
        self.assertEqual(3, payload['consumer_generation'])
        self.assertEqual(
            {
                'one': {'resources': {'CUSTOM_RT_BANDWIDTH': 400_000}},
                'two': {'resources': {'DISK_GB': 1}},
            },
            payload['allocations'],
        )

    def test_the_same(self):
        self.change(runtime=300)
        self.client.put_allocations.assert_not_called()

    def test_provider_in_use(self):
        """Others write to the same provider: no change waits for that."""
        self.change(BUSY, BUSY, BUSY, True)
        self.assertEqual(4, self.client.put_allocations.call_count)
        self.assertRaises(report.Retry, self.change, *[BUSY] * 4, runtime=500)

    def test_another_change_of_the_server(self):
        error = nova_exception.AllocationUpdateFailed(
            consumer_uuid='server', error=''
        )
        self.assertRaises(
            nova_exception.AllocationUpdateFailed, self.change, error
        )

    def fill(self, used):
        self.client.get.return_value.json.side_effect = (
            {'inventories': {
                'CUSTOM_RT_BANDWIDTH': {'total': 900_000, 'reserved': 100_000}
            }},
            {'usages': {'CUSTOM_RT_BANDWIDTH': used}},
        )  # fmt: skip

    def test_refused_in_spite_of_room(self):
        """Placement has a fault of its own: it is asked again."""
        self.fill(700_000)
        self.assertRaises(
            nova_exception.AllocationUpdateFailed, self.change, False
        )

    def test_no_room(self):
        for used, vcpus, asked, free in (
            (750_000, 1, 400_000, 350_000),
            # Each of several has a share, rounded down.
            (750_000, 3, 400_000, 116_666),
            # Somebody has shrunk the inventory below what is allocated.
            (1_200_000, 1, 400_000, 0),
        ):
            self.fill(used)
            error = self.assertRaises(
                exception.InsufficientBandwidth, self.change, False,
                vcpus=vcpus,
            )  # fmt: skip
            self.assertEqual(
                (asked, vcpus, (free,)),
                (error.asked_ppm, error.cpus, error.free_ppm),
            )

    def test_not_admitted(self):
        self.assertRaises(exception.NotAdmitted, self.change, provider='two')

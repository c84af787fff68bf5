# SPDX-License-Identifier: Apache-2.0
"""A nova-scheduler that has nothing of ours, and flavors that fail closed."""

import fixtures
from nova import exception as nova_exception
from nova.scheduler import manager
from nova.scheduler import request_filter as nova_filters
import oslo_messaging as messaging

from nova_rt.reservation import extra_specs, resources
from nova_rt.reservation.request import Request
from nova_rt.scheduler import request_filter
from nova_rt.tests.unit.scheduler import cloud

INVENTORY = {'VCPU': 16, 'MEMORY_MB': 65536, 'DISK_GB': 1000}


class StockSchedulerTest(cloud.HostsTestCase):
    def setUp(self):
        super().setUp()
        self.flags(
            enabled_filters=['ComputeFilter', 'ImagePropertiesFilter'],
            group='filter_scheduler',
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.scheduler.request_filter.ALL_REQUEST_FILTERS',
                [
                    each
                    for each in nova_filters.ALL_REQUEST_FILTERS
                    if each is not request_filter.rt_bandwidth_filter
                ],
            )
        )
        self.manager = manager.SchedulerManager()
        self.add_host('stock', {'num_instances': '0'}, INVENTORY)

    def test_bare_flavor_runs_plain(self):
        """The reason why the upgrade check looks for such flavors."""
        self.assertEqual(['stock'], self.select({'rt:reservation': '1/1000'}))

    def test_flavor_with_what_it_asks_for(self):
        for enforcement in extra_specs.Enforcement:
            specs = {
                'rt:reservation': '600/1000',
                'rt:enforcement': str(enforcement),
            }
            specs |= resources.ask(Request.from_flavor(specs, 1))
            refusal = self.assertRaises(
                messaging.ExpectedException, self.select, specs
            )
            self.assertIsInstance(
                refusal.exc_info[1], nova_exception.NoValidHost
            )

    def test_it_finds_the_hosts_that_have_reservations(self):
        self.add_host(
            'rt',
            {'num_instances': '0'},
            INVENTORY | {extra_specs.RESOURCE_CLASS: 950_000},
            [extra_specs.TRAIT_GUARANTEE, extra_specs.TRAIT_LIMIT],
        )
        specs = {'rt:reservation': '600/1000'}
        specs |= resources.ask(Request.from_flavor(specs, 1))
        self.assertEqual(['rt'], self.select(specs))

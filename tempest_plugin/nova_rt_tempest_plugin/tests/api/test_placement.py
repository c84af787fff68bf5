# SPDX-License-Identifier: Apache-2.0
"""Data of Placement on hosts and on servers."""

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin import reports
from nova_rt_tempest_plugin.hosts import transport
from nova_rt_tempest_plugin.tests import base

CONF = config.CONF


class ProvidersTest(base.RTTest):
    """Inventories and traits of the hosts."""

    @decorators.idempotent_id('c29581d7-e604-451f-8293-14c6d7e3f40f')
    def test_inventory(self):
        found = self.rt_providers()
        self.assertNotEmpty(found, 'no host has the trait')
        for name, provider in found.items():
            inventory = self._inventory(provider)
            self.assertEqual(1, inventory['allocation_ratio'], name)
            self.assertEqual(1, inventory['min_unit'], name)
            self.assertEqual(1, inventory['step_size'], name)
            self.assertGreater(inventory['total'], inventory['reserved'], name)

    @decorators.idempotent_id('d3a692e8-f715-4620-93a4-25d7e8f40510')
    def test_others_have_none(self):
        """A host without the trait has no bandwidth either."""
        ours = set(self.rt_providers().values())
        known = self.providers.list_resource_providers()['resource_providers']
        for provider in known:
            found = self.providers.list_resource_provider_inventories(
                provider['uuid']
            )['inventories']
            self.assertEqual(
                provider['uuid'] in ours, base.BANDWIDTH in found, provider
            )

    @decorators.idempotent_id('e4b7a3f9-0826-4731-a4b5-36e8f9051621')
    def test_capacity_of_the_exporter(self):
        """Equality of the inventory's total and the exporter's capacity."""
        self._needs_exporter()
        for name, provider in self.rt_providers().items():
            samples = reports.samples(transport.compute_host(name))
            offered = samples['nova_rt_host_capacity_cpus', frozenset()]
            self.assertEqual(
                round(offered * 10**6), self._inventory(provider)['total']
            )

    @decorators.idempotent_id('f5c8b40a-1937-4842-b5c6-47f90a162732')
    def test_guarantee_where_the_kernel_gives_one(self):
        self._needs_exporter()
        for name, provider in self.rt_providers().items():
            samples = reports.samples(transport.compute_host(name))
            traits = self.providers.list_resource_provider_traits(provider)
            self.assertEqual(
                bool(samples['nova_rt_host_guarantees', frozenset()]),
                base.GUARANTEE in traits['traits'],
                name,
            )

    def _inventory(self, provider):
        found = self.providers.list_resource_provider_inventories(provider)
        return found['inventories'][base.BANDWIDTH]

    def _needs_exporter(self):
        if not CONF.nova_rt.exporter_url:
            self.skipTest('[nova_rt] exporter_url is not set')
        if CONF.nova_rt.host_access == 'none':
            self.skipTest('[nova_rt] host_access is none')


class AllocationsTest(base.RTTest):
    """Allocations that a server holds."""

    @decorators.idempotent_id('06d9c51b-2a48-4953-86d7-580a1b273843')
    def test_real_time_server(self):
        """Bandwidth instead of CPUs, for any extra specs."""
        wanted = {
            base.BANDWIDTH: base.ppm(CONF.nova_rt.reservation),
            'MEMORY_MB': CONF.nova_rt.flavor_ram,
        }
        if CONF.nova_rt.flavor_disk:
            wanted['DISK_GB'] = CONF.nova_rt.flavor_disk
        own = CONF.nova_rt.reservation
        for title, specs in (
            ('alone', {}),
            ('with what a limit counts', self.counted_specs(own)),
            ('with another amount', {f'resources:{base.BANDWIDTH}': '1'}),
        ):
            with self.subTest(title):
                server = self.boot_flavor(
                    self.flavor(self.rt_specs(own) | specs)
                )
                self.assertEqual(wanted, self.allocations(server['id']))

    @decorators.idempotent_id('17ead62c-3b59-4a64-97e8-691b2c384954')
    def test_plain_server(self):
        server = self.plain()
        found = self.allocations(server['id'])
        self.assertNotIn(base.BANDWIDTH, found)
        self.assertEqual(1, found['VCPU'])

    @decorators.idempotent_id('28fbe73d-4c6a-4b75-a8f9-7a2c3d495a65')
    def test_hint(self):
        """A hint that lowers the reservation lowers the allocation."""
        if CONF.nova_rt.hints == 'deny':
            self.skipTest('[nova_rt] hints is deny')
        wanted = CONF.nova_rt.small_reservation
        server = self.boot(hint=wanted)
        self.assertEqual(
            base.ppm(wanted), self.allocations(server['id'])[base.BANDWIDTH]
        )

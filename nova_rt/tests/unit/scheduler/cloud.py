# SPDX-License-Identifier: Apache-2.0
"""Compute nodes in Nova's databases and in a real Placement, in process."""

from nova import context as nova_context
from nova import objects as nova_objects
from nova import test
from nova.tests.functional import fixtures as func_fixtures
from oslo_utils import uuidutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_rt.scheduler import manager
from nova_rt.tests.unit.scheduler import objects

FILTER = 'nova_rt.scheduler.filters.rt_bandwidth_filter.RTBandwidthFilter'
WEIGHER = 'nova_rt.scheduler.weights.rt_bandwidth.RTBandwidthWeigher'


class HostsTestCase(test.TestCase):
    """Hosts for a scheduler to choose from."""

    def setUp(self):
        super().setUp()
        self.placement = self.useFixture(func_fixtures.PlacementFixture())
        self.context = nova_context.get_admin_context()

    def add_host(self, name, stats, inventory, traits=(), up=True):
        """A compute node with its service, mapping and provider.

        :param inventory: resource class -> total
        """
        service = nova_objects.Service(
            self.context,
            host=name,
            binary='nova-compute',
            topic='compute',
            report_count=0,
        )
        service.create()
        if not up:
            service.forced_down = True
            service.save()
        nova_objects.HostMapping(
            self.context, host=name, cell_mapping=self.cell_mappings['cell1']
        ).create()
        node = objects.compute_node(name, stats)
        node._context = self.context
        node.memory_mb_used = 0
        node.service_id = service.id
        node.create()
        self._provider(name, inventory, traits)

    def _provider(self, name, inventory, traits):
        uuid = getattr(uuids, name)
        for resource_class in inventory:
            if resource_class.startswith('CUSTOM_'):
                self._put(f'/resource_classes/{resource_class}')
        for trait in traits:
            if trait.startswith('CUSTOM_'):
                self._put(f'/traits/{trait}')
        self.placement._fake_post(
            None,
            '/resource_providers',
            {'name': name, 'uuid': uuid},
            version='1.20',
        ).raise_for_status()
        self._put(
            f'/resource_providers/{uuid}/inventories',
            {
                'resource_provider_generation': 0,
                'inventories': {
                    key: {'total': total} for key, total in inventory.items()
                },
            },
        )
        self._put(
            f'/resource_providers/{uuid}/traits',
            {
                'resource_provider_generation': 1,
                'traits': ['OWNER_NOVA', *traits],
            },
        )

    def select(self, specs, count=1, **kwargs):
        """Select hosts for servers of one flavor, as a conductor does.

        :returns: the name of a host for each
        """
        spec = objects.request_spec(dict(specs), **kwargs)
        made = [uuidutils.generate_uuid() for _ in range(count)]
        spec.instance_uuid, spec.num_instances = made[0], count
        selections = self.manager.select_destinations(
            self.context,
            spec_obj=spec,
            instance_uuids=made,
            return_objects=True,
            return_alternates=True,
        )
        return [selection[0].service_host for selection in selections]

    def _put(self, url, data=None):
        self.placement._fake_put(
            None, url, data, version='1.20'
        ).raise_for_status()


class CloudTestCase(HostsTestCase):
    """Hosts, and a scheduler with our filter and weigher."""

    #: Filters of Nova that are enabled beside ours.
    FILTERS = ('ComputeFilter', 'ImagePropertiesFilter')

    def setUp(self):
        super().setUp()
        self.flags(
            available_filters=['nova.scheduler.filters.all_filters', FILTER],
            enabled_filters=[*self.FILTERS, 'RTBandwidthFilter'],
            weight_classes=['nova.scheduler.weights.all_weighers', WEIGHER],
            group='filter_scheduler',
        )
        self.manager = manager.RTSchedulerManager()

# SPDX-License-Identifier: Apache-2.0
"""Real HostState and RequestSpec objects for tests and benchmarks."""

from nova import objects
from nova.scheduler import host_manager
from oslo_utils.fixture import uuidsentinel as uuids

from nova_rt.reservation import admission, node_stats

objects.register_all()


def compute_node(name, stats, **kwargs):
    """A ComputeNode as the scheduler reads it from the database."""
    fields = {
        'uuid': getattr(uuids, name),
        'host': name,
        'hypervisor_hostname': name,
        'memory_mb': 65536,
        'free_ram_mb': 65536,
        'local_gb': 1000,
        'local_gb_used': 0,
        'free_disk_gb': 1000,
        'disk_available_least': None,
        'vcpus': 64,
        'vcpus_used': 0,
        'updated_at': None,
        'host_ip': '127.0.0.1',
        'hypervisor_type': 'LXC',
        'hypervisor_version': 9000000,
        'cpu_info': '{}',
        'supported_hv_specs': [
            objects.HVSpec.from_list([arch, 'lxc', 'exe'])
            for arch in ('x86_64', 'i686')
        ],
        'numa_topology': None,
        'pci_device_pools': None,
        'metrics': '[]',
        'cpu_allocation_ratio': 16.0,
        'ram_allocation_ratio': 1.0,
        'disk_allocation_ratio': 1.0,
        'stats': stats,
    }
    return objects.ComputeNode(**fields | kwargs)


def host_state(
    name='host', rt_free=None, rt_host_free=None, rt_nodes=None,
    rt_placement=admission.Placement.WORST_FIT, **kwargs,
):  # fmt: skip
    """A HostState of a host that publishes this free bandwidth.

    :param rt_free: CPU -> ppm, or the text itself
    :param rt_nodes: NUMA node -> CPUs
    """
    stats = {'num_instances': '3', 'io_workload': '0', 'failed_builds': '0'}
    if isinstance(rt_free, str):
        stats['rt_free'] = rt_free
    elif rt_free is not None:
        stats |= node_stats.render(
            admission.Capacity(
                rt_free, rt_host_free, rt_nodes or {}, rt_placement
            )
        )
    state = host_manager.HostState(name, name, uuids.cell)
    state.update(compute_node(name, stats, **kwargs), {'host': name}, [], {})
    return state


def request_spec(specs, vcpus=1, hints=None, **kwargs):
    """A RequestSpec with these extra specs and hints.

    :param hints: name -> list of texts, as a RequestSpec holds them
    """
    flavor = objects.Flavor(
        id=1,
        flavorid='flavor',
        name='flavor',
        rxtx_factor=1.0,
        vcpu_weight=0,
        disabled=False,
        is_public=True,
        description=None,
        projects=[],
        vcpus=vcpus,
        memory_mb=64,
        root_gb=1,
        ephemeral_gb=0,
        swap=0,
        extra_specs=specs,
    )
    fields = {
        'flavor': flavor,
        'image': objects.ImageMeta(properties=objects.ImageMetaProps()),
        'num_instances': 1,
        'project_id': 'project',
        'user_id': 'user',
        'scheduler_hints': hints or {},
        'instance_uuid': uuids.instance,
        'pci_requests': objects.InstancePCIRequests(requests=[]),
        'numa_topology': None,
        'requested_resources': [],
        'requested_destination': None,
        'availability_zone': None,
        'force_hosts': None,
        'force_nodes': None,
        'ignore_hosts': None,
        'instance_group': None,
        'limits': objects.SchedulerLimits(),
        'retry': None,
        'security_groups': objects.SecurityGroupList(),
        'is_bfv': False,
    }
    spec = objects.RequestSpec(**fields | kwargs)
    spec.obj_set_defaults()
    return spec

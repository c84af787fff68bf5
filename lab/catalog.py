# SPDX-License-Identifier: Apache-2.0
"""Content that an administrator puts into a new cloud, through its APIs.

Service users and endpoints, and then image, network and flavors for users.
"""

import contextlib
import datetime
import hashlib
import ipaddress
import pathlib

import openstack
from openstack import exceptions as sdk_exceptions
from openstack.compute.v2 import flavor as _flavor
from openstack.connection import Connection
from openstack.identity.v3 import role as _role

from lab import config, node
from lab.console import say
from nova_rt.reservation import extra_specs, resources
from nova_rt.reservation.request import Request

SUBNET = ipaddress.ip_network('10.66.0.0/24')
GATEWAY = SUBNET[1]
NETWORK = 'pub'
IMAGE = 'rt-busybox'
DOMAIN = 'default'
LIMIT = 'CUSTOM_RT_LIMIT'
GUARANTEE = 'CUSTOM_RT_GUARANTEE'

_ENDPOINTS = (
    ('nova', 'compute', 'http://127.0.0.1:8774/v2.1'),
    ('placement', 'placement', 'http://127.0.0.1:8778'),
    ('glance', 'image', 'http://127.0.0.1:9292'),
    ('neutron', 'network', 'http://127.0.0.1:9696'),
    ('nova_rt', 'rt', 'http://127.0.0.1:8798'),
)

# Name, vCPUs, and the reservation of each vCPU in microseconds. A period of
# 100 ms, because a kernel that only throttles acts at the timer tick.
PLAIN_FLAVORS = (('plain.small', 1), ('plain.medium', 2))
RT_FLAVORS = (
    ('rt.micro', 1, 5_000, 100_000),
    ('rt.tiny', 1, 10_000, 100_000),
    ('rt.small', 1, 20_000, 100_000),
    ('rt.medium', 1, 40_000, 100_000),
    ('rt.large', 2, 20_000, 100_000),
)
#: For a kernel that guarantees, whose periods may be as short as that.
NODE_FLAVORS = (
    ('rt.ms.small', 1, 1_000, 10_000),
    ('rt.ms.medium', 1, 3_000, 10_000),
    ('rt.ms.large', 1, 9_000, 10_000),
    ('rt.ms.two', 2, 3_000, 10_000),
)
# What a project may have unless it has a limit of its own.
BANDWIDTH_LIMIT = f'class:{extra_specs.RESOURCE_CLASS}'
REGISTERED_LIMITS = {'servers': 100, BANDWIDTH_LIMIT: 100_000_000}
RAM_MB = 128
DISK_GB = 1
# From this microversion on nova-api validates extra specs.
_VALIDATED = '2.86'


def connect(user: str = 'admin', project: str = 'admin') -> Connection:
    """Return a connection to the lab's cloud.

    All users of the lab have the same password.
    """
    return openstack.connect(
        auth_url=config.AUTH_URL,
        username=user,
        password=config.PASSWORD,
        project_name=project,
        user_domain_id=DOMAIN,
        project_domain_id=DOMAIN,
        region_name='RegionOne',
        interface='internal',
        load_yaml_config=False,
        load_envvars=False,
    )


def create(cloud: Connection) -> None:
    """Make the service users, services and endpoints that are missing."""
    identity = cloud.identity
    project = identity.find_project('service', domain_id=DOMAIN)
    project = project or identity.create_project(
        name='service', domain_id=DOMAIN
    )
    roles = {role.name: role for role in identity.roles()}
    for name in ('admin', 'member', 'reader', 'service'):
        if name not in roles:
            roles[name] = identity.create_role(name=name)
    services = {found.type: found for found in identity.services()}
    endpoints = {
        (found.service_id, found.interface) for found in identity.endpoints()
    }
    for name, kind, url in _ENDPOINTS:
        user = identity.find_user(name, domain_id=DOMAIN)
        user = user or identity.create_user(
            name=name,
            password=config.PASSWORD,
            domain_id=DOMAIN,
            default_project_id=project.id,
        )
        for role in ('admin', 'service'):
            identity.assign_project_role_to_user(project, user, roles[role])
        found = services.get(kind)
        found = found or identity.create_service(name=name, type=kind)
        for interface in ('public', 'internal'):
            if (found.id, interface) not in endpoints:
                identity.create_endpoint(
                    service_id=found.id,
                    interface=interface,
                    url=url,
                    region_id='RegionOne',
                )
    admin = identity.find_user('admin', domain_id=DOMAIN)
    own = identity.find_project('admin', domain_id=DOMAIN)
    identity.assign_project_role_to_user(own, admin, roles['member'])
    _register_limits(cloud, roles['reader'])


def _register_limits(cloud: Connection, reader: _role.Role) -> None:
    """Register limits of projects, and allow nova-api to read them."""
    identity = cloud.identity
    identity.assign_system_role_to_user(
        identity.find_user('nova', domain_id=DOMAIN), reader, 'all'
    )
    nova = identity.find_service('nova', ignore_missing=False)
    known = {
        found.resource_name: found
        for found in identity.registered_limits(service_id=nova.id)
    }
    for name, limit in REGISTERED_LIMITS.items():
        if name not in known:
            identity.create_registered_limit(
                service_id=nova.id,
                region_id='RegionOne',
                resource_name=name,
                default_limit=limit,
            )


def let_up(cloud: Connection, binary: str, host: str) -> None:
    """Take back that a service of Nova was declared dead, if it was.

    Nova refuses that until a nova-compute has started, and has cleared away
    the servers that were evacuated from it: ask again.
    """
    for found in cloud.compute.services(binary=binary, host=host):
        if found.is_forced_down:
            with contextlib.suppress(sdk_exceptions.BadRequestException):
                cloud.compute.update_service_forced_down(found, forced=False)


def reporting(
    cloud: Connection,
    binary: str,
    host: str,
    since: float,
    forced_down: bool = False,
) -> bool:
    """Return whether a service of Nova has reported itself since a time.

    Nova's services report themselves once they take requests.

    :param since: seconds since the epoch.
    :param forced_down: also one that was declared dead.
    """
    return any(
        (found.state == 'up' or (forced_down and found.is_forced_down))
        and _seconds(found.updated_at) > since
        for found in cloud.compute.services(binary=binary, host=host)
    )


def _seconds(stamp: str | None) -> float:
    # Nova's times are UTC without saying so; none before the first report.
    if not stamp:
        return 0
    when = datetime.datetime.fromisoformat(stamp)
    return when.replace(tzinfo=datetime.UTC).timestamp()


def seed(cloud: Connection, image: pathlib.Path) -> None:
    """Give the cloud the missing ones of image, network and flavors.

    :param image: file with the root file system of a container.
    """
    _seed_image(cloud, image)
    _seed_network(cloud)
    _seed_flavors(cloud)


def _seed_image(cloud: Connection, file: pathlib.Path) -> None:
    checksum = hashlib.sha512(file.read_bytes()).hexdigest()
    for found in list(cloud.image.images(name=IMAGE)):
        if found.hash_value == checksum:
            return
        cloud.image.delete_image(found)
    image = cloud.image.create_image(
        name=IMAGE,
        disk_format='raw',
        container_format='bare',
        visibility='public',
        filename=str(file),
        validate_checksum=False,
    )
    say(f'image {image.name}: {file.stat().st_size // 2**20} MiB')


def _seed_network(cloud: Connection) -> None:
    network = cloud.network.find_network(NETWORK)
    if not network:
        network = cloud.network.create_network(
            name=NETWORK,
            is_router_external=True,
            is_shared=True,
            provider_network_type='flat',
            provider_physical_network='physnet1',
        )
        say(f'network {NETWORK}')
    if not any(cloud.network.subnets(network_id=network.id)):
        cloud.network.create_subnet(
            name=f'{NETWORK}-v4',
            network_id=network.id,
            ip_version=4,
            cidr=str(SUBNET),
            gateway_ip=str(GATEWAY),
            allocation_pools=[
                {'start': str(SUBNET[50]), 'end': str(SUBNET[200])}
            ],
            is_dhcp_enabled=True,
        )
    project = cloud.current_project_id
    groups = cloud.network.security_groups(name='default', project_id=project)
    for group in groups:
        opened = {
            rule.protocol
            for rule in cloud.network.security_group_rules(
                security_group_id=group.id, direction='ingress'
            )
            if rule.remote_ip_prefix == '0.0.0.0/0'
        }
        for protocol in {'icmp', 'tcp', 'udp'} - opened:
            cloud.network.create_security_group_rule(
                security_group_id=group.id,
                direction='ingress',
                ether_type='IPv4',
                protocol=protocol,
                remote_ip_prefix='0.0.0.0/0',
            )


def _seed_flavors(cloud: Connection) -> None:
    known = {
        flavor.name: flavor
        for flavor in cloud.compute.flavors(get_extra_specs=True)
    }
    for name, vcpus in PLAIN_FLAVORS:
        _flavor_with(cloud, known, name, vcpus, {})
    for name, vcpus, runtime_us, period_us in RT_FLAVORS:
        _flavor_with(
            cloud, known, name, vcpus, rt_specs(runtime_us, period_us, vcpus)
        )
    for name, vcpus, runtime_us, period_us in NODE_FLAVORS:
        if node.nodes():
            specs = rt_specs(runtime_us, period_us, vcpus, 'guarantee')
            # The disk is as large as the image: a move between nodes copies
            # every byte, which takes minutes for 1 GiB where no KVM is.
            _flavor_with(cloud, known, name, vcpus, specs, disk_gb=0)


def rt_specs(
    runtime_us: int, period_us: int, vcpus: int, enforcement: str = 'limit'
) -> dict[str, str]:
    """All extra specs of a real-time flavor, for any kernel unless said."""
    specs = {
        'rt:reservation': f'{runtime_us}/{period_us}',
        'rt:enforcement': enforcement,
    }
    request = Request.from_flavor(specs, vcpus)
    assert request is not None
    return specs | resources.ask(request)


def _flavor_with(
    cloud: Connection,
    known: dict[str, _flavor.Flavor],
    name: str,
    vcpus: int,
    specs: dict[str, str],
    disk_gb: int = DISK_GB,
) -> None:
    flavor = known.get(name)
    if not flavor:
        flavor = cloud.compute.create_flavor(
            name=name, id=name, vcpus=vcpus, ram=RAM_MB, disk=disk_gb
        )
        say(f'flavor {name} {specs.get("rt:reservation", "")}'.rstrip())
    if specs and flavor.extra_specs != specs:
        # Not the SDK's own method: it asks for an older microversion, where
        # nothing is validated.
        answer = cloud.compute.post(
            f'/flavors/{flavor.id}/os-extra_specs',
            json={'extra_specs': specs},
            microversion=_VALIDATED,
        )
        sdk_exceptions.raise_from_response(answer)


def only_limits(cloud: Connection) -> bool:
    """Return whether the real-time hosts limit and cannot guarantee."""
    traits: set[str] = set()
    for provider in cloud.placement.resource_providers():
        answer = cloud.placement.get(
            f'/resource_providers/{provider.id}/traits', microversion='1.39'
        )
        sdk_exceptions.raise_from_response(answer)
        traits.update(answer.json()['traits'])
    return traits & {LIMIT, GUARANTEE} == {LIMIT}

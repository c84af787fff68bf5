# SPDX-License-Identifier: Apache-2.0
"""The lab's configuration files, written from the templates in lab/etc."""

import os
import pathlib
import string

from lab import namespace, node, paths, second
from lab.console import LabError

PASSWORD = 'nova-rt-lab'
AUTH_URL = 'http://127.0.0.1:5000/v3'
DATABASES = (
    'glance',
    'keystone',
    'neutron',
    'nova_api',
    'nova_cell0',
    'nova_cell1',
    'nova_rt',
    'placement',
)
STOCK_COMPUTE = paths.ETC / 'nova' / 'stock_compute.py'
#: The file of nova-rt-exporter, beside those of Nova.
EXPORTER = 'nova-rt-exporter.conf'
HINT_FILTER = 'rt_hints'
HINT_FACTORY = 'nova_rt.api.middleware:RequestValidator.factory'

# Others than root may read these: group nova, and everybody the last.
_MODES = {
    'nova.conf': 0o640,
    'nova-compute.conf': 0o640,
    'nova-compute-stock.conf': 0o640,
    EXPORTER: 0o644,
}

# Template and where its result belongs under the etc directory.
_FILES = {
    'keystone.conf': 'keystone/keystone.conf',
    'placement.conf': 'placement/placement.conf',
    'glance-api.conf': 'glance/glance-api.conf',
    'neutron.conf': 'neutron/neutron.conf',
    'ml2_conf.ini': 'neutron/ml2_conf.ini',
    'nova.conf': 'nova/nova.conf',
    'nova-compute.conf': 'nova/nova-compute.conf',
    'nova-database.conf': 'nova/nova-database.conf',
    'nova-compute-stock.conf': 'nova/nova-compute-stock.conf',
    'nova-rt-conductor.conf': 'nova/nova-rt-conductor.conf',
    EXPORTER: f'nova/{EXPORTER}',
    'rabbitmq.conf': 'rabbitmq/rabbitmq.conf',
    'rabbitmq-advanced.config': 'rabbitmq/advanced.config',
    'libvirtd.conf': 'libvirt/libvirtd.conf',
    'lxc.conf': 'libvirt/lxc.conf',
}

_DIRECTORIES = (
    paths.RUN,
    paths.VAR / 'glance-staging',
    paths.VAR / 'images',
    paths.VAR / 'locks',
    paths.VAR / 'neutron',
    paths.VAR / 'nova',
    paths.VAR / 'ovs',
    paths.VAR / 'rabbitmq' / 'mnesia',
    paths.LOG,
    paths.BIN,
)

_LOGIN = """
auth_type = password
username = {user}
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
region_name = RegionOne
"""

_AUTHTOKEN = """[keystone_authtoken]
www_authenticate_uri = http://127.0.0.1:5000
auth_url = http://127.0.0.1:5000
interface = internal
memcached_servers = 127.0.0.1:11211
service_token_roles = service
service_token_roles_required = true"""

_CREDENTIALS = """[{section}]
auth_url = http://127.0.0.1:5000
valid_interfaces = internal"""

# Of one compute among two.
_COMPUTE = """
[DEFAULT]
host = {host}
my_ip = {address}
resume_guests_state_on_host_boot = {resume}
[nova_rt]
cpu_set = {cpus}
id_pool = {ids}
"""

# The hosts are one machine, whose users have an ID once.
_ID_POOLS = ('2000224256:65536000', '2065760256:65536000')

_WRAPPER = """#!/bin/sh
# Run the OpenStack client inside the lab, from anywhere. Written by the lab.
[ "$(id -u)" = 0 ] || exec sudo "$0" "$@"
NOVA_RT_LAB='{work}' PYTHONPATH='{checkout}' \\
    exec '{python}' -P -m lab exec openstack "$@"
"""


def user_environment() -> dict[str, str]:
    """Return the environment of an admin of the lab."""
    return {
        'OS_AUTH_URL': AUTH_URL,
        'OS_USERNAME': 'admin',
        'OS_PASSWORD': PASSWORD,
        'OS_PROJECT_NAME': 'admin',
        'OS_USER_DOMAIN_ID': 'default',
        'OS_PROJECT_DOMAIN_ID': 'default',
        'OS_IDENTITY_API_VERSION': '3',
        'OS_REGION_NAME': 'RegionOne',
        'OS_INTERFACE': 'internal',
        'OS_COMPUTE_API_VERSION': '2.latest',
        'OS_PLACEMENT_API_VERSION': '1.39',
        'NOVA_RT_LAB': str(paths.WORK),
        'PATH': f'{paths.VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin'
        ':/usr/bin:/sbin:/bin',
    }


def write() -> None:
    """Write every configuration file; one that is right is not touched."""
    for directory in _DIRECTORIES:
        directory.mkdir(parents=True, exist_ok=True)
    filled = values()
    for template, target in _FILES.items():
        text = (paths.TEMPLATES / template).read_text()
        put(
            paths.ETC / target,
            string.Template(text).substitute(filled),
            _MODES.get(template, 0o600),
        )
    installed = paths.VENV / 'etc'
    put(
        paths.ETC / 'neutron' / 'api-paste.ini',
        (installed / 'neutron' / 'api-paste.ini').read_text(),
    )
    put(
        paths.ETC / 'glance' / 'glance-api-paste.ini',
        (installed / 'glance' / 'glance-api-paste.ini').read_text(),
    )
    put(
        paths.ETC / 'nova' / 'api-paste.ini',
        with_hint_filter((installed / 'nova' / 'api-paste.ini').read_text()),
    )
    # User nova need not see the checkout.
    put(
        STOCK_COMPUTE,
        (paths.PROGRAMS / STOCK_COMPUTE.name).read_text(),
    )
    put(paths.ETC / 'rabbitmq' / 'enabled_plugins', '[].\n')
    for name in ('prometheus.yml', 'rules.yaml'):
        text = (paths.CHECKOUT / 'etc/nova_rt/prometheus' / name).read_text()
        exporters = ['localhost'] if second.first() else []
        exporters += [second.HOST] if second.wanted() else []
        exporters += [each.address for each in node.nodes()]
        targets = ', '.join(f'{each}:9839' for each in exporters)
        text = text.replace('[localhost:9839]', f'[{targets}]')
        put(paths.ETC / 'prometheus' / name, text)
    put(
        paths.OPENRC,
        ''.join(
            f"export {name}='{value}'\n"
            for name, value in user_environment().items()
        ),
        0o600,
    )
    put(
        paths.BIN / 'openstack',
        _WRAPPER.format(
            work=paths.WORK,
            checkout=paths.CHECKOUT,
            python=paths.VENV / 'bin' / 'python',
        ),
        0o755,
    )
    if node.nodes():
        text = (paths.TEMPLATES / 'nova-policy.yaml').read_text()
        put(paths.ETC / 'nova' / 'policy.yaml', text)
    if second.wanted():
        _write_second()


def _write_second() -> None:
    """Write the second's files, and the differences of the computes.

    The files of the second have the same names.
    """
    own = paths.ETC / 'nova'
    # User nova runs the second file, and is in the group of the first alone.
    for file, mode in ((own / 'nova.conf', 0o640), (STOCK_COMPUTE, 0o644)):
        put(second.ETC / 'nova' / file.name, file.read_text(), mode)
    for name in ('libvirtd.conf', 'lxc.conf'):
        text = (paths.ETC / 'libvirt' / name).read_text()
        put(second.ETC / 'libvirt' / name, text, 0o600)
    hosts = (namespace.HOST_NAME, second.HOST)
    cpu_sets = second.cpu_sets(second.online())
    text = (own / EXPORTER).read_text()
    text += f'listen_address = {second.ADDRESSES[1]}\n'
    put(second.ETC / 'nova' / EXPORTER, text)
    for directory, host, address, cpus, ids in zip(
        (own, second.ETC / 'nova'),
        hosts,
        second.ADDRESSES,
        cpu_sets,
        _ID_POOLS,
        strict=True,
    ):
        for name in ('nova-compute.conf', 'nova-compute-stock.conf'):
            text = (paths.TEMPLATES / name).read_text()
            text += _COMPUTE.format(
                host=host,
                address=address,
                cpus=cpus,
                ids=ids,
                # For bench/boot.py.
                resume=os.environ.get('NOVA_RT_LAB_RESUME', 'false'),
            )
            put(directory / name, text, 0o640)


def put(path: pathlib.Path, text: str, mode: int = 0o644) -> None:
    """Write a file unless it holds this text already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    path.chmod(mode)


def with_hint_filter(paste: str) -> str:
    """Return Nova's api-paste.ini with the hint filter in the v2.1 pipelines.

    :raises LabError: when the file is not this Nova's.
    """
    before = ' keystonecontext '
    lines = paste.splitlines()
    found = 0
    for number, line in enumerate(lines):
        if line.startswith('keystone = ') and before in line:
            lines[number] = line.replace(before, f'{before}{HINT_FILTER} ')
            found += 1
    if found != 2:
        raise LabError(
            f'api-paste.ini of the installed nova has {found} pipelines with '
            'keystonecontext, 2 were expected'
        )
    lines += ['', f'[filter:{HINT_FILTER}]']
    lines += [f'paste.filter_factory = {HINT_FACTORY}', '']
    return '\n'.join(lines)


def values() -> dict[str, str]:
    """Return the values that the templates have variables for."""
    values = {
        'etc': str(paths.ETC),
        'var': str(paths.VAR),
        'host': namespace.HOST_NAME,
        'password': PASSWORD,
        'rabbit': 'rabbit://guest:guest@127.0.0.1:5672/',
        'ovn_socket': str(paths.OVN_SOCKET),
        'ovsdb_socket': str(paths.OVSDB_SOCKET),
    }
    for name in DATABASES:
        values[f'database_{name}'] = database_url(name)
    for user in ('glance', 'neutron', 'nova', 'placement'):
        login = _LOGIN.format(user=user, password=PASSWORD).rstrip()
        values[f'authtoken_{user}'] = _AUTHTOKEN + login
        section = _CREDENTIALS.format(section=user)
        values[f'credentials_{user}'] = section + login
    login = _LOGIN.format(user='nova', password=PASSWORD).rstrip()
    for name in ('service_user', 'nova_rt_nova'):
        section = _CREDENTIALS.format(section=name)
        values[f'credentials_{name}'] = section + login
    # Limits of all projects are read by a role on the whole system.
    section = _CREDENTIALS.format(section='oslo_limit')
    login = login.replace('project_name = service', 'system_scope = all')
    login = login.replace('project_domain_id = default\n', '')
    values['credentials_oslo_limit'] = section + login
    return values


def database_url(database: str) -> str:
    """Return SQLAlchemy's address of one of the lab's databases."""
    return (
        f'mysql+pymysql://root@localhost/{database}'
        f'?unix_socket={paths.MYSQL_SOCKET}&charset=utf8mb4'
    )

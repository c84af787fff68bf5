# SPDX-License-Identifier: Apache-2.0
"""Tempest's configuration for the lab, and the command that runs it.

Runs inside the lab's namespaces.
"""

import importlib.util
import pathlib
import string
import sys

from openstack.connection import Connection

from lab import (
    accounts,
    catalog,
    config,
    node,
    paths,
    second,
    second_services,
    services,
    world,
)
from lab.console import LabError
from lab.measure import rtprobe

WORKSPACE = paths.VAR / 'tempest'
#: Of servers, and what they are resized to: names, which are IDs as well.
PLAIN_FLAVORS = ('plain.small', 'plain.medium')
#: The same. Small: test_migrations keeps the servers of its seven tests to its
#: end, on two computes that share the bandwidth of one machine, and each move
#: needs room for both on the other.
RT_FLAVORS = ('rt.micro', 'rt.tiny')

_NOVA = paths.ETC / 'nova'
_MANAGE_FILES = ('nova.conf', 'nova-database.conf', 'nova-rt-conductor.conf')
_SERVICES = ('nova-compute', 'nova-rt-conductor', 'nova-rt-exporter')
#: Of them, those that systemd has on a node.
_ON_NODES = ('nova-compute', 'nova-rt-exporter')
#: Seconds that a server may take to start; without KVM, a node takes more.
_BUILD_S, _NODE_BUILD_S = 120, 900
# Tests of one class go to one worker: it sets the class up once.
_STESTR = r"""[DEFAULT]
test_path={tempest}/test_discover
top_dir={top}
group_regex=([^\.]*\.)*
"""


def write(
    connection: Connection, flavors: tuple[str, str] = PLAIN_FLAVORS
) -> None:
    """Write the workspace of Tempest and the plug-in.

    :param flavors: of the servers of Tempest's own tests
    :raises LabError: when Tempest is not installed.
    """
    (WORKSPACE / 'locks').mkdir(parents=True, exist_ok=True)
    image = connection.image.find_image(catalog.IMAGE, ignore_missing=False)
    network = connection.network.find_network(
        catalog.NETWORK, ignore_missing=False
    )
    template = string.Template((paths.TEMPLATES / 'tempest.conf').read_text())
    on_nodes = _is_on_nodes()
    config.put(
        WORKSPACE / 'tempest.conf',
        template.substitute(
            workspace=WORKSPACE,
            password=config.PASSWORD,
            image=image.id,
            network=catalog.NETWORK,
            network_id=network.id,
            flavor=flavors[0],
            other_flavor=flavors[1],
            manage=_manage(),
            restart=','.join(_restarts()),
            # The times of an emulated CPU depend on what else runs here.
            rtprobe='' if on_nodes else rtprobe.client(),
            hosts=_hosts(),
            computes=len(world.hosts()),
            # On cgroup v2, libvirt 9 cannot suspend a container.
            pause=str(not on_nodes).lower(),
            build_s=_NODE_BUILD_S if on_nodes else _BUILD_S,
            cold_migration=str(
                second.wanted() or (on_nodes and len(node.nodes()) > 1)
            ).lower(),
        ),
        0o600,
    )
    spec = importlib.util.find_spec('tempest')
    if spec is None or spec.origin is None:
        raise LabError(f'tempest is not installed in {paths.VENV}')
    installed = pathlib.Path(spec.origin).parent
    config.put(
        WORKSPACE / '.stestr.conf',
        _STESTR.format(tempest=installed, top=installed.parent),
    )


def command(chosen: list[str], workers: int) -> list[str]:
    """Return the command that runs tests, to be run in the workspace.

    :param chosen: tempest's arguments that choose them.
    """
    return [
        f'{paths.VENV}/bin/tempest',
        'run',
        f'--config-file={WORKSPACE}/tempest.conf',
        *chosen,
        f'--concurrency={workers}',
    ]


def _manage() -> str:
    files = [f'--config-file={_NOVA / name}' for name in _MANAGE_FILES]
    return ' '.join([f'{paths.VENV}/bin/nova-rt-manage', *files])


def _lab() -> str:
    """Return the start of a line that runs a command of this lab."""
    # The environment of Tempest does not name the lab's directory.
    return (
        f'cd {paths.CHECKOUT} && NOVA_RT_LAB={paths.WORK} '
        f'{sys.executable} -m lab'
    )


def _is_on_nodes() -> bool:
    """Return whether nodes are the only hosts of this lab."""
    return bool(node.nodes()) and not second.first()


def _restarts() -> list[str]:
    """Name services, each with the command that restarts it on its host."""
    if _is_on_nodes():
        return [f'{name}:systemctl restart {name}' for name in _ON_NODES]
    return [_restart(name) for name in _SERVICES]


def _restart(name: str) -> str:
    """Name a service and the command that restarts it on its host."""
    command = f'{_lab()} restart {name}'
    if not second.wanted():
        return f'{name}:{command}'
    # The lab's commands run on the first machine.
    number = ''
    if second_services.name(name) in services.table():
        number = f'[ $(hostname) = {second.HOST} ] && number=-2; '
    line = (
        f'{name}:{number}ssh -F {accounts.OPERATOR_HOME}/.ssh/config '
        f'{accounts.OPERATOR}@{second.ADDRESSES[0]} '
        f'"{command}$number"'
    )
    # To oslo.config, a name after a dollar is an option.
    return line.replace('$', '$$')


def _hosts() -> str:
    """Return the options by which the tests reach compute hosts."""
    if _is_on_nodes():
        return _hosts_on_nodes()
    if not second.wanted():
        return 'host_access = local'
    key = f'{accounts.OPERATOR_HOME}/.ssh/id_ed25519'
    return (
        'host_access = ssh\n'
        f'host_user = {accounts.OPERATOR}\n'
        f'host_key_file = {key}\n'
        f'mortal_host = {second.HOST}\n'
        f'kill_command = {_lab()} kill\n'
        f'revive_command = {_lab()} up'
    )


def _hosts_on_nodes() -> str:
    own = node.nodes()
    addresses = ','.join(f'{each.host}:{each.address}' for each in own)
    text = (
        'host_access = ssh\n'
        f'host_addresses = {addresses}\n'
        f'host_key_file = {node.DIRECTORY}/key\n'
        'host_timeout = 300\n'
        'settle_timeout = 300\n'
        'repair_timeout = 400\n'
        # As large as the image: a move copies every byte of it.
        'flavor_disk = 0'
    )
    if len(own) == 1:
        return text
    return (
        f'{text}\n'
        f'mortal_host = {own[-1].host}\n'
        f'kill_command = {_lab()} kill {own[-1].name}\n'
        f'revive_command = {_lab()} up'
    )

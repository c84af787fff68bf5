# SPDX-License-Identifier: Apache-2.0
"""The nodes as services of the lab: the relay, and QEMU.

Everything here runs inside the lab's namespaces.
"""

import subprocess
import time

from lab import answers, node, paths
from lab.console import LabError
from lab.second_services import PORTS
from lab.service import Service, program

OVN_PORT = 6642
_READY_S = 900


def beside() -> dict[str, Service]:
    """Return the services that nodes add."""
    own = node.nodes()
    if not own:
        return {}
    relay = Service(
        'node-relay',
        program(
            'relay.py',
            '/proc/self/ns/net',
            node.SERVICES_ADDRESS,
            *PORTS,
            f'{OVN_PORT}={paths.OVN_SOCKET}',
        ),
        needs=('node-links',),
        ready=answers.at_port(5672, node.SERVICES_ADDRESS),
    )
    found = [relay, *(_machine(each) for each in own)]
    return {each.name: each for each in found}


def _machine(own: node.Node) -> Service:
    files = (own.file('run'), own.file('files.tar'))
    return Service(
        own.name,
        ('sh', own.file('run')),
        needs=('node-links', 'node-relay', 'node-disks', 'rabbitmq'),
        ready=answers.at_port(22, own.address),
        files=files,
        ready_s=_READY_S,
        settle=own.sync,
    )


def kill(own: node.Node) -> None:
    """Cut the power of a node; nothing on it ends in order.

    :raises LabError: when it is dead.
    """
    running = beside()[own.name].running()
    if not running:
        raise LabError(f'{own.host} is down; "up" starts it')
    running.kill_session()
    # The connection that many commands share is of no use to the next boot.
    end = ['ssh', '-F', str(node.SSH_CONFIG), '-O', 'exit', own.host]
    subprocess.run(end, capture_output=True, check=False)


def describe(own: node.Node) -> str:
    """Return the kernel that a node runs, and for how long it has been on."""
    running = beside()[own.name].running()
    if not running:
        return f'{"off":<28} {"-":>8}'
    try:
        kernel = own.run('uname -r', 60).strip()
    except LabError:
        kernel = '(does not answer)'
    return f'{kernel:<28} {time.time() - running.since():>6.0f} s'

# SPDX-License-Identifier: Apache-2.0
"""Measure how long a host needs after a power cut, until all is real-time.

On a lab with two computes or a node: makes servers on the second host or the
first node, lets it die, starts it again, and waits until the kernel holds
every reservation. Of a node, the memory is measured as well. Servers come back
by themselves with ``resume_guests_state_on_host_boot``; without it they are
started by their owner, all at once, when nova-compute serves.

    python -m lab up --computes 2
    python -m lab exec python -m bench.boot [--servers N] [--output FILE.json]

    python -m lab up --node hcbs
    python -m lab exec python -m bench.boot --servers 10
"""

import argparse
import calendar
import json
import os
import platform
import subprocess
import sys
import time
from typing import Any

import libvirt
from openstack.connection import Connection

from bench import program
from lab import catalog, namespace, node, paths, second, services
from lab.console import LabError
from lab.measure import container, machine

FLAVOR = 'bench-boot'
DEADLINE_S = 1800


class SecondHost:
    """The second compute of a lab, whose kernel limits."""

    host = second.HOST
    service = ''
    reservation = '4000/1000000'
    enforcement = 'limit'
    ways = {'resumed': True, 'started': False}

    def count_held(self, servers: list[Any]) -> int:
        """Count the servers whose reservation the kernel holds."""
        return sum(self._is_held(server.id) for server in servers)

    def _is_held(self, uuid: str) -> bool:
        try:
            found = container.Container.of(uuid)
            return found is not None and str(found.held()) == self.reservation
        except (LabError, OSError, libvirt.libvirtError):
            # It starts or ends, or its host does.
            return False


class FirstNode:
    """The first node of a lab, whose kernel guarantees."""

    reservation = '1000/10000'
    enforcement = 'guarantee'
    # As nodes do it; without it, Nova notes late that they do not run.
    ways = {'resumed': True}

    def __init__(self) -> None:
        self._node = node.nodes()[0]
        self.host = self._node.host
        self.service = self._node.name

    def read_memory(self) -> dict[str, int]:
        """Read the memory of the machine here, and on it, in MiB."""
        running = services.table()[self.service].running()
        if not running:
            raise LabError(f'{self.host} has ended')
        used = self._node.run('free -m').splitlines()[1].split()[2]
        ours = self._node.run('systemctl show -P MemoryCurrent nova-compute')
        return {
            'machine': running.rss_kb() // 1024,
            'used_on_it': int(used),
            'nova-compute': int(ours) // 1024**2,
        }

    def count_held(self, servers: list[Any]) -> int:
        """Count the containers with the reservation: there are no others."""
        try:
            found = self._node.run(
                'for id in $(virsh -q -c lxc:/// list --id); do '
                'cat /sys/fs/cgroup$(cut -d: -f3 /proc/$id/cgroup)/cpu.rt.max;'
                ' done 2>/dev/null || :', 20,
            )  # fmt: skip
        except LabError:
            # It boots.
            return 0
        wanted = self.reservation.replace('/', ' ')
        return found.splitlines().count(wanted)


def main() -> int:
    """Measure, print, write JSON; return the exit code."""
    options = _options()

    def bench() -> None:
        if not namespace.inside() or not (second.wanted() or node.nodes()):
            raise LabError(
                'this needs a lab with two computes or a node: see --help'
            )
        _run(options, FirstNode() if node.nodes() else SecondHost())

    return program.run(bench)


def _options() -> argparse.Namespace:
    parser = program.parser(__doc__, 'boot')
    parser.add_argument('--servers', type=int, default=50)
    return parser.parse_args()


def _run(options: argparse.Namespace, own: SecondHost | FirstNode) -> None:
    connection = catalog.connect()
    result: dict[str, Any] = {
        'python': platform.python_version(),
        'machine': machine.describe(),
        'servers': options.servers,
        'host': own.host,
        'reservation': own.reservation,
    }
    # The disk of a node is small.
    flavor = connection.compute.create_flavor(
        name=FLAVOR, vcpus=1, ram=64, disk=0
    )
    connection.compute.create_flavor_extra_specs(
        flavor,
        {
            'rt:reservation': own.reservation,
            'rt:enforcement': own.enforcement,
        },
    )
    servers: list[Any] = []
    try:
        started = time.monotonic()
        _create(connection, flavor, options.servers, own.host, servers)
        result['create_s'] = time.monotonic() - started
        if isinstance(own, FirstNode):
            result['memory_mib'] = own.read_memory()
            print('memory', json.dumps(result['memory_mib']), flush=True)
        for name, resume in own.ways.items():
            result[name] = _boot(connection, servers, resume, own)
            print(name, json.dumps(result[name]), flush=True)
    finally:
        for server in servers:
            connection.compute.delete_server(server, ignore_missing=True)
        for server in servers:
            connection.compute.wait_for_delete(server, wait=DEADLINE_S)
        connection.compute.delete_flavor(flavor)
    program.write(result, options.output)


def _create(
    connection: Connection,
    flavor: Any,
    count: int,
    host: str,
    servers: list[Any],
) -> None:
    """Append the servers, each as soon as there is something to delete."""
    image = connection.image.find_image(catalog.IMAGE, ignore_missing=False)
    for number in range(count):
        made = connection.compute.create_server(
            name=f'bench-boot-{number}',
            image_id=image.id,
            flavor_id=flavor.id,
            networks='none',
            availability_zone=f'nova:{host}',
        )
        servers.append(made)
    for server in servers:
        connection.compute.wait_for_server(server, wait=DEADLINE_S)


def _boot(
    connection: Connection,
    servers: list[Any],
    resume: bool,
    own: SecondHost | FirstNode,
) -> dict[str, float]:
    """Cut the power of the host and start it again.

    :param resume: whether its nova-compute starts the servers by itself
    :returns: seconds from the start of the host until its service is up, and
        until the first, half and all of the servers are real-time
    """
    _lab('kill', *filter(None, [own.service]))
    since = time.time()
    # "up" waits until the host's services answer.
    up = subprocess.Popen(
        [sys.executable, '-m', 'lab', 'up'],
        cwd=paths.CHECKOUT, stdout=subprocess.DEVNULL,
        env={**os.environ, 'NOVA_RT_LAB_RESUME': str(resume).lower()},
    )  # fmt: skip
    found: dict[str, float] = {}
    asked = resume
    marks = {
        'first_s': 1,
        'half_s': (len(servers) + 1) // 2,
        'last_s': len(servers),
    }
    while not {'service_s', *marks} <= found.keys():
        now = time.time() - since
        if now > DEADLINE_S:
            raise LabError(f'not all servers are real-time: {found}')
        if 'service_s' not in found and _is_up(connection, own.host, since):
            found['service_s'] = now
        if 'service_s' in found and not asked:
            for server in servers:
                connection.compute.start_server(server)
            found['asked_s'] = time.time() - since
            asked = True
        held = own.count_held(servers)
        for name, count in marks.items():
            if name not in found and held >= count:
                found[name] = now
        time.sleep(0.5)
    up.wait()
    return {name: round(value, 1) for name, value in found.items()}


def _is_up(connection: Connection, host: str, since: float) -> bool:
    (service,) = connection.compute.services(binary='nova-compute', host=host)
    updated = time.strptime(
        service.updated_at.split('.')[0] + ' UTC', '%Y-%m-%dT%H:%M:%S %Z'
    )
    return service.state == 'up' and calendar.timegm(updated) > since


def _lab(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, '-m', 'lab', *words],
        cwd=paths.CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise LabError(f'lab {" ".join(words)}: {done.stdout}{done.stderr}')


if __name__ == '__main__':
    sys.exit(main())

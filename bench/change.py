# SPDX-License-Identifier: Apache-2.0
"""Measure how long a change of a running server's reservation takes.

Brings the lab up, makes some servers, and lets each grow and shrink in turn
through nova-rt-api:

* from the request to the API until the kernel holds the change, and until it
  is recorded everywhere, which is when it is shown as applied, by the clock of
  this machine: the conductor notes the time at which the host has answered;
* from the RPC on the host until the kernel was read back, and until the change
  is recorded, as nova-rt-compute logs it.

A change that shrinks waits for the end of a period of the kernel before the
bandwidth is free for others.

    python -m bench.change [--servers N] [--rounds N] [--output FILE.json]
"""

import argparse
import datetime
import pathlib
import platform
import re
import statistics
import sys
import time
from typing import Any

from openstack.connection import Connection

from bench import program
from lab import catalog, cloud, namespace, services
from lab.console import LabError
from lab.measure import machine

NAME = 'bench.change'
PERIOD_US = 100_000
SMALL_US, LARGE_US = 1000, 2000
POLL_S = 0.1
LIMIT_S = 60
AIM_KERNEL_MS = 5
AIM_APPLIED_MS = 100

_LOGGED = re.compile(
    r'Reservation changed to (\S+): in the kernel after ([\d.]+) ms, '
    r'everywhere after ([\d.]+) ms'
)


def main() -> int:
    """Measure, print a table, write JSON; return the exit code."""
    options = _options()

    def bench() -> int:
        if not namespace.inside():
            return cloud.up_and_run('bench.change', sys.argv[1:])
        _run(options)
        return 0

    return program.run(bench)


def _options() -> argparse.Namespace:
    parser = program.parser(__doc__, 'change')
    parser.add_argument('--servers', type=int, default=20)
    parser.add_argument(
        '--rounds', type=int, default=3, help='of a growth and a shrinking'
    )
    return parser.parse_args()


def _run(options: argparse.Namespace) -> None:
    connection = catalog.connect()
    made = []
    flavor = connection.compute.create_flavor(
        name=NAME, vcpus=1, ram=64, disk=1
    )
    try:
        connection.compute.create_flavor_extra_specs(
            flavor,
            {
                'rt:reservation': f'{SMALL_US}/{PERIOD_US}',
                'rt:enforcement': 'limit',
            },
        )
        for number in range(options.servers):
            made.append(_create(connection, flavor, number))
        for server in made:
            connection.compute.wait_for_server(server, wait=300)
        result = _measure(connection, [each.id for each in made], options)
    finally:
        for server in made:
            connection.compute.delete_server(server)
        for server in made:
            connection.compute.wait_for_delete(server, wait=120)
        connection.compute.delete_flavor(flavor)
    print(_table(result) + '\n')
    program.write(result, options.output)


def _create(connection: Connection, flavor: Any, number: int) -> Any:
    image = connection.image.find_image(catalog.IMAGE, ignore_missing=False)
    return connection.compute.create_server(
        name=f'{NAME}-{number}',
        image_id=image.id,
        flavor_id=flavor.id,
        networks='none',
    )


def _measure(
    connection: Connection, servers: list[str], options: argparse.Namespace
) -> dict[str, Any]:
    log = services.table()['nova-compute'].log
    found: dict[str, Any] = {'grow': [], 'shrink': []}
    # A host writes early only after its first change of a server.
    for server in servers:
        _change(connection, server, LARGE_US)
        _change(connection, server, SMALL_US)
    for _ in range(options.rounds):
        for server in servers:
            for name, runtime_us in ('grow', LARGE_US), ('shrink', SMALL_US):
                begin = log.stat().st_size
                applied_ms = _change(connection, server, runtime_us)
                kernel_ms, host_ms = _logged(log, begin, runtime_us)
                found[name].append((applied_ms, kernel_ms, host_ms))
    return {
        'python': platform.python_version(),
        'machine': machine.describe(),
        'servers': len(servers),
        **{
            name: {
                'applied_ms': _summary([each[0] for each in rows]),
                # The time of the answer is not the host's.
                'held_ms': _summary([a - h + k for a, k, h in rows]),
                'kernel_ms': _summary([each[1] for each in rows]),
                'host_ms': _summary([each[2] for each in rows]),
            }
            for name, rows in found.items()
        },
    }


def _summary(values: list[float]) -> dict[str, Any]:
    return {'median': statistics.median(values), 'all': values}


def _change(connection: Connection, server: str, runtime_us: int) -> float:
    """Change a reservation.

    :returns: milliseconds from the request until it was applied
    :raises LabError: if it is not
    """
    url = f'/v1/servers/{server}/reservation'
    wanted = {'service_type': 'rt', 'interface': 'internal'}
    began = time.time()
    connection.session.put(
        url,
        json={
            'reservation': {'runtime_us': runtime_us, 'period_us': PERIOD_US}
        },
        endpoint_filter=wanted,
    )
    while time.time() < began + LIMIT_S:
        # It does not take part in what it measures.
        time.sleep(POLL_S)
        found = connection.session.get(url, endpoint_filter=wanted).json()
        condition = found['reservation']['condition']
        if condition['type'] == 'Applied':
            since = datetime.datetime.fromisoformat(condition['since'])
            return (since.timestamp() - began) * 1000
    raise LabError(f'a change of {server} is not applied: {condition}')


def _logged(
    log: pathlib.Path, begin: int, runtime_us: int
) -> tuple[float, float]:
    """Read what nova-rt-compute says of the last change."""
    with log.open('rb') as file:
        file.seek(begin)
        text = file.read().decode(errors='replace')
    for match in _LOGGED.finditer(text):
        if match[1] == f'{runtime_us}/{PERIOD_US}':
            return float(match[2]), float(match[3])
    raise LabError(f'{log} does not tell of the change')


def _table(result: dict[str, Any]) -> str:
    rows = [('', 'median', 'least', 'most', 'aim')]
    for name in ('grow', 'shrink'):
        for key, text, aim in (
            ('kernel_ms', 'RPC received -> kernel read back', AIM_KERNEL_MS),
            ('host_ms', 'RPC received -> recorded', None),
            ('held_ms', 'API -> kernel read back', AIM_APPLIED_MS),
            ('applied_ms', 'API -> applied', AIM_APPLIED_MS),
        ):
            values = result[name][key]['all']
            rows.append(
                (
                    f'{name}: {text}',
                    f'{statistics.median(values):.1f} ms',
                    f'{min(values):.1f} ms',
                    f'{max(values):.1f} ms',
                    '' if aim is None else f'{aim} ms',
                )
            )
    return '\n' + '\n'.join(
        f'{row[0]:<42}' + ''.join(f'{text:>13}' for text in row[1:])
        for row in rows
    )


if __name__ == '__main__':
    sys.exit(main())

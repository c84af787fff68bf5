# SPDX-License-Identifier: Apache-2.0
"""What nova_rt costs when a server is created, and in memory.

Brings the lab up and measures on it:

* the time from the request to ACTIVE, of a real-time and a plain server,
  in turn, each with a port, each deleted before the next is made;
* the same of real-time servers with nova-rt-conductor and while it is stopped;
* the resident memory of nova-rt-compute and of Nova's own nova-compute, each
  started anew and after the same servers.

    python -m bench.create [--pairs N] [--output FILE.json]
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from typing import Any

from openstack.connection import Connection

from lab import (
    catalog,
    cloud,
    console,
    namespace,
    paths,
    preflight,
    services,
)
from lab.console import LabError

RT = 'rt.small'
PLAIN = 'plain.small'
CONDUCTOR = 'nova-rt-conductor'
POLL_S = 0.02
WARM_UP = 2
# Servers that each nova-compute makes before its memory is read.
MEMORY_SERVERS = 5
SETTLE_S = 15
# A service that has just started or ended takes CPU time for a while.
CONDUCTOR_S = 4
AIM_TIME = 1.03
AIM_CONDUCTOR = 1.01
AIM_MEMORY = 1.05


def main() -> int:
    """Measure, print a table, write JSON; return the exit code."""
    options = _options()
    try:
        preflight.require_root()
        if not namespace.inside():
            return cloud.up_and_run('bench.create', sys.argv[1:])
        _run(options)
    except LabError as error:
        console.fail(error)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    connection = catalog.connect()
    _refuse_company(connection)
    times = _times(connection, options.pairs)
    conductor = _conductor_times(connection, options.pairs)
    memory = {
        'stock': _memory(connection, stock=True),
        'nova_rt': _memory(connection, stock=False),
    }
    result = _result(times, conductor, memory)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + '\n')
    print(_table(result))
    print(f'\nwritten to {options.output}')


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--pairs', type=int, default=12, help='servers of each kind'
    )
    parser.add_argument(
        '--output',
        type=pathlib.Path,
        default=paths.RESULTS / 'bench' / 'create.json',
    )
    return parser.parse_args()


def _refuse_company(connection: Connection) -> None:
    """Servers of a user would take part, and stock Nova has no place for RT.

    :raises LabError: when there are any.
    """
    names = [server.name for server in connection.compute.servers()]
    if names:
        raise LabError(
            f'there are servers ({", ".join(names)}): delete them first, with '
            f'{paths.BIN}/openstack server delete'
        )


def _times(connection: Connection, pairs: int) -> dict[str, list[float]]:
    for flavor in (RT, PLAIN) * WARM_UP:
        _create(connection, flavor)
    times: dict[str, list[float]] = {RT: [], PLAIN: []}
    for number in range(pairs):
        # Each kind is the first of a pair as often as the other.
        for flavor in (RT, PLAIN) if number % 2 else (PLAIN, RT):
            times[flavor].append(_create(connection, flavor))
        print(
            f'pair {number + 1:>2} of {pairs}: {RT} {times[RT][-1]:.2f} s, '
            f'{PLAIN} {times[PLAIN][-1]:.2f} s',
            flush=True,
        )
    return times


def _conductor_times(
    connection: Connection, pairs: int
) -> dict[bool, list[float]]:
    """Create with and without the conductor, in turn.

    :return: whether it ran -> seconds until ACTIVE.
    """
    conductor = services.table()[CONDUCTOR]
    times: dict[bool, list[float]] = {True: [], False: []}
    try:
        for number in range(pairs):
            for runs in (True, False) if number % 2 else (False, True):
                if runs:
                    conductor.ensure()
                else:
                    conductor.stop()
                time.sleep(CONDUCTOR_S)
                times[runs].append(_create(connection, RT))
            print(
                f'pair {number + 1:>2} of {pairs}: with {CONDUCTOR} '
                f'{times[True][-1]:.2f} s, without {times[False][-1]:.2f} s',
                flush=True,
            )
    finally:
        conductor.ensure()
    return times


def _create(connection: Connection, flavor: str) -> float:
    """Create a server and delete it again.

    :return: seconds from the request until it was ACTIVE.
    """
    compute = connection.compute
    image = connection.image.find_image(catalog.IMAGE, ignore_missing=False)
    made_of = compute.find_flavor(flavor, ignore_missing=False)
    network = connection.network.find_network(
        catalog.NETWORK, ignore_missing=False
    )
    began = time.monotonic()
    server = compute.create_server(
        name=f'bench-{flavor}',
        image_id=image.id,
        flavor_id=made_of.id,
        networks=[{'uuid': network.id}],
    )
    try:
        while (found := compute.get_server(server.id)).status == 'BUILD':
            time.sleep(POLL_S)
        elapsed = time.monotonic() - began
        if found.status != 'ACTIVE':
            raise LabError(f'{flavor}: {found.status}, {found.fault}')
    finally:
        compute.delete_server(server.id)
        compute.wait_for_delete(server, interval=0.1, wait=60)
    # What is taken back after the delete is not the next server's cost.
    time.sleep(1)
    return elapsed


def _memory(connection: Connection, stock: bool) -> dict[str, int]:
    """Restart nova-compute and return its resident memory in KiB."""
    program = "Nova's own nova-compute" if stock else 'nova-rt-compute'
    print(f'memory of {program} ...', flush=True)
    subprocess.run(
        [sys.executable, '-m', 'lab', 'restart', 'nova-compute']
        + (['--stock'] if stock else []),
        cwd=paths.CHECKOUT,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    for _ in range(MEMORY_SERVERS):
        _create(connection, PLAIN)
    time.sleep(SETTLE_S)
    running = services.table(stock)['nova-compute'].running()
    if not running:
        raise LabError(f'{program} has ended')
    statuses = pathlib.Path(f'/proc/{running.pid}/status').read_text()
    rss = statuses.partition('VmRSS:')[2].split()[0]
    return {'process_kb': int(rss), 'with_helpers_kb': running.rss_kb()}


def _result(
    times: dict[str, list[float]],
    conductor: dict[bool, list[float]],
    memory: dict[str, dict[str, int]],
) -> dict[str, Any]:
    return {
        'machine': {
            'cpus': os.cpu_count(),
            'kernel': platform.release(),
            'python': platform.python_version(),
        },
        'create_to_active_s': _compare(
            'real_time', times[RT], 'plain', times[PLAIN], AIM_TIME
        ),
        'conductor_s': _compare(
            'with', conductor[True], 'without', conductor[False], AIM_CONDUCTOR
        ),
        'memory': memory
        | {
            'ratio': memory['nova_rt']['process_kb']
            / memory['stock']['process_kb'],
            'ratio_with_helpers': memory['nova_rt']['with_helpers_kb']
            / memory['stock']['with_helpers_kb'],
            'aim': AIM_MEMORY,
        },
    }


def _compare(
    name: str, ours: list[float], other: str, theirs: list[float], aim: float
) -> dict[str, Any]:
    one, two = statistics.median(ours), statistics.median(theirs)
    return {
        'pairs': len(ours),
        name: {'median': one, 'all': ours},
        other: {'median': two, 'all': theirs},
        'ratio_of_medians': one / two,
        'median_of_ratios': statistics.median(
            a / b for a, b in zip(ours, theirs, strict=True)
        ),
        'aim': aim,
    }


def _table(result: dict[str, Any]) -> str:
    memory = result['memory']
    rows = [
        ('', 'nova_rt', 'without', 'ratio', 'aim'),
        *_rows(
            'create to ACTIVE',
            result['create_to_active_s'],
            'real_time',
            'plain',
        ),
        *_rows('  the conductor', result['conductor_s'], 'with', 'without'),
        (
            'memory of nova-compute',
            f'{memory["nova_rt"]["process_kb"] / 1024:.0f} MiB',
            f'{memory["stock"]["process_kb"] / 1024:.0f} MiB',
            f'{memory["ratio"]:.3f}',
            f'{memory["aim"]}',
        ),
        (
            '  with its privileged helpers',
            f'{memory["nova_rt"]["with_helpers_kb"] / 1024:.0f} MiB',
            f'{memory["stock"]["with_helpers_kb"] / 1024:.0f} MiB',
            f'{memory["ratio_with_helpers"]:.3f}',
            '',
        ),
    ]
    return '\n' + '\n'.join(
        f'{row[0]:<32}' + ''.join(f'{text:>11}' for text in row[1:])
        for row in rows
    )


def _rows(
    text: str, times: dict[str, Any], name: str, other: str
) -> list[tuple[str, ...]]:
    aim = str(times['aim'])
    return [
        (
            f'{text}, {times["pairs"]} pairs',
            f'{times[name]["median"]:.2f} s',
            f'{times[other]["median"]:.2f} s',
            f'{times["ratio_of_medians"]:.3f}',
            aim,
        ),
        (
            '  each pair by itself',
            '',
            '',
            f'{times["median_of_ratios"]:.3f}',
            aim,
        ),
    ]


if __name__ == '__main__':
    sys.exit(main())

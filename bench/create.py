# SPDX-License-Identifier: Apache-2.0
"""Measure what nova_rt costs when a server is created, and in memory.

Brings the lab up and measures on it:

* the time from the request to ACTIVE, of a real-time and a plain server,
  in turn, each with a port, each deleted before the next is made;
* the same for real-time servers, with nova-rt-conductor and while it is
  stopped, and the CPU time that nova-rt-conductor takes for the whole life of
  a server;
* the resident memory of nova-rt-compute and of Nova's own nova-compute, each
  started anew, after the same servers: at once, and when nothing has happened
  for some minutes, by when nova_rt's privileged helpers have ended.

A ratio of medians comes with the interval in which it would be in 19 of 20
repetitions (bootstrap, percentiles).

    python -m bench.create [--pairs N] [--only PART] [--output FILE.json]
"""

import argparse
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import time
from typing import Any

from openstack.connection import Connection

from bench import program
from lab import catalog, cloud, namespace, paths, services
from lab.console import LabError
from lab.measure import machine

RT = 'rt.small'
PLAIN = 'plain.small'
CONDUCTOR = 'nova-rt-conductor'
PARTS = ('create', 'conductor', 'memory')
POLL_S = 0.02
WARM_UP = 2
# Servers that each nova-compute makes before its memory is read.
MEMORY_SERVERS = 5
SETTLE_S = 15
# A helper ends at the first check that finds it unused for a minute.
REST_S = 200
# A service that has just started or ended takes CPU time for a while.
CONDUCTOR_S = 4
RESAMPLES = 10_000
AIM_TIME = 1.03
AIM_CONDUCTOR = 1.01
AIM_MEMORY = 1.05
AIM_AT_REST = 1.1


def main() -> int:
    """Measure, print a table, write JSON; return the exit code."""
    options = _options()

    def bench() -> int:
        if not namespace.inside():
            return cloud.up_and_run('bench.create', sys.argv[1:])
        _run(options)
        return 0

    return program.run(bench)


def _run(options: argparse.Namespace) -> None:
    connection = catalog.connect()
    _refuse_company(connection)
    for flavor in (RT, PLAIN) * WARM_UP:
        _create(connection, flavor)
    result: dict[str, Any] = {
        'python': platform.python_version(),
        'machine': machine.describe(),
    }
    if options.only in (None, 'create'):
        times = _times(connection, options.pairs)
        result['create_to_active_s'] = _compare(
            'real_time', times[RT], 'plain', times[PLAIN], AIM_TIME
        )
    if options.only in (None, 'conductor'):
        result['conductor_s'] = _conductor(connection, options.pairs)
    if options.only in (None, 'memory'):
        result['memory'] = _memories(connection)
    print(_table(result) + '\n')
    program.write(result, options.output)


def _options() -> argparse.Namespace:
    parser = program.parser(__doc__, 'create')
    parser.add_argument(
        '--pairs', type=int, default=12, help='servers of each kind'
    )
    parser.add_argument(
        '--only', choices=PARTS, help='leave the other parts out'
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


def _conductor(connection: Connection, pairs: int) -> dict[str, Any]:
    """Create with and without the conductor, in turn."""
    conductor = services.table()[CONDUCTOR]
    times: dict[bool, list[float]] = {True: [], False: []}
    cpu_s = []
    try:
        for number in range(pairs):
            for runs in (True, False) if number % 2 else (False, True):
                if runs:
                    conductor.ensure()
                else:
                    conductor.stop()
                time.sleep(CONDUCTOR_S)
                running = conductor.running()
                before_s = running.cpu_s() if running else 0.0
                times[runs].append(_create(connection, RT))
                if running:
                    cpu_s.append(running.cpu_s() - before_s)
            print(
                f'pair {number + 1:>2} of {pairs}: with {CONDUCTOR} '
                f'{times[True][-1]:.2f} s, without {times[False][-1]:.2f} s',
                flush=True,
            )
    finally:
        conductor.ensure()
    return _compare(
        'with', times[True], 'without', times[False], AIM_CONDUCTOR
    ) | {'conductor_cpu_s': statistics.median(cpu_s)}


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


def _memories(connection: Connection) -> dict[str, Any]:
    stock = _memory(connection, stock=True)
    ours = _memory(connection, stock=False)
    return {
        'stock': stock,
        'nova_rt': ours,
        'ratio': ours['process_kb'] / stock['process_kb'],
        'ratio_with_helpers': ours['with_helpers_kb']
        / stock['with_helpers_kb'],
        'ratio_at_rest': ours['at_rest_kb'] / stock['at_rest_kb'],
        'aim': AIM_MEMORY,
        'aim_at_rest': AIM_AT_REST,
    }


def _memory(connection: Connection, stock: bool) -> dict[str, int]:
    """Restart nova-compute and return its resident memory in KiB."""
    name = "Nova's own nova-compute" if stock else 'nova-rt-compute'
    print(f'memory of {name} ...', flush=True)
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
        raise LabError(f'{name} has ended')
    statuses = pathlib.Path(f'/proc/{running.pid}/status').read_text()
    rss = statuses.partition('VmRSS:')[2].split()[0]
    found = {'process_kb': int(rss), 'with_helpers_kb': running.rss_kb()}
    time.sleep(REST_S)
    return found | {'at_rest_kb': running.rss_kb()}


def _compare(
    name: str, ours: list[float], other: str, theirs: list[float], aim: float
) -> dict[str, Any]:
    one, two = statistics.median(ours), statistics.median(theirs)
    return {
        'pairs': len(ours),
        name: {'median': one, 'all': ours},
        other: {'median': two, 'all': theirs},
        'ratio_of_medians': one / two,
        'interval': _interval(ours, theirs),
        'median_of_ratios': statistics.median(
            a / b for a, b in zip(ours, theirs, strict=True)
        ),
        'aim': aim,
    }


def _interval(ours: list[float], theirs: list[float]) -> list[float]:
    """Return what the ratio of medians lies between, by the bootstrap.

    Efron, Tibshirani: An Introduction to the Bootstrap, 1993, chapter 13.
    """
    draw = random.Random(1).choices  # noqa: S311
    ratios = statistics.quantiles(
        (
            statistics.median(draw(ours, k=len(ours)))
            / statistics.median(draw(theirs, k=len(theirs)))
            for _ in range(RESAMPLES)
        ),
        n=40,
    )
    return [ratios[0], ratios[-1]]


def _table(result: dict[str, Any]) -> str:
    rows: list[tuple[str, ...]] = [('', 'nova_rt', 'without', 'ratio', 'aim')]
    if 'create_to_active_s' in result:
        times = result['create_to_active_s']
        rows += _rows('create to ACTIVE', times, 'real_time', 'plain')
    if 'conductor_s' in result:
        times = result['conductor_s']
        rows += _rows('  the conductor', times, 'with', 'without')
        cpu_s = times['conductor_cpu_s']
        rows.append(('  CPU that it takes', f'{cpu_s:.3f} s', '', '', ''))
    if 'memory' in result:
        rows += _memory_rows(result['memory'])
    return '\n' + '\n'.join(
        f'{row[0]:<32}' + ''.join(f'{text:>15}' for text in row[1:])
        for row in rows
    )


def _memory_rows(memory: dict[str, Any]) -> list[tuple[str, ...]]:
    ours, stock = memory['nova_rt'], memory['stock']
    return [
        (
            'memory of nova-compute',
            f'{ours["process_kb"] / 1024:.0f} MiB',
            f'{stock["process_kb"] / 1024:.0f} MiB',
            f'{memory["ratio"]:.3f}',
            f'{memory["aim"]}',
        ),
        (
            '  with its privileged helpers',
            f'{ours["with_helpers_kb"] / 1024:.0f} MiB',
            f'{stock["with_helpers_kb"] / 1024:.0f} MiB',
            f'{memory["ratio_with_helpers"]:.3f}',
            '',
        ),
        (
            '  the same at rest',
            f'{ours["at_rest_kb"] / 1024:.0f} MiB',
            f'{stock["at_rest_kb"] / 1024:.0f} MiB',
            f'{memory["ratio_at_rest"]:.3f}',
            f'{memory["aim_at_rest"]}',
        ),
    ]


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
            '  19 of 20 times between',
            '',
            '',
            '{:.3f}..{:.3f}'.format(*times['interval']),
            '',
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

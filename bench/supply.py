# SPDX-License-Identifier: Apache-2.0
"""Measure what busy servers get on a node, beside hogs and full neighbours.

On a lab with a node. Makes two servers of 9 ms in every 10 ms, which fill its
two CPUs, and lets endless real-time loops run in both. Each window is measured
twice: as it is, and while two ordinary and two real-time processes of the
node, of priority 99, run on the CPU of the first server. All figures are of
the kernel's own counts, ``cpu.rt.stat``.

    python -m lab up --node hcbs
    python -m lab exec python -m bench.supply [--seconds S] [--windows N]

With a virtual machine on the host's clock, only means over many periods say
something: the host takes a virtual CPU away now and then, and the next period
makes up for it.
"""

import argparse
from collections.abc import Sequence
import json
import pathlib
import statistics
import sys
from typing import Any

from openstack.connection import Connection

from lab import catalog, console, namespace, node, paths, preflight
from lab.console import LabError
from lab.measure import machine
from lab.measure.rtprobe import Probe
from lab.node.group import Group, Moment, watch

FLAVOR = 'rt.ms.large'
COUNT = 2
WAIT_S = 900
#: After the hogs have begun, in seconds.
_SETTLE_S = 2


def main() -> int:
    """Measure, print a table, write JSON; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--seconds', type=int, default=30)
    parser.add_argument('--windows', type=int, default=5)
    parser.add_argument(
        '--output',
        type=pathlib.Path,
        default=paths.RESULTS / 'bench' / 'supply.json',
    )
    options = parser.parse_args()
    try:
        preflight.require_root()
        if not namespace.inside() or not node.nodes():
            raise LabError('this needs a lab with a node: see --help')
        _run(options)
    except LabError as error:
        console.fail(error)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    connection = catalog.connect()
    own = node.nodes()[0]
    servers: list[Any] = []
    try:
        for number in range(COUNT):
            servers.append(_create(connection, own, number))
        groups = [Group.of(own, server.id) for server in servers]
        probes = [_probe(server) for server in servers]
        for probe in probes:
            probe.hog('rr', 1, seconds=3600)
        found = _measure(own, groups, options.seconds, options.windows)
    finally:
        for server in servers:
            connection.compute.delete_server(server, ignore_missing=True)
        for server in servers:
            connection.compute.wait_for_delete(server, wait=WAIT_S)
    result = {
        'machine': machine.describe(),
        'kernel': own.run('uname -r').strip(),
        'release': own.release,
        'seconds': options.seconds,
        'us_per_period': found,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + '\n')
    print(f'written to {options.output}')


def _create(connection: Connection, own: node.Node, number: int) -> Any:
    compute = connection.compute
    network = connection.network.find_network(
        catalog.NETWORK, ignore_missing=False
    )
    server = compute.create_server(
        name=f'bench-supply-{number}',
        image_id=connection.image.find_image(
            catalog.IMAGE, ignore_missing=False
        ).id,
        flavor_id=compute.find_flavor(FLAVOR, ignore_missing=False).id,
        networks=[{'uuid': network.id}],
        availability_zone=f'nova:{own.host}',
    )
    return compute.wait_for_server(server, wait=WAIT_S)


def _probe(server: Any) -> Probe:
    ((address, *_),) = server.addresses.values()
    probe = Probe(address['addr'])
    probe.wait()
    return probe


def _measure(
    own: node.Node, groups: Sequence[Group], seconds: int, windows: int
) -> dict[str, list[float]]:
    """Return the mean of each window in us a period, by what was measured."""
    (cpu,) = groups[0].cpus()
    held_us = groups[0].held().runtime_us
    found: dict[str, list[float]] = {}
    for _ in range(windows):
        for name, hogs_at_s in (('alone', 0.0), ('beside hogs', 0.1)):
            moments = watch(own, cpu, groups, seconds, hogs_at_s)
            for index, which in enumerate(('server', 'neighbour')):
                mean = _mean(moments, index)
                found.setdefault(f'{which}, {name}', []).append(mean)
    print(f'{"":<26}{"median":>10}{"least":>10}{"most":>10}  of {held_us} us')
    for name, means in found.items():
        numbers = (statistics.median(means), min(means), max(means))
        shown = ''.join(f'{number:>10.1f}' for number in numbers)
        off = numbers[0] / held_us - 1
        print(f'{name:<26}{shown}  {off:+.3%}', flush=True)
    return found


def _mean(moments: Sequence[Moment], index: int) -> float:
    """Return the microseconds of a period that a server has used."""
    first = next(each for each in moments if each.seconds > _SETTLE_S)
    last = moments[-1]
    used_us = last.used_us[index] - first.used_us[index]
    return used_us / (last.periods[index] - first.periods[index])


if __name__ == '__main__':
    sys.exit(main())

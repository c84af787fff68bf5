# SPDX-License-Identifier: Apache-2.0
"""Measure registrations with and without noise, as figure 6 of EDGE 2019.

    python -m experiments.ims [--count N] [--rate N]
    python -m experiments.ims --guest [--count N] [--rate N]

The first is in the lab's containers, and the lab has to be up. Kamailio and
MariaDB run in a container with one vCPU, SIPp asks for 257 registrations every
100 ms, or for those of --rate: a node without KVM cannot serve so many. A
plain and a real-time container are alone, and beside four periodic tasks of a
plain container on their CPU. The real-time container is beside the same tasks
of a real-time container, too: stock Linux limits both, and one may wait for
the other.

The second is in a guest with the HCBS kernel under a virtual clock, where each
server is alone and beside noise in turns. It ends with 1 if noise moves the
real-time server's 99th percentile by more than two percent, with 95 %
confidence. The results are in results/ims and results/ims-guest of the lab's
work directory.
"""

import argparse
import contextlib
import subprocess
import sys

from experiments import guest, servers
from experiments.ims import client, cloud, image, turns, virtual
from lab import catalog, namespace, paths
from lab.console import LabError
from lab.measure import distribution

#: Registrations of each case; in the guest: a minute of its time.
COUNT = 25_700
#: Bound on the 99th percentile beside noise, divided by that alone.
MOST = 1.02


def measure(count: int, rate: int) -> list[distribution.Series]:
    """Measure the five cases."""
    found = []
    with contextlib.closing(catalog.connect()) as connection:
        with cloud.Cloud(connection) as ims:
            for kind in cloud.KINDS:
                server = ims.server(kind)
                cases = {kind.beside: True}
                if kind is not cloud.RT_BESIDE_RT:
                    cases = {distribution.ALONE: False} | cases
                for beside, noisy in cases.items():
                    print(f'{kind.word}, {beside}', flush=True)
                    with ims.noise(kind, server.cpu, noisy):
                        times_us = client.register(server, count, rate)
                    found.append(
                        distribution.Series.of(kind.word, beside, times_us)
                    )
                ims.servers.delete()
    return found


def report(
    series: list[distribution.Series], ratio: str, name: str, where: str,
    how: str,
) -> None:  # fmt: skip
    """Write table, picture and every time.

    :param ratio: 99th percentile of the real-time server beside noise, divided
        by that alone, in words
    :param name: name of the directory
    :param where: place of the service, for the picture
    :param how: conditions of the measurement, for the picture
    """
    results = paths.RESULTS / name
    results.mkdir(parents=True, exist_ok=True)
    text = (
        f'{distribution.table(series)}\n\n'
        f'p99 of the real-time server with noise / alone: {ratio}\n'
    )
    (results / 'times.txt').write_text(text)
    print(text, end='')
    for each in series:
        times = ''.join(f'{time}\n' for time in each.times_us)
        (results / f'{each.server}-{each.beside}.us').write_text(times)
    distribution.picture(
        series, 'Registrations with and without a reservation', where, how,
        results / 'registrations.png',
    )  # fmt: skip


def in_guest(count: int, rate: int) -> int:
    """Measure on the HCBS kernel; 1 if noise moves the percentile."""
    paths.RESULTS.mkdir(parents=True, exist_ok=True)
    found = virtual.measure(count, rate, paths.RESULTS / 'ims-guest.log')
    ratio, low, high = turns.ratio(found, 'real-time')
    report(
        turns.merge(found),
        f'{ratio:.3f}, {low:.3f} to {high:.3f} with 95 % confidence',
        'ims-guest',
        'Kamailio and MariaDB in a control group on one CPU, HCBS kernel',
        f'{rate} registrations every 100 ms. Real-time: '
        f'{virtual.RESERVATION} us, noise {virtual.NOISE_RESERVATION} us.\n'
        f'Noise: four tasks of {virtual.NOISE_MS} ms every 100 ms on the same '
        'CPU. One instruction in a nanosecond.',
    )
    return int(low > MOST)


def in_lab(count: int, rate: int) -> int:
    """Measure on the lab's containers."""
    if not namespace.inside():
        # Debian's packages are out of reach where the lab's network is.
        image.build()
        return servers.again('experiments.ims')
    series = measure(count, rate)
    alone, *noisy = (
        one.percentile(99) for one in series if one.server == 'real-time'
    )
    report(
        series,
        f'{max(noisy) / alone:.3f}',
        'ims',
        'Kamailio and MariaDB in a container with one vCPU',
        f'{rate} registrations every 100 ms. Real-time: '
        f'{cloud.RT.reservation} us, rt noise {cloud.RT_BESIDE_RT.noise} us.\n'
        'Noise: four tasks of 5 ms every 100 ms on the same CPU.',
    )
    return 0


def main() -> int:
    """Run the experiment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument('--guest', action='store_true')
    parser.add_argument('--count', type=int, default=COUNT)
    parser.add_argument(
        '--rate',
        type=int,
        help='every 100 ms (default: '
        f'{client.RATE}, in the guest {virtual.RATE})',
    )
    options = parser.parse_args()
    if options.count < 1 or (options.rate is not None and options.rate < 1):
        parser.error('--count and --rate are at least 1')
    try:
        if options.guest:
            return in_guest(options.count, options.rate or virtual.RATE)
        return in_lab(options.count, options.rate or client.RATE)
    except (
        LabError, guest.Failed, subprocess.CalledProcessError
    ) as err:  # fmt: skip
        print(f'experiments.ims: {err}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())

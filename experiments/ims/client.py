# SPDX-License-Identifier: Apache-2.0
"""SIPp, and the times that it measures."""

import os
import subprocess

from experiments.ims import cloud, image
from lab import catalog
from lab.console import LabError
from lab.measure import network

#: Registrations of the paper in each burst.
RATE = 257
BURST_MS = 100
_LOG = 'tmp/times.log'
#: Bursts before the first that counts.
_WARM_UP = 5


def register(server: cloud.Server, count: int, rate: int) -> list[int | None]:
    """Send registrations; return how long each took, in microseconds.

    :param count: number of registrations
    :param rate: of them, in each burst
    :returns: their times; None for one that failed
    :raises LabError: if most of them failed
    """
    cpu = max(os.sched_getaffinity(0) - {server.cpu}, default=server.cpu)
    with network.ahead(cpu):
        _sipp(server.ip, cpu, _WARM_UP * rate, rate)
        done = _sipp(server.ip, cpu, count, rate)
    times: list[int | None] = []
    for line in (image.ROOT / _LOG).read_text().splitlines():
        s0, us0, s1, us1 = map(float, line.split())
        times.append(round((s1 - s0) * 1e6 + us1 - us0))
    if len(times) < count / 2:
        raise LabError(f'{count - len(times)} of {count} failed: {done}')
    return [*times, *[None] * (count - len(times))]


def _sipp(ip: str, cpu: int, count: int, rate: int) -> str:
    (image.ROOT / _LOG).unlink(missing_ok=True)
    seconds = count / rate * BURST_MS / 1000
    words = [
        'taskset', '--cpu-list', str(cpu), 'chrt', '--fifo', '1',
        'chroot', str(image.ROOT),
        'sipp', '-sf', '/root/register.xml', '-inf', '/root/users.csv',
        f'{ip}:5060', '-i', str(catalog.GATEWAY),
        '-r', str(rate), '-rp', str(BURST_MS), '-m', str(count),
        '-timeout', str(int(2 * seconds + 20)), '-nostdin',
        '-trace_logs', '-log_file', f'/{_LOG}',
    ]  # fmt: skip
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return str(done.stderr[-300:])

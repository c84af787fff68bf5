# SPDX-License-Identifier: Apache-2.0
"""On a node: the CPU time that reservations are given, by the kernel's counts.

``watch.py SECONDS HOGS_AT CPU [GROUP...]``

After HOGS_AT seconds, 0 for never, four hogs begin on CPU: two ordinary
processes, and two real-time ones of the highest priority. Prints for each
moment its time, and for each GROUP the periods and the microseconds since the
beginning. Without a group, the time of an endless loop on CPU that is
real-time and has no reservation, as a container on a kernel that only limits.
"""

from collections.abc import Callable
import json
import os
import signal
import sys
import time

_STEP_S = 0.1
_MOST_S = 300
_HIGHEST, _LOWEST = 99, 1


def main() -> None:
    """Watch; print it as JSON."""
    seconds, hogs_at = map(float, sys.argv[1:3])
    cpu, groups = int(sys.argv[3]), sys.argv[4:]
    # This program is to run where the hogs do not.
    others = os.sched_getaffinity(0) - {cpu}
    children = [] if groups else [loop(cpu, _LOWEST)]
    os.sched_setaffinity(0, others or {cpu})
    # Of what a reservation leaves there, before others.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_LOWEST))
    if groups:
        sources = [of_group(path) for path in groups]
    else:
        sources = [of_process(children[0])]
    began = time.monotonic()
    first = [source() for source in sources]
    found = []
    try:
        while (now := time.monotonic() - began) < seconds:
            if hogs_at and now > hogs_at:
                children += [
                    loop(cpu, priority)
                    for priority in (0, 0, _HIGHEST, _HIGHEST)
                ]
                hogs_at = 0
            counts = [
                [value - start for value, start in zip(source(), before)]
                for source, before in zip(sources, first)
            ]
            found.append([time.monotonic() - began, counts])
            time.sleep(_STEP_S)
    finally:
        # The others do not get to their end before these are gone.
        for child in reversed(children):
            os.kill(child, 9)
            os.waitpid(child, 0)
    print(json.dumps(found))


def loop(cpu: int, priority: int) -> int:
    """Start an endless loop on a CPU; return its process."""
    child = os.fork()
    if child:
        return child
    # Even if its parent is gone.
    signal.alarm(_MOST_S)
    policy = {0: os.SCHED_OTHER, _HIGHEST: os.SCHED_FIFO}.get(
        priority, os.SCHED_RR
    )
    os.sched_setscheduler(0, policy, os.sched_param(priority))
    os.sched_setaffinity(0, {cpu})
    while True:
        pass


def of_group(path: str) -> Callable[[], tuple[int, int]]:
    """Return a function that reads periods and microseconds of a group."""
    file = open(f'{path}/cpu.rt.stat')

    def read() -> tuple[int, int]:
        file.seek(0)
        words = dict(
            word.split('=') for word in file.readline().split() if '=' in word
        )
        return int(words['periods']), int(words['used_usec'])

    return read


def of_process(pid: int) -> Callable[[], tuple[int, int]]:
    """Return a function that reads the microseconds of a process."""
    # The clock of its CPU time, see clock_getcpuclockid(3).
    clock = (~pid << 3) | 2

    def read() -> tuple[int, int]:
        return 0, int(time.clock_gettime(clock) * 1e6)

    return read


if __name__ == '__main__':
    main()

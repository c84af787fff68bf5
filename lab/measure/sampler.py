# SPDX-License-Identifier: Apache-2.0
"""Reads the reservation of each real-time group ten times a second.

A process of its own, so that nothing which a test kills, restarts or waits for
makes a gap. It writes a line when something has changed, and a summary when it
ends; :mod:`lab.measure.course` reads that. Only the kernel's files are
read, never nova_rt, which is checked.
"""

import argparse
from collections.abc import Iterator
import contextlib
import dataclasses
import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import types
from typing import TextIO

from lab import paths
from lab.measure import container
from lab.measure.course import Course, Group, Groups

INTERVAL_NS = 100_000_000
#: Of one compute host, and of another on the same machine.
PARTITIONS = ('machine', 'nova-rt-lab-2/machine')
_START_S = 10
# A group that goes while it is being read.
_GONE = (errno.ENOENT, errno.ENODEV)


@dataclasses.dataclass(frozen=True)
class Tree:
    """The cgroup directories in which the kernel shows reservations.

    :ivar cpu: the hierarchy of the cpu controller
    :ivar cpuset: that of the cpusets; the same on cgroup v2
    :ivar partitions: groups in both, below which each container has one
    """

    cpu: pathlib.Path
    cpuset: pathlib.Path
    partitions: tuple[str, ...]

    @classmethod
    def of_this_machine(cls, partitions: tuple[str, ...]) -> 'Tree':
        """Find the hierarchies among the mounts."""
        mounted = container.hierarchies()
        unified = mounted.get('')
        cpu = mounted.get('cpu', unified)
        cpuset = mounted.get('cpuset', unified)
        assert cpu and cpuset, 'no cpu controller is mounted'
        return cls(cpu, cpuset, partitions)

    def read(self, before: Groups) -> Groups:
        """Read every container's group.

        :param before: the last reading. libvirt removes a group from one
            hierarchy after the other; one that is gone from the cpusets only
            still has the CPUs that it had.
        :returns: the group's path below the hierarchy -> reservation
        """
        found: Groups = {}
        for partition in self.partitions:
            for name in _groups_in(self.cpu / partition):
                path = f'{partition}/{name}'
                with _unless_gone():
                    held = _held(self.cpu / path)
                    cpus = self._cpus(partition, name)
                    if cpus is None:
                        known = before.get(path)
                        cpus = known.cpus if known else self._all(partition)
                    found[path] = Group(*held, cpus)
        return found

    def _cpus(self, partition: str, name: str) -> tuple[int, ...] | None:
        with _unless_gone():
            return _cpus(self.cpuset / partition / name)
        return None

    def _all(self, partition: str) -> tuple[int, ...]:
        return _cpus(self.cpuset / partition)


@contextlib.contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _GONE:
            raise


def _groups_in(partition: pathlib.Path) -> list[str]:
    with _unless_gone(), os.scandir(partition) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())
    return []


def _held(group: pathlib.Path) -> tuple[int, int]:
    # Runtime and period, in microseconds. On v2 a group that says max holds
    # nothing of its own: libvirt's innermost group does.
    maximum = group / 'cpu.rt.max'
    while maximum.exists():
        runtime, period = maximum.read_text().split()
        if runtime != 'max':
            return int(runtime), int(period)
        inside = _groups_in(maximum.parent)
        if not inside:
            return 0, int(period)
        maximum = maximum.parent / inside[0] / 'cpu.rt.max'
    runtime = (group / 'cpu.rt_runtime_us').read_text()
    return int(runtime), int((group / 'cpu.rt_period_us').read_text())


def _cpus(group: pathlib.Path) -> tuple[int, ...]:
    effective = group / 'cpuset.cpus.effective'
    name = effective if effective.exists() else group / 'cpuset.cpus'
    return tuple(container.cpu_list(name.read_text()))


def watch(tree: Tree, output: TextIO, interval_ns: int) -> None:
    """Sample until a signal asks to end.

    :param output: takes the lines; flushed after each
    """
    ending = False

    def end(*_: int | types.FrameType | None) -> None:
        nonlocal ending
        ending = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    last: Groups = {}
    samples = longest_ns = 0
    began_ns = then_ns = due_ns = time.monotonic_ns()
    while not ending:
        now_ns = time.monotonic_ns()
        groups = tree.read(last)
        if groups != last or not samples:
            _write(output, t=now_ns, groups=_plain(groups))
        last = groups
        longest_ns = max(longest_ns, now_ns - then_ns)
        then_ns = now_ns
        samples += 1
        # Late is late: no burst makes up for it.
        due_ns = max(due_ns + interval_ns, now_ns)
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
    _write(
        output, samples=samples, longest_ns=longest_ns, began=began_ns,
        ended=then_ns, cpu_ns=time.process_time_ns(),
    )  # fmt: skip


def _plain(groups: Groups) -> dict[str, object]:
    return {
        name: [group.runtime_us, group.period_us, list(group.cpus)]
        for name, group in groups.items()
    }


def _write(output: TextIO, **line: object) -> None:
    output.write(json.dumps(line) + '\n')
    output.flush()


class Watch:
    """A sampler that runs.

    :ivar file: has its lines
    """

    def __init__(self, file: pathlib.Path, child: 'subprocess.Popen[bytes]'):
        self.file = file
        self._child = child

    def end(self) -> Course:
        """End it, if it still runs, and read its record.

        :raises ValueError: if it did not run to its end
        """
        self._child.terminate()
        self._child.wait(_START_S)
        return Course.read(self.file)


@contextlib.contextmanager
def running(file: pathlib.Path) -> Iterator[Watch]:
    """Run a sampler beside a test.

    :raises TimeoutError: if it does not begin
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    words = [sys.executable, '-m', 'lab.measure.sampler', str(file)]
    child = subprocess.Popen(words, cwd=paths.CHECKOUT)
    try:
        deadline = time.monotonic() + _START_S
        while not file.exists() or not file.stat().st_size:
            if child.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError('the sampler does not begin')
            time.sleep(0.02)
        yield Watch(file, child)
    finally:
        child.terminate()
        child.wait(_START_S)


def main() -> None:
    """Sample this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('file', type=pathlib.Path)
    options = parser.parse_args()
    tree = Tree.of_this_machine(PARTITIONS)
    with options.file.open('w') as output:
        watch(tree, output, INTERVAL_NS)


if __name__ == '__main__':
    main()

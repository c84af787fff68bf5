#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what nova-rt-exporter costs a host with many containers.

    python bench/exporter.py [--servers 200] [--scrapes 12] [--interval 10]
        [--kernel v1|files] [--output FILE]

``v1`` makes a group of its own in this machine's cpu and cpuset hierarchies of
cgroup v1, with a group, a reservation and a process for each container, and
removes them; it needs root. ``files`` puts the files of the HCBS kernel into
a directory. There the kernel's own part of a read is missing.

Either way the exporter is the real one, and curl scrapes it by HTTP. libvirt
is its test driver in the same process, so the reading of each domain's record
is real, and the way to libvirtd and back is not. The output is what part of
one CPU the exporter takes at the interval, and how long a scrape takes; the
exit code is 1 if that is 1 % or more, or 100 ms or more.
"""

import argparse
from collections.abc import Iterator
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import libvirt

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nova_rt.cmd import exporter  # noqa: E402
from nova_rt.exporter import domains, reading, snapshot  # noqa: E402
from nova_rt.formats import counts  # noqa: E402
from nova_rt.host.files import Files  # noqa: E402
from nova_rt.host.host import Host  # noqa: E402
from nova_rt.host.options import Options  # noqa: E402
from nova_rt.reservation import domain_record, record  # noqa: E402
from nova_rt.reservation.request import Request  # noqa: E402
from nova_rt.reservation.reservation import Reservation  # noqa: E402

#: Small enough for 1000 on a host whose kernel sums over all CPUs.
RESERVATION = Reservation(500, 1_000_000)
_CPUSET = pathlib.Path('/sys/fs/cgroup/cpuset')
_CPU = pathlib.Path('/sys/fs/cgroup/cpu')


class Domain:
    """One of libvirt's, with the number of a process of ours."""

    def __init__(self, domain: libvirt.virDomain, pid: int) -> None:
        self._domain = domain
        self._pid = pid

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)

    def ID(self) -> int:
        """The process."""
        return self._pid


class Libvirt:
    """libvirt's test driver with these domains."""

    def __init__(self, records: dict[int, record.Record]) -> None:
        self._connection = libvirt.open('test:///default')
        self._pids = {}
        for pid, rec in records.items():
            domain = self._connection.createXML(
                f'<domain type="test"><name>server-{pid}</name>'
                '<memory>1024</memory><os><type>hvm</type></os><metadata>'
                f'<rt:reservation xmlns:rt="{domain_record.NAMESPACE}">'
                f'{rec.encode()}</rt:reservation></metadata></domain>'
            )
            self._pids[domain.UUIDString()] = pid

    def isAlive(self) -> bool:
        """It is."""
        return True

    def listAllDomains(self) -> list[Domain]:
        """The domains of ours among all."""
        return [
            Domain(domain, self._pids[domain.UUIDString()])
            for domain in self._connection.listAllDomains()
            if domain.UUIDString() in self._pids
        ]


def _put(path: pathlib.Path, text: object) -> None:
    with path.open('wb', buffering=0) as file:
        file.write(str(text).encode())


@contextlib.contextmanager
def kernel_v1(count: int) -> Iterator[tuple[Files, str, dict[int, Any]]]:
    """Make containers of this kernel.

    :returns: the host's files, the partition, process -> record
    """
    name = f'nova-rt-bench-{os.getpid()}'
    cpus = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        tops = [base / name for base in (_CPU, _CPUSET)]
        for top in tops:
            _make(stack, top)
        period, budget = RESERVATION.period_us, RESERVATION.runtime_us
        _put(tops[0] / 'cpu.rt_period_us', period)
        try:
            _put(tops[0] / 'cpu.rt_runtime_us', count * budget)
        except OSError as err:
            raise SystemExit(
                f'The kernel does not give {count * budget} us in 1 s: '
                f'{err.strerror}. Other groups hold its bandwidth; end the '
                'lab, take fewer servers, or use --kernel files.'
            ) from err
        for file in ('cpuset.cpus', 'cpuset.mems'):
            _put(tops[1] / file, (_CPUSET / file).read_text())
        records = {}
        for number in range(count):
            groups = [top / f'lxc-{number}.libvirt-lxc' for top in tops]
            for group in groups:
                _make(stack, group)
            cpu = cpus[number % len(cpus)]
            _put(groups[0] / 'cpu.rt_period_us', period)
            _put(groups[0] / 'cpu.rt_runtime_us', budget)
            _put(groups[1] / 'cpuset.cpus', cpu)
            _put(groups[1] / 'cpuset.mems', 0)
            process = subprocess.Popen(['sleep', 'infinity'])
            stack.callback(_end, process)
            for group in groups:
                _put(group / 'cgroup.procs', process.pid)
            records[process.pid] = record.Record(
                Request(RESERVATION, 1), (cpu,)
            )
        yield Files(), name, records


def _make(stack: contextlib.ExitStack, group: pathlib.Path) -> None:
    group.mkdir()
    stack.callback(group.rmdir)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextlib.contextmanager
def kernel_files(count: int) -> Iterator[tuple[Files, str, dict[int, Any]]]:
    """Write the files of a host with the HCBS kernel and 64 CPUs.

    :returns: the host's files, the partition, process -> record
    """
    with tempfile.TemporaryDirectory(dir='/dev/shm') as directory:
        root = pathlib.Path(directory)
        files = Files(*(str(root / each) for each in ('cg', 'proc', 'sys')))
        online = range(64)
        _write(files.sys / 'devices/system/cpu/online', '0-63')
        held = RESERVATION.runtime_us * count // len(online)
        _group(files.cgroup, '0-63', '950000 1000000')
        _write(
            files.cgroup / 'cpu.rt.effective',
            ''.join(
                f'{cpu} ceiling_ppm=900000 reserved_ppm={held}\n'
                for cpu in online
            ),
        )
        partition = files.cgroup / 'machine.slice'
        _group(partition, '0-63', 'max 1000000')
        _write(partition / 'cpu.rt.effective', '')
        (files.cgroup / 'system.slice').mkdir()
        records = {}
        for number in range(count):
            pid, cpu = 10_000 + number, number % len(online)
            rec = record.Record(Request(RESERVATION, 1), (cpu,))
            scope = partition / f'machine-lxc-{number}.scope'
            group = scope / 'libvirt'
            _group(scope, '0-63', 'max 1000000')
            _write(scope / 'cpu.rt.effective', '')
            _group(group, str(cpu), str(RESERVATION).replace('/', ' '))
            runtime, period = RESERVATION.runtime_us, RESERVATION.period_us
            _write(
                group / 'cpu.rt.effective',
                f'{cpu} runtime_ns={runtime * 1000} '
                f'period_ns={period * 1000}\n',
            )
            _write(
                group / 'cpu.rt.stat',
                f'{cpu} periods=123456 throttled=789 used_usec=12345678\n',
            )
            below = group.relative_to(files.cgroup)
            _write(files.proc / str(pid) / 'cgroup', f'0::/{below}\n')
            records[pid] = rec
        yield files, 'machine.slice', records


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _group(path: pathlib.Path, cpus: str, share: str) -> None:
    _write(path / 'cpuset.cpus', cpus)
    _write(path / 'cpuset.cpus.effective', cpus)
    _write(path / 'cpu.rt.max', share)
    _write(path / 'cgroup.threads', '')
    _write(path / 'cgroup.subtree_control', 'cpu cpuset')
    for number in range(20):  # As many others as a group has.
        _write(path / f'memory.{number}', '')


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Scrape for a while.

    :returns: the figures
    """
    make = {'v1': kernel_v1, 'files': kernel_files}[options.kernel]
    with contextlib.ExitStack() as stack:
        files, partition, records = stack.enter_context(make(options.servers))
        files = snapshot.Snapshot(files)
        options_of_host = Options(smt=True, partition=partition)
        connection = Libvirt(records)
        counters = stack.enter_context(tempfile.NamedTemporaryFile('w'))
        counters.write(counts.Counts(host=options_of_host.to_dict()).encode())
        counters.flush()
        reader = reading.HostReader(
            lambda found: Host.from_options(found, files),
            files,
            domains.Domains('', 10, lambda uri: connection),
            pathlib.Path(counters.name),
        )
        conf = exporter.read_options(['--config-file', '/dev/null'])
        conf.set_override('port', 0, 'nova_rt_exporter')
        serving = exporter.make_server(conf, exporter.Collector(reader))
        stack.enter_context(serving)
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(serving.shutdown)
        url = f'http://127.0.0.1:{serving.server_address[1]}/metrics'
        first = _scrape(url)[1]
        used = sum(line.startswith('nova_rt_server_drifted') for line in first)
        bad = [line for line in first if line.startswith('nova_rt_up')
               and not line.endswith(' 1.0')]  # fmt: skip
        if used != options.servers or bad:
            raise SystemExit(f'{used} servers were read, and {bad}')
        drifted = sum(
            line.startswith('nova_rt_server_drifted') and line.endswith('1.0')
            for line in first
        )
        times = []
        began, before = time.monotonic(), time.process_time()
        for number in range(options.scrapes):
            wait = began + (number + 1) * options.interval - time.monotonic()
            time.sleep(max(0.0, wait))
            times.append(_scrape(url)[0])
        cpu_s = time.process_time() - before
        return {
            'kernel': options.kernel,
            'servers': options.servers,
            'drifted': drifted,
            'interval_s': options.interval,
            'scrapes': options.scrapes,
            'cpu_of_a_scrape_ms': round(1000 * cpu_s / options.scrapes, 1),
            'cpu_share_percent': round(
                100 * cpu_s / (time.monotonic() - began), 2
            ),
            'scrape_median_ms': round(1000 * statistics.median(times), 1),
            'scrape_longest_ms': round(1000 * max(times), 1),
            'bytes': sum(len(line) + 1 for line in first),
        }


def _scrape(url: str) -> tuple[float, list[str]]:
    """Scrape by a process of its own.

    :returns: seconds, by curl, and the lines of the answer
    """
    answer = subprocess.run(
        ['curl', '--silent', '--fail', '--write-out', '%{time_total}', url],
        check=True,
        capture_output=True,
        text=True,
    )
    *lines, seconds = answer.stdout.split('\n')
    return float(seconds), lines


def main() -> int:
    """Measure and print.

    :returns: the exit code
    """
    parser = argparse.ArgumentParser(
        description='Measure what nova-rt-exporter costs.'
    )
    parser.add_argument('--servers', type=int, default=200)
    parser.add_argument('--scrapes', type=int, default=12)
    parser.add_argument('--interval', type=float, default=10)
    parser.add_argument('--kernel', choices=('v1', 'files'), default='files')
    parser.add_argument('--output', type=pathlib.Path)
    options = parser.parse_args()
    found = measure(options)
    for name, value in found.items():
        print(f'{name:>20}  {value}')
    if options.output:
        options.output.write_text(json.dumps(found, indent=2) + '\n')
    # At the interval, however long this went on.
    share = found['cpu_of_a_scrape_ms'] / 10 / options.interval
    return int(share >= 1 or found['scrape_median_ms'] >= 100)


if __name__ == '__main__':
    sys.exit(main())

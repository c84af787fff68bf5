# SPDX-License-Identifier: Apache-2.0
"""Measure how many reports conductors take: simulated computes, a real bus.

Starts RabbitMQ and MariaDB (or uses those whose URLs are given), conductors,
and processes that report for many hosts as nova-rt-compute does: each minute a
question, a state and usage, with some events in between. ``--interval 60``
is real time; a shorter one finds the limit. Prints JSON: reports taken in a
second, how long a conductor takes to answer, how old the oldest report is,
and the memory and CPU time of each program.

    python -m bench.reports --hosts 1000 --servers 20 --interval 60 \\
        --seconds 180 --conductors 1
"""

import argparse
from collections.abc import Iterator
import contextlib
import datetime
import json
import multiprocessing
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any
import urllib.request

import fixtures
from oslo_config import cfg
import oslo_messaging

from lab.measure import distribution
from nova_rt import events
from nova_rt.compute import reports
from nova_rt.compute.backlog import Backlog
from nova_rt.compute.epoch import Epoch
from nova_rt.compute.meter import Meter
from nova_rt.compute.meter_file import Clock, MeterFile
from nova_rt.compute.spool import Spool
from nova_rt.conductor import rpcapi
from nova_rt.db import api
from nova_rt.host.interface import Counted, Usage
from nova_rt.reservation.admission import Capacity, Scope
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures import database, rabbitmq
from nova_rt.tests.fixtures.reports import make_uuid

CPUS = 32
VCPUS = 2
#: Threads that report in one process: a host waits for its answers.
THREADS = 16

Figures = dict[str, Any]


class Capability:
    """Capability of each simulated host: a guarantee on every CPU."""

    name = 'v2-rt-max-cpu'
    enforcement = Enforcement.GUARANTEE
    scope = Scope.CPU


class Host:
    """A host, see :class:`nova_rt.compute.reports.Source` and ``Running``."""

    adopted = True
    capability: Any = Capability()

    def __init__(self, number: int, servers: int) -> None:
        self.name = f'bench{number:05}'
        self.dispatcher = events.Dispatcher()
        self.held = self
        self._periods = 0
        self._records = {
            make_uuid(number * 1000 + index + 1): Record.decode(
                'v=1;q=1000;p=10000;n=2;e=guarantee;s=rr;r=1;'
                f'c={VCPUS * index % CPUS}-{VCPUS * index % CPUS + 1}'
            )
            for index in range(servers)
        }

    def capacity(self) -> Capacity:
        """Return the bandwidth that the CPUs can promise."""
        return Capacity(dict.fromkeys(range(CPUS), 950_000))

    def list_records(self) -> dict[str, Record]:
        """Return the record of what each server holds."""
        return dict(self._records)

    def list_running(self) -> set[str]:
        """All of them run."""
        return set(self._records)

    def read_counted(self, uuid: str) -> Counted:
        """Counters that grow."""
        self._periods += 1
        usage = Usage(self._periods, self._periods, self._periods * 500)
        return Counted(1, dict.fromkeys(self._records[uuid].cpus, usage))

    def happen(self) -> None:
        """Emit the events of a server that drifts and is repaired."""
        uuid, record = random.choice(  # noqa: S311
            list(self._records.items())
        )
        self.dispatcher.emit(events.Drifted(uuid, record, 'a benchmark'))
        self.dispatcher.emit(events.Repaired(uuid, record, 'a benchmark'))


class Timed(rpcapi.ConductorAPI):
    """Measures how long a conductor takes to answer."""

    def __init__(self, *args: Any, spans_s: list[float], **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._spans_s = spans_s

    def get_position(self, epoch: int) -> Any:
        begin_s = time.perf_counter()
        try:
            return super().get_position(epoch)
        finally:
            self._spans_s.append(time.perf_counter() - begin_s)


def drive(
    url: str, numbers: range, args: argparse.Namespace, out: Any
) -> None:
    """Report for some hosts, until the time is over.

    :param numbers: of the hosts
    :param out: a queue for what was measured
    """
    # oslo.messaging registers some options on this one alone.
    conf = cfg.CONF
    conf([], default_config_files=[], default_config_dirs=[])
    transport = oslo_messaging.get_rpc_transport(conf, url=url)
    spans_s: list[float] = []
    failed = [0]
    late = [0.0]
    end_s = time.monotonic() + args.seconds

    def run(mine: range) -> None:
        made = [_make_reporter(transport, number, args, spans_s)
                for number in mine]  # fmt: skip
        begin_s = time.monotonic()
        # Spread over the interval, as hosts are that started at any time.
        due = [
            [begin_s + args.interval * index / len(made), *each]
            for index, each in enumerate(made)
        ]
        while time.monotonic() < end_s:
            due.sort(key=lambda each: each[0])
            wait_s = due[0][0] - time.monotonic()
            if wait_s > 0:
                time.sleep(min(wait_s, 0.5))
                continue
            late[0] = max(late[0], -wait_s)
            _, host, reporter = due[0]
            host.happen()
            try:
                reporter.report()
                reporter.report_usage()
            except oslo_messaging.MessagingException:
                failed[0] += 1
            due[0][0] = max(due[0][0] + args.interval, time.monotonic()
                            - args.interval)  # fmt: skip

    threads = [
        threading.Thread(target=run, args=(numbers[start::THREADS],))
        for start in range(THREADS)
        if numbers[start::THREADS]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out.put((spans_s, failed[0], late[0]))


def _make_reporter(
    transport: Any,
    number: int,
    args: argparse.Namespace,
    spans_s: list[float],
) -> tuple[Host, reports.Reporter]:
    host = Host(number, args.servers)
    backlog = Backlog()
    host.dispatcher.subscribe(backlog)
    path = pathlib.Path(args.directory) / host.name
    return host, reports.Reporter(
        Timed(transport, host.name, spans_s=spans_s),
        host,
        host,
        backlog,
        Epoch(path),
        Spool(path.with_name(f'events-{host.name}')),
        'bench',
        Meter(
            host,
            host,
            MeterFile(path.with_name(f'usage-{host.name}')),
            Clock(),
        ),
        60,
    )


class Conductor:
    """A conductor as a process."""

    def __init__(self, url: str, connection: str, workers: int) -> None:
        (self._port,) = rabbitmq.find_ports(1)
        self._top = tempfile.TemporaryDirectory(prefix='nova-rt-bench-')
        path = pathlib.Path(self._top.name)
        (path / 'conf').write_text(
            f'[DEFAULT]\ntransport_url = {url}\n'
            f'[nova_rt_database]\nconnection = {connection}\n'
            f'[nova_rt_conductor]\nworkers = {workers}\n'
            f'metrics_port = {self._port}\nupkeep_interval = 30\n'
        )
        self._log = path / 'log'
        with self._log.open('w') as log:
            self._process = subprocess.Popen(
                [sys.executable, '-W', 'ignore', '-m',
                 'nova_rt.cmd.conductor', '--config-file', path / 'conf'],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, 'TMPDIR': str(path)},
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while not self.read_metrics():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise SystemExit(self._log.read_text())
            time.sleep(0.2)

    def read_metrics(self) -> str:
        """Ask as Prometheus does; empty if it does not answer."""
        with contextlib.suppress(OSError):
            page = f'http://127.0.0.1:{self._port}/metrics'
            with urllib.request.urlopen(page, timeout=10) as answer:
                return str(answer.read().decode())
        return ''

    def count(self, metric: str) -> float:
        """Add up a metric."""
        lines = re.findall(
            rf'^{metric}(?:{{.*}})? (\S+)$', self.read_metrics(), re.M
        )
        return sum(map(float, lines))

    def look(self) -> Figures:
        """Memory and CPU time of its processes."""
        pids = _family(self._process.pid)
        return {
            'rss_mb': sum(map(_rss_mb, pids)),
            'cpu_s': round(sum(map(_cpu_s, pids)), 1),
            'processes': len(pids),
        }

    def stop(self) -> None:
        """Stop it."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._top.cleanup()


def _children(pid: int) -> list[int]:
    # Of every thread: any may have forked.
    return [
        int(word)
        for path in pathlib.Path(f'/proc/{pid}/task').glob('*/children')
        for word in path.read_text().split()
    ]


def _family(pid: int) -> list[int]:
    """A process, and all that it has started."""
    return [
        pid,
        *(each for child in _children(pid) for each in _family(child)),
    ]


def _rss_mb(pid: int) -> int:
    text = pathlib.Path(f'/proc/{pid}/status').read_text()
    found = re.search(r'^VmRSS:\s+(\d+) kB', text, re.M)
    return int(found[1]) // 1024 if found else 0


def _cpu_s(pid: int) -> float:
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2]
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')


@contextlib.contextmanager
def _servers(args: argparse.Namespace) -> Iterator[tuple[str, str, list[int]]]:
    """Provide a bus and a database with its tables.

    :returns: both URLs, and the processes that were started
    """
    with contextlib.ExitStack() as stack:
        pids = []
        url = args.transport_url
        if not url:
            bus = stack.enter_context(rabbitmq.RabbitMQ())
            url = bus.url
            pids.append(bus.process.pid)
        server: Any = None
        if args.connection:
            server = _Given(args.connection)
        else:
            server = stack.enter_context(database.MariaDB())
            pids.append(server.process.pid)
        made = stack.enter_context(database.Database(server))
        yield url, made.url, pids


class _Given:
    """A database that is there."""

    def __init__(self, connection: str) -> None:
        self._connection = connection

    def create(self) -> str:
        """Nothing to make."""
        return self._connection


def measure(args: argparse.Namespace) -> Figures:
    """Run the simulation.

    :returns: the figures
    """
    with _servers(args) as (url, connection, pids):
        conductors = [
            Conductor(url, connection, args.workers)
            for _ in range(args.conductors)
        ]
        try:
            return _measure(args, url, conductors, pids)
        finally:
            for conductor in conductors:
                conductor.stop()


def _measure(
    args: argparse.Namespace,
    url: str,
    conductors: list[Conductor],
    pids: list[int],
) -> Figures:
    context = multiprocessing.get_context('spawn')
    out = context.Queue()
    drivers = [
        context.Process(
            target=drive,
            args=(url, range(args.hosts)[start :: args.drivers], args, out),
        )
        for start in range(args.drivers)
    ]
    begin_s = time.monotonic()
    for driver in drivers:
        driver.start()
    ages_s = []
    while any(driver.is_alive() for driver in drivers):
        time.sleep(5)
        now = datetime.datetime.now(datetime.UTC)
        ages_s.append(max(
            ((now - host.last_report_at).total_seconds()
             for host in api.list_hosts()), default=0.0,
        ))  # fmt: skip
        if not out.empty():
            break
    measured = [out.get() for _ in drivers]
    for driver in drivers:
        driver.join()
    sent_s = time.monotonic() - begin_s
    # What is still in the queue.
    taken = -1.0
    while taken != (taken := _taken(conductors)):
        time.sleep(1)
    spans_s = sorted(each for spans, _, _ in measured for each in spans)
    drained_s = max(0.0, time.monotonic() - begin_s - sent_s - 2)
    return {
        'hosts': args.hosts,
        'servers': args.servers,
        'interval_s': args.interval,
        'conductors': args.conductors,
        'workers': args.workers,
        'seconds': round(sent_s, 1),
        'reports': int(taken),
        'reports_per_s': round(taken / (sent_s + drained_s), 1),
        'wanted_per_s': round(4 * args.hosts / args.interval, 1),
        'unanswered': sum(failed for _, failed, _ in measured),
        'drivers_late_s': round(max(late for *_, late in measured), 2),
        'answer_median_s': round(statistics.median(spans_s), 4),
        'answer_p99_s': round(distribution.percentile(spans_s, 99), 4),
        'drained_after_s': round(drained_s, 1),
        'oldest_report_s': round(max(ages_s[len(ages_s) // 2 :]), 1),
        'failed': sum(
            each.count('nova_rt_conductor_failed_reports_total')
            for each in conductors
        ),
        'hosts_seen': len(api.list_hosts()),
        'servers_seen': len(api.list_servers()),
        'conductor': [each.look() for each in conductors],
        'other_rss_mb': [sum(map(_rss_mb, _family(pid))) for pid in pids],
    }


def _taken(conductors: list[Conductor]) -> float:
    return sum(
        each.count('nova_rt_conductor_reports_total') for each in conductors
    )


def main() -> int:
    """Measure and print.

    :returns: the exit code, 1 if a host or a report is missing
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, default=100)
    parser.add_argument('--servers', type=int, default=20)
    parser.add_argument('--interval', type=float, default=10)
    parser.add_argument('--seconds', type=float, default=30)
    parser.add_argument('--conductors', type=int, default=1)
    parser.add_argument('--workers', type=int, default=1)
    parser.add_argument('--drivers', type=int, default=1)
    parser.add_argument('--transport-url', help='of a RabbitMQ that is there')
    parser.add_argument('--connection', help='of an empty database')
    parser.add_argument('--output', type=pathlib.Path)
    args = parser.parse_args()
    with fixtures.TempDir() as directory:
        args.directory = directory.path
        figures = measure(args)
    text = json.dumps(figures, indent=2)
    print(text)
    if args.output:
        args.output.write_text(text + '\n')
    whole = figures['hosts_seen'] == args.hosts and (
        figures['servers_seen'] == args.hosts * args.servers
    )
    return 0 if whole and not figures['failed'] else 1


if __name__ == '__main__':
    sys.exit(main())

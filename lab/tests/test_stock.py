# SPDX-License-Identifier: Apache-2.0
"""A node on Debian's own kernel, of ``lab up --node stock``."""

import json
import shlex
import unittest

from lab import node
from lab.tests import on_nodes

_HOGS = 4
_SECONDS = 10
_WINDOWS = 10
#: Of the share of a busy server, relative: see test_node.
_TOLERANCE = 0.02
_BUSY = 'while :; do :; done'
# On the node: the daemon's counts of a group, twice.
_WATCH = """
import json, socket, sys, time
def read():
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect('/run/nova-rt-sched/socket')
        daemon.sendall(f'stat {sys.argv[1]}\\n'.encode())
        line = daemon.makefile().readline()
    return {k: int(v) for k, _, v in (w.partition('=') for w in line.split())
            if v.strip().isdigit()}, time.monotonic()
(first, began), _ = read(), time.sleep(float(sys.argv[2]))
last, ended = read()
counts = {key: last[key] - first[key] for key in last}
print(json.dumps(counts | {'seconds': ended - began}))
"""


def _stock():
    return [each for each in node.nodes() if each.kind == 'stock']


@unittest.skipUnless(_stock(), 'a lab with a node on a stock kernel only')
class StockTest(on_nodes.NodesTestCase):
    """Soft reservations, by nova-rt-sched."""

    def setUp(self):
        self.node = _stock()[0]
        super().setUp()
        self.only_on(self.node)
        specs = {'rt:reservation': '9000/10000', 'rt:enforcement': 'soft'}
        self.soft = self.flavor(specs)

    def held(self, server):
        """Return what the daemon holds for the group of a server."""
        path = self.group(server).path
        listed = self.node.run('cat /run/nova-rt-sched/reservations')
        for line in listed.splitlines():
            _, _, name, runtime, period, cpus = line.split()
            if path.startswith(name):
                return f'{runtime}/{period}', [int(cpus)]
        return None

    def assert_held_by_the_daemon(self, server):
        rec = self.record(server)
        self.assertEqual(
            (str(rec.request.reservation), list(rec.cpus)), self.held(server)
        )
        return rec

    def test_soft(self):
        """Two servers fill the node, a third is refused, hogs take nothing."""
        servers = [self.create_on(self.node, self.soft) for _ in range(2)]
        recs = [self.assert_held_by_the_daemon(each) for each in servers]
        self.assertEqual({0, 1}, {rec.cpus[0] for rec in recs})
        self.assertEqual('soft', self.stats()[self.node.host].enforcement)
        third = self.request_server(self.soft)
        self.wait_for(
            lambda: self.cloud.compute.get_server(third).status == 'ERROR',
            'the third server is not refused',
        )
        fault = self.cloud.compute.get_server(third).fault['message']
        self.assertIn('asked 900600 ppm', fault)
        self.assertIn('free 49400 ppm', fault)

        group = self.group(servers[0])
        self.start(f"echo $$ >'{group.directory}/cgroup.procs'; {_BUSY}")
        for _ in range(_HOGS):
            self.start(_BUSY)
        shares = []
        for _ in range(_WINDOWS):
            counts = self.watch(group)
            shares.append(counts['used_ns'] / counts['seconds'] / 9e8)
            if abs(shares[-1] - 1) < _TOLERANCE:
                return
        self.fail(f'shares of the reservation in each window: {shares}')

    def start(self, script):
        """Run a script on the node until the end of the test."""
        pid = self.node.run(
            f'setsid sh -c {shlex.quote(script)} >/dev/null 2>&1 & echo $!'
        ).strip()
        self.addCleanup(self.node.run, f'kill -9 {pid}')

    def watch(self, group):
        name = group.path
        return json.loads(
            self.node.run(f"python3 - '{name}' {_SECONDS}", text=_WATCH)
        )

    def test_daemon_is_killed(self):
        """Nothing is stopped, and the reservations come back."""
        server = self.create_on(self.node, self.soft)
        self.assert_held_by_the_daemon(server)
        before = self.node.restarts('nova-rt-sched')
        self.node.run('systemctl kill -s KILL nova-rt-sched')
        self.wait_for(
            lambda: (
                self.node.restarts('nova-rt-sched') > before
                and self.held(server)
            ),
            'the daemon does not come back with the reservation',
            on_nodes.PATIENCE_S,
        )
        self.assert_held_by_the_daemon(server)
        self.assertTrue(self.runs(server))

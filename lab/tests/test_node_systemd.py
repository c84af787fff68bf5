# SPDX-License-Identifier: Apache-2.0
"""Things that systemd and operators do to groups of servers on a node."""

import time

from lab.tests import base
from lab.tests.on_nodes import ACTIVE_S, LARGE, LOG, MEDIUM, PATIENCE_S
from lab.tests.test_node import NodeTestCase

#: Longer than it takes nova-rt-compute to stop a server: two of its checks.
CHECKS_S = 150


class SystemdTest(NodeTestCase):
    """Effects of systemctl on machine.slice, and limits of nova-compute."""

    def setUp(self):
        super().setUp()
        self.seen = len(self.log())

    def log(self):
        return self.node.run(f'cat {LOG}').splitlines()

    def log_since(self):
        """Return what nova-rt-compute has logged since the test began."""
        return '\n'.join(self.log()[self.seen :])

    def compute_pid(self):
        return int(
            self.node.run('systemctl show -P MainPID nova-compute').strip()
        )

    def allow(self, cpus):
        """Give the servers of the node these CPUs; return what it says."""
        return self.node.run(
            'systemctl set-property --runtime machine.slice '
            f'AllowedCPUs={cpus} 2>&1; '
            'cat /sys/fs/cgroup/machine.slice/cpuset.cpus.effective'
        ).strip()

    def assert_kept(self, servers):
        """Servers run, and nova-rt-compute has found nothing to mend."""
        for server in servers:
            self.assert_held(server, '3000/10000')
        self.assertNotIn('Reservation not held', self.log_since())

    def test_daemon_reload(self):
        """systemd makes all groups as it wants them, as upgrades have it."""
        servers = [self.request_server(MEDIUM) for _ in range(4)]
        reloads = 0
        while any(
            self.cloud.compute.get_server(each.id).status == 'BUILD'
            for each in servers
        ):
            self.node.run('systemctl daemon-reload')
            reloads += 1
        self.assertGreater(reloads, 0)
        for server in servers:
            self.reach(server, 'ACTIVE')
        self.assert_kept(servers)
        for _ in range(3):
            self.node.run('systemctl daemon-reload')
        time.sleep(CHECKS_S)
        self.assert_kept(servers)

    def test_fewer_cpus(self):
        """Servers of a CPU that the slice loses run on, beside the others."""
        servers = [self.create_on_node(MEDIUM) for _ in range(2)]
        cpus = [self.assert_held(each, '3000/10000').cpus for each in servers]
        self.assertEqual({(0,), (1,)}, set(cpus))
        self.addCleanup(self.allow, '')
        self.assertEqual('0-1', self.allow('0-1'))
        self.assert_kept(servers)

        self.assertEqual('0', self.allow('0'))
        moved = self.group(servers[cpus.index((1,))])
        self.assertEqual([0], moved.cpus())
        self.assertEqual('3000/10000', str(moved.held()))
        self.assertEqual(
            '0 runtime_ns=3000000 period_ns=10000000',
            moved.read('cpu.rt.effective'),
        )
        self.wait_for(
            lambda: 'CPUs 1, which servers have claimed' in self.log_since(),
            lambda: f'it says {self.log_since()[-2000:]}',
            PATIENCE_S,
        )
        time.sleep(CHECKS_S)
        self.assertNotIn('Stopping this container', self.log_since())
        for server in servers:
            self.assertTrue(self.runs(server))
        free = self.stats()[self.node.host].free
        self.assertEqual(0, free[1])
        # The kernel counts each reservation rounded down.
        self.assertLess(abs(free[0] - 350_000), 3)
        third = self.create_on_node(MEDIUM)
        self.assertEqual((0,), self.assert_held(third, '3000/10000').cpus)

        self.assertEqual('0-1', self.allow('0-1'))
        for server in servers:
            self.wait_for(
                lambda server=server: (
                    self.group(server).cpus() == list(self.record(server).cpus)
                ),
                'it does not get its CPU back',
                PATIENCE_S,
            )
            self.assert_held(server, '3000/10000')

    def test_fewer_cpus_than_reservations_need(self):
        servers = [self.create_on_node(LARGE) for _ in range(2)]
        self.addCleanup(self.allow, '')
        # The kernel refuses it; systemd tells that to its journal alone.
        self.assertEqual('0-1', self.allow('0'))
        for server in servers:
            self.assert_held(server, '9000/10000')
        self.assertNotIn('Reservation not held', self.log_since())

    def test_restart_of_the_slice(self):
        """systemd makes it anew around the servers, which notice nothing."""
        servers = [self.create_on_node(MEDIUM) for _ in range(2)]
        self.node.run('systemctl restart machine.slice')
        self.assert_kept(servers)
        time.sleep(CHECKS_S)
        self.assert_kept(servers)

    def test_limits_of_nova_compute(self):
        """No real-time priority, and then no open file more than it has."""
        server = self.create_on_node(MEDIUM)
        pid = self.compute_pid()
        self.node.run(f'prlimit --pid {pid} --rtprio=0:0')
        self.assert_held(self.create_on_node(MEDIUM), '3000/10000')
        before = self.node.run(
            f'prlimit --pid {pid} --noheadings --raw --output SOFT,HARD '
            '--nofile'
        ).split()
        back = f'prlimit --pid {pid} --nofile={":".join(before)}'
        self.addCleanup(self.node.run, back)
        self.node.run(
            f'prlimit --pid {pid} --nofile=$(ls /proc/{pid}/fd | wc -l):'
        )
        plain = self.request_server(base.PLAIN)
        self.wait_for(
            lambda: (
                self.cloud.compute.get_server(plain).status
                in ('ACTIVE', 'ERROR')
            ),
            'Nova does not come to an end',
            ACTIVE_S,
        )
        print(self.cloud.compute.get_server(plain).status, flush=True)
        self.assert_held(server, '3000/10000')
        self.node.run(back)
        self.create_on_node(base.PLAIN)
        self.assert_held(self.create_on_node(MEDIUM), '3000/10000')
        self.assertEqual(pid, self.compute_pid())
        self.assertNotIn('Stopping this container', self.log_since())

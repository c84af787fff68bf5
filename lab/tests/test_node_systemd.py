# SPDX-License-Identifier: Apache-2.0
"""Things that systemd and operators do to groups of servers on a node."""

from lab.tests.on_nodes import (
    ACTIVE_S,
    LARGE,
    LOG,
    MEDIUM,
    PATIENCE_S,
)
from lab.tests.test_node import NodeTestCase

PLAIN = 'plain.small'


class SystemdTest(NodeTestCase):
    """Effects of systemctl on machine.slice."""

    def setUp(self):
        super().setUp()
        self.seen = len(self.log())

    def log(self):
        return self.node.run(f'cat {LOG}').splitlines()

    def log_since(self):
        """Return what nova-rt-compute has logged since the test began."""
        return '\n'.join(self.log()[self.seen :])

    def allow(self, cpus):
        """Give the servers of the node these CPUs; return what it says."""
        return self.node.run(
            'systemctl set-property --runtime machine.slice '
            f'AllowedCPUs={cpus} 2>&1; '
            'cat /sys/fs/cgroup/machine.slice/cpuset.cpus.effective'
        ).strip()

    def test_fewer_cpus_than_reservations_need(self):
        servers = [self.create_on_node(LARGE) for _ in range(2)]
        self.addCleanup(self.allow, '')
        # The kernel refuses it; systemd tells that to its journal alone.
        self.assertEqual('0-1', self.allow('0'))
        for server in servers:
            self.assert_held(server, '9000/10000')
        self.assertNotIn('Reservation not held', self.log_since())

    def test_reloads_while_servers_start(self):
        """systemd writes the properties of all its units again.

        It answers nobody meanwhile: without KVM that may be too long for
        libvirt, which ends the start. No server runs without its reservation.
        """
        servers = [self.request_server(MEDIUM) for _ in range(6)]
        running = []
        for server in servers:
            self.node.run('systemctl daemon-reload')
            self.wait_for(
                lambda: self._status(server) in {'ACTIVE', 'ERROR'},
                'a server is forgotten',
                ACTIVE_S,
            )
            found = self.cloud.compute.get_server(server.id)
            if found.status == 'ACTIVE':
                running.append(found)
            else:
                self.assertIn('Timeout was reached', found.fault['message'])
        self.assertTrue(running)
        for server in running:
            self.assert_held(server, '3000/10000')
        self.assertNotIn('Reservation not held', self.log_since())

    def test_restart_of_the_slice(self):
        """It ends no server."""
        servers = [self.create_on_node(MEDIUM) for _ in range(2)]
        self.node.run('systemctl restart machine.slice')
        for server in servers:
            self.assertTrue(self.runs(server))
            self.assert_held(server, '3000/10000')
        self.assertNotIn('Reservation not held', self.log_since())

    def test_no_file_left(self):
        """nova-rt-compute may open no file more, and then again."""
        kept = self.create_on_node(MEDIUM)
        limits = self.node.run(
            'pid=$(systemctl show -P MainPID nova-compute); '
            'prlimit --pid $pid --nofile --noheadings --output SOFT,HARD; '
            'prlimit --pid $pid --nofile=$(ls /proc/$pid/fd | wc -l):'
        ).split()
        self.addCleanup(self._limit_files, *limits)
        refused = self.request_server(PLAIN)
        self.wait_for(
            lambda: self._status(refused) in {'ACTIVE', 'ERROR'},
            'a plain server is forgotten',
            PATIENCE_S,
        )
        self.assert_held(kept, '3000/10000')
        self._limit_files(*limits)
        # It offers nothing while it cannot read the kernel's files.
        self.wait_for(
            lambda: any(self.stats()[self.node.host].free.values()),
            'the node offers nothing',
            PATIENCE_S,
        )
        self.assert_held(self.create_on_node(MEDIUM), '3000/10000')
        self.create_on_node(PLAIN)
        self.assertEqual(0, self.node.restarts('nova-compute'))
        # Nova could not remove its files, and forgets them with its host.
        self.delete(refused)
        self.node.run('rm -rf /var/lib/nova/instances/*_del')

    def _limit_files(self, soft, hard):
        self.node.run(
            'prlimit --pid $(systemctl show -P MainPID nova-compute) '
            f'--nofile={soft}:{hard}'
        )

    def _status(self, server):
        found = self.cloud.compute.get_server(server.id)
        return None if found.task_state else found.status

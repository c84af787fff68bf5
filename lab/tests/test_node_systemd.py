# SPDX-License-Identifier: Apache-2.0
"""Things that systemd and operators do to groups of servers on a node."""

from lab.tests.on_nodes import LARGE, LOG
from lab.tests.test_node import NodeTestCase


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

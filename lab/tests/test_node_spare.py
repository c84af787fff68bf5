# SPDX-License-Identifier: Apache-2.0
"""Pools of spare bandwidth on a node, of ``lab up --node hcbs``."""

from lab.measure.rtprobe import ProbeError
from lab.tests.on_nodes import PATIENCE_S
from lab.tests.test_node import NodeTestCase

CONF = '/etc/nova/nova-compute.conf'
POOL = '1000/10000'
RESERVATION = '40000/100000'
# The first priority above that of the flavor.
URGENT = 2


class SpareTest(NodeTestCase):
    """A server uses the pool of its CPU while its budget is used up."""

    def setUp(self):
        super().setUp()
        self.node.run(f'cp -p {CONF} {CONF}.kept')
        self.addCleanup(self._restart, f'mv {CONF}.kept {CONF}', 950_000)
        pool = f'[nova_rt]\\nspare_pool = {POOL}\\n'
        self._restart(f"printf '{pool}' >>{CONF}", 850_000)

    def _restart(self, change, free_ppm):
        """Start the service with another configuration."""
        self.node.run(f'{change}; systemctl restart nova-compute', PATIENCE_S)
        self.wait_for(
            lambda: max(self._free().values()) == free_ppm,
            lambda: f'the node offers {self._free()}',
            PATIENCE_S,
        )
        self.wait_for_state(self.node, 'up')

    def _free(self):
        return self.stats()[self.node.host].free

    def _counts(self, path, *names):
        """Sum counts of a cpu.rt.stat over the CPUs."""
        text = self.node.run(f"cat '/sys/fs/cgroup/{path}/cpu.rt.stat'")
        pairs = [word.split('=') for word in text.split() if '=' in word]
        return [
            sum(int(value) for key, value in pairs if key == name)
            for name in names
        ]

    def assert_subscribed(self, server):
        found = self.group(server)
        self.assertEqual(RESERVATION, str(found.held()))
        self.assertEqual(str(URGENT), found.read('cpu.rt.spare'))
        self.assertIn('spare=1', found.read('cpu.rt.effective'))
        return found

    def test_urgent_tasks(self):
        partition = 'machine.slice'
        self.assertEqual(
            POOL.split('/'),
            self.node.run(
                f'cat /sys/fs/cgroup/{partition}/cpu.rt.spare.max'
            ).split()[:2],
        )
        self.assertEqual({0: 850_000, 1: 850_000}, self._free())
        flavor = self.flavor(
            {'rt:reservation': RESERVATION, 'rt:spare': '1000/10000'}
        )
        server = self.create_on_node(flavor, network=True)
        found = self.assert_subscribed(server)
        probe = self.probe(server)
        probe.hog('rr', 1, seconds=3600)
        self.addCleanup(probe.quiet)
        # Its batch work alone does not use the pool.
        (before,) = self._counts(partition, 'spare_used_usec')
        self.node.run('sleep 3')
        self.assertEqual([before], self._counts(partition, 'spare_used_usec'))
        with self.assertRaisesRegex(ProbeError, 'EPERM'):
            probe.hog('fifo', URGENT + 1)
        # The service, which is less urgent, answers after that.
        probe.hog('fifo', URGENT, seconds=4)
        self.wait_for(
            lambda: self._counts(found.path, 'spare_usec')[0] > 10_000,
            'the urgent task does not use the pool',
            PATIENCE_S,
        )
        self.assertGreater(
            self._counts(partition, 'spare_used_usec')[0], before
        )

    def test_restarts(self):
        flavor = self.flavor(
            {'rt:reservation': RESERVATION, 'rt:spare': '1000/10000'}
        )
        server = self.create_on_node(flavor)
        self.assert_subscribed(server)
        self._restart('true', 850_000)
        self.assert_subscribed(server)
        self.cloud.compute.reboot_server(server, 'HARD')
        self.reach(server, 'ACTIVE')
        found = self.assert_subscribed(server)
        self.node.run(f"echo 0 >'{found.directory}/cpu.rt.spare'")
        self.wait_for(
            lambda: found.read('cpu.rt.spare') == str(URGENT),
            'the subscription is not repaired',
            PATIENCE_S,
        )

# SPDX-License-Identifier: Apache-2.0
"""Pools of spare bandwidth on nodes, of ``lab up --node hcbs[=2]``."""

import unittest

from lab import node
from lab.measure.rtprobe import ProbeError
from lab.node import group, pool
from lab.tests import on_nodes
from lab.tests.on_nodes import PATIENCE_S

POOL = '1000/10000'
RESERVATION = '40000/100000'
# The first priority above that of the flavor.
URGENT = 2


class SpareTestCase(on_nodes.NodesTestCase):
    """A test with a pool on each CPU of some nodes.

    :cvar number: of nodes
    """

    number = 1

    def setUp(self):
        self.nodes = node.nodes()[: self.number]
        super().setUp()
        self.only_on(*self.nodes)
        for own in self.nodes:
            self.enterContext(pool.configured(self.cloud, own, POOL))
        self.urgent = self.flavor(
            {'rt:reservation': RESERVATION, 'rt:spare': POOL}
        )

    def wait_for_free(self, own, free_ppm):
        """Wait until a node offers as much on an empty CPU."""

        def free():
            return self.stats()[own.host].free

        self.wait_for(
            lambda: max(free().values()) == free_ppm,
            lambda: f'{own.host} offers {free()}',
            PATIENCE_S,
        )
        self.wait_for_state(own, 'up')

    def assert_subscribed(self, server):
        found = self.group(server)
        self.assertEqual(RESERVATION, str(found.held()))
        self.assertEqual(str(URGENT), found.read('cpu.rt.spare'))
        self.assertIn('spare=1', found.read('cpu.rt.effective'))
        return found


class SpareTest(SpareTestCase):
    """A server uses the pool of its CPU while its budget is used up."""

    def test_urgent_tasks(self):
        (own,) = self.nodes
        partition = group.Group(own, '/machine.slice')
        self.assertEqual(
            POOL.split('/'), partition.read('cpu.rt.spare.max').split()[:2]
        )

        def used_us():
            return partition.counts('cpu.rt.stat', 'spare_used_usec')

        self.assertEqual({0: 850_000, 1: 850_000}, self.stats()[own.host].free)
        server = self.create_on(own, self.urgent, network=True)
        found = self.assert_subscribed(server)
        probe = self.probe(server)
        probe.hog('rr', 1, seconds=3600)
        self.addCleanup(probe.quiet)
        # Its batch work alone does not use the pool.
        before = used_us()
        own.run('sleep 3')
        self.assertEqual(before, used_us())
        with self.assertRaisesRegex(ProbeError, 'EPERM'):
            probe.hog('fifo', URGENT + 1)
        # The service, which is less urgent, answers after that.
        probe.hog('fifo', URGENT, seconds=4)
        self.wait_for(
            lambda: found.counts('cpu.rt.stat', 'spare_usec') > [10_000],
            'the urgent task does not use the pool',
            PATIENCE_S,
        )
        self.assertGreater(used_us(), before)

    def test_restarts(self):
        (own,) = self.nodes
        server = self.create_on(own, self.urgent)
        self.assert_subscribed(server)
        own.run('systemctl restart nova-compute', PATIENCE_S)
        self.wait_for_free(own, 850_000)
        self.assert_subscribed(server)
        self.cloud.compute.reboot_server(server, 'HARD')
        self.reach(server, 'ACTIVE')
        found = self.assert_subscribed(server)
        own.run(f"echo 0 >'{found.directory}/cpu.rt.spare'")
        self.wait_for(
            lambda: found.read('cpu.rt.spare') == str(URGENT),
            'the subscription is not repaired',
            PATIENCE_S,
        )


@unittest.skipUnless(len(node.nodes()) > 1, 'a lab with two nodes only')
class SpareMovesTest(SpareTestCase):
    """The pool of the other node serves a server that has moved there."""

    number = 2

    def test_cold_migration(self):
        first, other = self.nodes
        server = self.request_server(
            self.urgent, availability_zone=f'nova:{first.host}'
        )
        server = self.reach(server, 'ACTIVE')
        self.assert_subscribed(server)
        self.cloud.compute.migrate_server(server.id)
        self.reach(server, 'VERIFY_RESIZE')
        self.assertEqual(other.host, self.host_of(server))
        self.assert_subscribed(server)
        self.cloud.compute.confirm_server_resize(server.id)
        self.reach(server, 'ACTIVE')
        self.assert_subscribed(server)
        self.wait_for_audit(PATIENCE_S)

# SPDX-License-Identifier: Apache-2.0
"""Two hosts of one cloud with a guarantee, of ``lab up --node hcbs=2``."""

import unittest

from lab import node
from lab.tests import on_nodes
from lab.tests.on_nodes import LARGE, PATIENCE_S

#: Of the file that a server keeps across a move.
FILE = '/root/written'


@unittest.skipUnless(len(node.nodes()) > 1, 'a lab with two nodes only')
class MovesTest(on_nodes.NodesTestCase):
    """The guarantee moves with the server, and its disk."""

    def setUp(self):
        self.first, self.other = node.nodes()[:2]
        super().setUp()

    def run_in(self, server, command):
        """Run a command as the root of a container."""
        return (
            self.node_of(server)
            .run(
                f'pid=$(virsh -q -c lxc:/// domid {server.id}); '
                'first=$(cut -d" " -f1 /proc/$pid/task/$pid/children); '
                'nsenter --target $first --user --mount --setuid 0 --setgid 0 '
                f"sh -c '{command}'"
            )
            .strip()
        )

    def assert_gone_from(self, own, server):
        """Nothing of a server is on a node."""
        self.wait_for(
            lambda: (
                server.id
                not in own.run(
                    'virsh -q -c lxc:/// list --all --uuid; '
                    'ls /var/lib/nova/instances'
                )
            ),
            f'{own.host} keeps a server that has moved',
            PATIENCE_S,
        )

    def test_cold_migration(self):
        server = self.request_server(
            LARGE, availability_zone=f'nova:{self.first.host}'
        )
        server = self.reach(server, 'ACTIVE')
        self.assertEqual(self.first.host, self.host_of(server))
        self.assert_held(server, '9000/10000')
        self.run_in(server, f'echo moved >{FILE}')
        self.cloud.compute.migrate_server(server.id)
        self.reach(server, 'VERIFY_RESIZE')
        self.assertEqual(self.other.host, self.host_of(server))
        self.assert_held(server, '9000/10000')
        self.assertEqual('moved', self.run_in(server, f'cat {FILE}'))
        # Until it is confirmed, the source keeps what a revert needs.
        stats = self.stats()
        for own in (self.first, self.other):
            self.assertEqual(
                [50_000, 950_000], sorted(stats[own.host].free.values())
            )
        self.cloud.compute.confirm_server_resize(server.id)
        self.reach(server, 'ACTIVE')
        self.assert_held(server, '9000/10000')
        self.assert_gone_from(self.first, server)
        self.wait_for_audit(PATIENCE_S)

# SPDX-License-Identifier: Apache-2.0
"""Two hosts of one cloud with a guarantee, of ``lab up --node hcbs=2``."""

import time
import unittest

from lab import node
from lab.node import steps
from lab.tests import base, on_nodes
from lab.tests.on_nodes import LARGE, MEDIUM, PATIENCE_S
from lab.tests.test_reports import manage

SMALL = 'rt.ms.small'
RESERVATIONS = {
    SMALL: '1000/10000',
    MEDIUM: '3000/10000',
    LARGE: '9000/10000',
}
#: Of the file that a server keeps across a move.
FILE = '/root/written'


@unittest.skipUnless(len(node.nodes()) > 1, 'a lab with two nodes only')
class NodesTestCase(on_nodes.NodesTestCase):
    def setUp(self):
        self.first, self.other = node.nodes()[:2]
        super().setUp()

    def create_at(self, own, flavor):
        """Create a server on one of the two."""
        server = self.request_server(
            flavor, availability_zone=f'nova:{own.host}'
        )
        server = self.reach(server, 'ACTIVE')
        self.assertEqual(own.host, self.host_of(server))
        self.assert_held(server, RESERVATIONS[flavor])
        return server

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

    def assert_audited(self):
        self.wait_for(
            lambda: manage('audit') == (0, []),
            lambda: f'{manage("audit")}',
            PATIENCE_S,
        )

    def up_again(self, own):
        base.lab('up')
        self.wait_for_state(own, 'up')


class MovesTest(NodesTestCase):
    """The guarantee moves with the server, and its disk."""

    def test_cold_migration(self):
        server = self.create_at(self.first, LARGE)
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
        self.assert_audited()

    def test_resize_and_revert(self):
        server = self.create_at(self.first, MEDIUM)
        self.run_in(server, f'echo kept >{FILE}')
        before = self.assert_held(server, '3000/10000')
        large = self.cloud.compute.find_flavor(LARGE, ignore_missing=False)
        self.enable(self.first.host, False)
        self.addCleanup(self.enable, self.first.host, True)
        self.cloud.compute.resize_server(server.id, large.id)
        self.reach(server, 'VERIFY_RESIZE')
        self.assertEqual(self.other.host, self.host_of(server))
        self.assert_held(server, '9000/10000')
        self.cloud.compute.revert_server_resize(server.id)
        self.reach(server, 'ACTIVE')
        self.assertEqual(self.first.host, self.host_of(server))
        after = self.assert_held(server, '3000/10000')
        self.assertEqual(before.cpus, after.cpus)
        self.assertEqual('kept', self.run_in(server, f'cat {FILE}'))
        self.assert_gone_from(self.other, server)
        self.assert_audited()

    def test_migration_without_room(self):
        """It is refused before anything has moved."""
        server = self.create_at(self.first, LARGE)
        for _ in range(2):
            self.create_at(self.other, LARGE)
        self.cloud.compute.migrate_server(server.id)
        self.wait_for(
            lambda: not self.cloud.compute.get_server(server.id).task_state,
            'the migration does not end',
            PATIENCE_S,
        )
        self.reach(server, 'ACTIVE')
        self.assertEqual(self.first.host, self.host_of(server))
        self.assert_held(server, '9000/10000')
        self.assert_audited()


class PowerTest(NodesTestCase):
    """A node without power, and one that boots another kernel."""

    def test_evacuation(self):
        servers = [
            (self.create_at(self.other, flavor), RESERVATIONS[flavor])
            for flavor in (LARGE, MEDIUM)
        ]
        self.addCleanup(self.up_again, self.other)
        self.other.sync()
        base.lab('kill', self.other.name)
        began = time.monotonic()
        self.wait_for_state(self.other, 'down')
        noticed = time.monotonic()
        for server, _ in servers:
            self.cloud.compute.evacuate_server(server.id)
        for server, reservation in servers:
            self.wait_for(
                lambda server=server: self.host_of(server) == self.first.host,
                'it is not evacuated',
                PATIENCE_S,
            )
            # Nova leaves the start to its owner.
            self.reach(server, 'SHUTOFF')
            self.cloud.compute.start_server(server.id)
            self.reach(server, 'ACTIVE')
            self.assert_held(server, reservation)
        print(
            f'\npower cut to down: {noticed - began:.0f} s; to '
            f'{len(servers)} servers with their reservations on the other '
            f'node: {time.monotonic() - began:.0f} s',
            flush=True,
        )
        # A host that comes back clears away what was taken from it.
        self.up_again(self.other)
        for server, reservation in servers:
            self.assert_gone_from(self.other, server)
            self.assert_held(server, reservation)
        self.assert_audited()

    def test_another_kernel(self):
        """The runbook of a new kernel: drain, install, reboot, verify."""
        servers = [self.create_at(self.other, SMALL) for _ in range(2)]
        self.enable(self.other.host, False)
        self.addCleanup(self.enable, self.other.host, True)
        began = time.monotonic()
        for server in servers:
            self.cloud.compute.migrate_server(server.id)
            self.reach(server, 'VERIFY_RESIZE')
            self.cloud.compute.confirm_server_resize(server.id)
            self.reach(server, 'ACTIVE')
            self.assertEqual(self.first.host, self.host_of(server))
            self.assert_held(server, '1000/10000')
        drained = time.monotonic()
        more = self.other.file(steps.MORE)
        self.addCleanup(self.up_again, self.other)
        self.addCleanup(more.unlink, missing_ok=True)
        # Its command line stands for another kernel.
        more.write_text('rt_kernel=next')
        self.other.sync()
        self.other.run('systemctl stop nova-compute nova-rt-exporter')
        base.lab('up')
        self.wait_for_state(self.other, 'up')
        self.assertIn('rt_kernel=next', self.other.run('cat /proc/cmdline'))
        found = self.other.run('nova-rt-status host check')
        self.assertIn('v2-rt-max-cpu', found)
        booted = time.monotonic()
        self.enable(self.other.host, True)
        self.enable(self.first.host, False)
        self.addCleanup(self.enable, self.first.host, True)
        self.cloud.compute.migrate_server(servers[0].id)
        self.reach(servers[0], 'VERIFY_RESIZE')
        self.cloud.compute.confirm_server_resize(servers[0].id)
        self.reach(servers[0], 'ACTIVE')
        self.assertEqual(self.other.host, self.host_of(servers[0]))
        self.assert_held(servers[0], '1000/10000')
        print(
            f'\ndrained of 2 servers: {drained - began:.0f} s; booted and '
            f'up in Nova: {booted - drained:.0f} s',
            flush=True,
        )
        self.assert_audited()

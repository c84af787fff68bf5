# SPDX-License-Identifier: Apache-2.0
"""A node on the kernel that guarantees, of ``lab up --node hcbs``."""

import unittest

from lab import node, services
from lab.node import group, steps
from lab.tests import base, on_nodes
from lab.tests.on_nodes import BOOT_S, LARGE, LOG, MEDIUM, PATIENCE_S
from lab.tests.reports import query

WINDOW_S = 20
#: Of a mean, relative. On a quiet machine it is 0.0005; a busy one takes the
#: virtual CPU away at times.
TOLERANCE = 0.02
#: Attempts to find a window in which it does not.
WINDOWS = 10


class NodeTestCase(on_nodes.NodesTestCase):
    """A test on one node; no other gets a server meanwhile.

    :cvar number: of the node among those of the lab
    """

    number = 0

    def setUp(self):
        self.node = node.nodes()[self.number]
        super().setUp()
        self.only_on(self.node)

    def create_on_node(self, flavor, network=False):
        return self.create_on(self.node, flavor, network=network)


class NodeTest(NodeTestCase):
    """A guarantee in milliseconds, and what takes it away."""

    def assert_supplied(self, found, cpu, hogs_at=0.0):
        """The mean of a window is the reservation, by the kernel's counts."""
        held = found.held()
        means = []
        for _ in range(WINDOWS):
            moments = group.watch(self.node, cpu, [found], WINDOW_S, hogs_at)
            # Not the moments in which the hogs come.
            first, last = moments[len(moments) // 4], moments[-1]
            means.append(
                (last.used_us[0] - first.used_us[0])
                / (last.periods[0] - first.periods[0])
            )
            share = means[-1] / held.runtime_us
            if abs(share - 1) < TOLERANCE:
                print(f'\n{self.id()}: of {held}: {means} us', flush=True)
                return
        self.fail(f'of {held}, us a period in each window: {means}')

    def test_guarantee(self):
        """Two servers fill the node, a third is refused, hogs take nothing."""
        servers = [self.create_on_node(LARGE, network=True) for _ in range(2)]
        recs = [self.assert_held(each, '9000/10000') for each in servers]
        self.assertEqual({0, 1}, {rec.cpus[0] for rec in recs})
        capacity = self.stats()[self.node.host]
        self.assertEqual('guarantee', capacity.enforcement)
        self.assertIsNone(capacity.host_free)
        self.assertEqual({0: 50_000, 1: 50_000}, capacity.free)

        third = self.request_server(MEDIUM)
        self.wait_for(
            lambda: self.cloud.compute.get_server(third).status == 'ERROR',
            'the third server is not refused',
        )
        fault = self.cloud.compute.get_server(third).fault['message']
        self.assertIn('asked 300000 ppm', fault)
        self.assertIn('free 50000 ppm', fault)

        probe = self.probe(servers[0])
        probe.hog('rr', 1, seconds=3600)
        self.addCleanup(probe.quiet)
        found, (cpu,) = self.group(servers[0]), recs[0].cpus
        self.assert_supplied(found, cpu)
        self.assert_supplied(found, cpu, hogs_at=1)

    def test_repair(self):
        server = self.create_on_node(MEDIUM)
        self.wait_for(
            lambda: self._reserved_ratio(server) == [0.3],
            lambda: f'Prometheus has {self._reserved_ratio(server)}',
        )
        found = self.group(server)
        self.node.run(f"echo 1000 10000 >'{found.directory}/cpu.rt.max'")
        self.wait_for(
            lambda: str(found.held()) == '3000/10000',
            'the reservation is not repaired',
            PATIENCE_S,
        )
        self.assert_held(server, '3000/10000')

    def test_power_cut(self):
        """Servers come back by themselves, each with its reservation."""
        servers = [
            (self.create_on_node(flavor), reservation)
            for flavor, reservation in (
                (LARGE, '9000/10000'),
                (MEDIUM, '3000/10000'),
            )
        ]
        before = [self.assert_held(*each) for each in servers]
        # Nova does not wait until the disk has a new server's files.
        self.node.sync()
        base.lab('kill', self.node.name)
        base.lab('up')
        for server, _ in servers:
            self.wait_until_it_runs(server)
        after = [self.assert_held(*each) for each in servers]
        self.assertEqual(
            [rec.cpus for rec in before], [rec.cpus for rec in after]
        )

    def test_cpu_offline(self):
        """The kernel keeps a CPU whose reservation fits nowhere else."""
        servers = [self.create_on_node(LARGE) for _ in range(2)]
        for server in servers:
            self.assert_held(server, '9000/10000')
        refused = self.node.run(
            'echo 0 2>&1 >/sys/devices/system/cpu/cpu1/online || :'
        )
        self.assertIn('Device or resource busy', refused)
        self.assertEqual(
            '0-1', self.node.run('cat /sys/devices/system/cpu/online').strip()
        )
        for server in servers:
            self.assert_held(server, '9000/10000')

    def test_kernel_without_guarantee(self):
        """A host that boots it keeps its servers off until it has another."""
        server = self.create_on_node(MEDIUM)
        self.addCleanup(base.lab, 'up')
        more = self.node.file(steps.MORE)
        self.addCleanup(more.unlink, missing_ok=True)
        # The same kernel without the controller that reservations are of.
        more.write_text('cgroup_disable=cpu')
        steps.disks()
        services.table()[self.node.name].ensure()
        self.wait_for(
            lambda: (
                'cannot start: no file for RT bandwidth'
                in self.node.run(f'tail -n 5 {LOG}')
            ),
            'nova-rt-compute does not say what it lacks',
            BOOT_S,
        )
        self.assertNotIn(
            server.id, self.node.run('virsh -q -c lxc:/// list --uuid')
        )
        self.wait_for_state(self.node, 'down')
        other = self.request_server(MEDIUM)
        self.wait_for(
            lambda: self.cloud.compute.get_server(other).status == 'ERROR',
            'a server is not refused',
        )
        fault = self.cloud.compute.get_server(other).fault['message']
        self.assertIn('No valid host', fault)
        more.unlink()
        base.lab('up')
        self.wait_until_it_runs(server)
        self.assert_held(server, '3000/10000')

    def _reserved_ratio(self, server):
        """Values that the exporter of the node has for a server."""
        return list(
            query(
                f'nova_rt_server_cpu_reserved_ratio{{server="{server.id}",'
                f'instance="{self.node.address}:9839"}}'
            ).values()
        )


@unittest.skipUnless(
    len({each.release for each in node.nodes()}) > 1,
    'a lab with nodes of two releases of Debian only',
)
class OtherReleaseTest(NodeTest):
    """The same on the other release, with its libvirt and systemd."""

    number = 1

    def setUp(self):
        super().setUp()
        first = node.nodes()[0]
        self.assertNotEqual(first.release, self.node.release)
        self.assertEqual(
            self.node.release,
            self.node.run('. /etc/os-release; echo ${VERSION_ID%%.*}').strip(),
        )

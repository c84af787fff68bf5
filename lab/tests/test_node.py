# SPDX-License-Identifier: Apache-2.0
"""A node on the kernel that guarantees, of ``lab up --node hcbs``."""

import unittest

from lab import node, services
from lab.node import group, steps
from lab.tests import base
from lab.tests.test_reports import query

LARGE, MEDIUM = 'rt.ms.large', 'rt.ms.medium'
#: A node without KVM is slow.
ACTIVE_S = 600
#: A boot with the servers that ran before.
BOOT_S = 1200
#: nova-rt-compute compares once a minute.
PATIENCE_S = 300
WINDOW_S = 20
#: Of a mean, relative. On a quiet machine it is 0.0005; a busy one takes the
#: virtual CPU away at times.
TOLERANCE = 0.02
#: Attempts to find a window in which it does not.
WINDOWS = 10
LOG = '/var/log/nova/nova-compute.log'


@unittest.skipUnless(node.nodes(), 'a lab with a node only')
class NodeTest(base.LabTestCase):
    """Servers with a guarantee, in milliseconds."""

    active_s = ACTIVE_S

    def setUp(self):
        self.node = node.nodes()[0]
        super().setUp()

    def create_on_node(self, flavor, network=False):
        server = self.create(flavor, network=network)
        self.assertEqual(self.node.host, self.host_of(server))
        return server

    def group(self, server):
        return group.Group.of(self.node, server.id)

    def assert_held(self, server, reservation):
        """Record, Placement, tracker and kernel hold the same."""
        rec = self.record(server)
        self.assertEqual(reservation, str(rec.request.reservation))
        found = self.group(server)
        self.assertEqual(reservation, str(found.held()))
        self.assertEqual(list(rec.cpus), found.cpus())
        # Where systemd has the machines of libvirt.
        self.assertTrue(found.path.startswith('/machine.slice/'), found.path)
        self.assertEqual(
            rec.total_ppm, self.allocations(server)[base.RESOURCE_CLASS]
        )
        (cpu,) = rec.cpus
        runtime_us, period_us = map(int, reservation.split('/'))
        self.assertEqual(
            f'{cpu} runtime_ns={runtime_us}000 period_ns={period_us}000',
            found.read('cpu.rt.effective'),
        )
        return rec

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
            self.wait_for(
                lambda server=server: self._runs(server),
                'a server does not come back',
                BOOT_S,
            )
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
        self.addCleanup(steps.MORE.unlink, missing_ok=True)
        # The same kernel without the controller that reservations are of.
        steps.MORE.write_text('cgroup_disable=cpu')
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
        self.wait_for(
            lambda: self._state() == 'down',
            'Nova takes it for a compute host',
            PATIENCE_S,
        )
        other = self.request_server(MEDIUM)
        self.wait_for(
            lambda: self.cloud.compute.get_server(other).status == 'ERROR',
            'a server is not refused',
        )
        fault = self.cloud.compute.get_server(other).fault['message']
        self.assertIn('No valid host', fault)
        steps.MORE.unlink()
        base.lab('up')
        self.wait_for(
            lambda: self._runs(server), 'it does not come back', BOOT_S
        )
        self.assert_held(server, '3000/10000')

    def _reserved_ratio(self, server):
        """Values that the exporter of the node has for a server."""
        return list(
            query(
                f'nova_rt_server_cpu_reserved_ratio{{server="{server.id}",'
                f'instance="{self.node.address}:9839"}}'
            ).values()
        )

    def _state(self):
        (found,) = self.cloud.compute.services(
            binary='nova-compute', host=self.node.host
        )
        return found.state

    def _runs(self, server):
        found = self.cloud.compute.get_server(server)
        if found.status != 'ACTIVE' or found.task_state:
            return False
        listed = self.node.run('virsh -q -c lxc:/// list --uuid')
        return server.id in listed

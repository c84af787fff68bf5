# SPDX-License-Identifier: Apache-2.0
"""The kernel holds a server's reservation for as long as the server runs."""

import os

from lab.measure import container
from lab.tests import base
from nova_rt import admission


class ReservationTest(base.LabTestCase):
    """One server through its life."""

    def test_life(self):
        server = self.create('rt.small')
        self.assert_agree(server, '20000/100000')
        first = self.container(server)

        self.cloud.compute.stop_server(server)
        self.reach(server, 'SHUTOFF')
        self.wait_for(first.gone, 'control groups of a stopped server')
        self.assertIsNone(container.Container.of(server.id))
        self.assert_claimed(server, self.record(server))

        self.cloud.compute.start_server(server)
        self.reach(server, 'ACTIVE')
        self.assert_agree(server, '20000/100000')
        second = self.container(server)
        self.assertNotEqual(first.pid, second.pid)

        self.cloud.compute.pause_server(server)
        self.reach(server, 'PAUSED')
        self.assert_agree(server, '20000/100000')
        self.cloud.compute.unpause_server(server)
        self.reach(server, 'ACTIVE')
        self.assert_agree(server, '20000/100000')
        self.assertEqual(second.pid, self.container(server).pid)

        self.delete(server)
        self.wait_for(second.gone, 'control groups of a deleted server')
        self.assertEqual({}, self.allocations(server))
        self.wait_for(
            lambda: self.stats() == self.before.stats, 'a claim is left'
        )

    def test_reboot(self):
        server = self.create('rt.small')
        for kind in ('HARD', 'SOFT'):
            with self.subTest(kind):
                before = self.container(server)
                self.cloud.compute.reboot_server(server, kind)
                self.reach(server, 'ACTIVE')
                self.assertNotEqual(before.pid, self.container(server).pid)
                self.assert_agree(server, '20000/100000')
                self.wait_for(before.gone, 'control groups from before')

    def test_restart_of_nova_compute(self):
        server = self.create('rt.small')
        stopped = self.create('rt.tiny')
        self.cloud.compute.stop_server(stopped)
        self.reach(stopped, 'SHUTOFF')
        stats = self.stats()
        before = self.container(server)
        first = before.first_process()

        base.lab('restart', 'nova-compute')

        self.assertEqual(first, self.container(server).first_process())
        self.assertEqual('20000/100000', str(before.held()))
        self.assert_real_time(before)
        self.wait_for(
            lambda: self.stats() == stats, 'the claims are not adopted'
        )
        rec = self.record(server)
        self.assertEqual(
            rec.claim.total_ppm, self.allocations(server)[base.RESOURCE_CLASS]
        )
        self.assertIsNone(container.Container.of(stopped.id))

    def test_repaired_at_restart_of_nova_compute(self):
        server = self.create('rt.small')
        found = self.container(server)
        if not (found.cgroup / 'cpu.rt_runtime_us').exists():
            self.skipTest('written for the files of cgroup v1')
        (found.cgroup / 'cpu.rt_runtime_us').write_text('10000')
        self.assertEqual('10000/100000', str(found.held()))
        base.lab('restart', 'nova-compute')
        self.wait_for(
            lambda: str(found.held()) == '20000/100000', 'not repaired'
        )
        self.assert_agree(server, '20000/100000')

    def test_two_cpus(self):
        if len(self.before.stats.free) < 2:
            self.skipTest('a machine of one CPU')
        server = self.create('rt.large')
        self.assert_agree(server, '20000/100000', cpus=2)

    def test_hint(self):
        server = self.create('rt.small', hint='20000/200000')
        self.assert_agree(server, '20000/200000')
        self.cloud.compute.reboot_server(server, 'HARD')
        self.reach(server, 'ACTIVE')
        self.assert_agree(server, '20000/200000')

    def test_fifo(self):
        flavor = self.rt_flavor('10000/100000', policy='fifo', priority='7')
        server = self.create(flavor)
        self.assert_real_time(self.container(server), os.SCHED_FIFO, 7)


class PlacementOrderTest(base.LabTestCase):
    """Servers go where the pure function says, one after the other."""

    def test_worst_fit(self):
        free = self.stats().capacity
        flavors = [
            (self.rt_flavor('12000/100000'), 120_000),
            (self.rt_flavor('3000/100000'), 30_000),
            (self.rt_flavor('5000/100000'), 50_000),
            (self.rt_flavor('5000/100000'), 50_000),
            (self.rt_flavor('9000/100000'), 90_000),
        ]
        for flavor, ppm in flavors:
            expected = admission.place(free, 1, ppm)
            server = self.create(flavor)
            self.assertEqual(list(expected), self.container(server).cpus())
            self.assertEqual(expected, self.record(server).cpus)
            free = free.free([admission.Claim(expected, ppm)])
            self.assertEqual(free, self.stats().capacity)

# SPDX-License-Identifier: Apache-2.0
"""The kernel holds a server's reservation for as long as the server runs."""

import os

from lab.measure import container
from lab.tests import base


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
    """Each server goes to the emptiest CPU, the first of equal ones.

    By hand, in thousandths of a CPU that are taken, for two CPUs::

        120 -> 120   0    30 -> 120  30    50 -> 120  80
         50 -> 120 130    90 -> 210 130
    """

    ASKED = (120, 30, 50, 50, 90)
    #: Number of CPUs -> which of them each server gets.
    EXPECTED = {
        1: (0, 0, 0, 0, 0),
        2: (0, 1, 1, 1, 0),
        3: (0, 1, 2, 1, 2),
        4: (0, 1, 2, 3, 1),
        5: (0, 1, 2, 3, 4),
    }

    def test_worst_fit(self):
        free = self.before.stats.free
        self.assertEqual(
            1, len(set(free.values())), f'not equally empty at first: {free}'
        )
        cpus = sorted(free)
        expected = self.EXPECTED[min(len(cpus), 5)]
        left = dict(free)
        for thousandths, index in zip(self.ASKED, expected, strict=True):
            cpu = cpus[index]
            server = self.create(self.rt_flavor(f'{thousandths * 100}/100000'))
            self.assertEqual([cpu], self.container(server).cpus())
            self.assertEqual((cpu,), self.record(server).cpus)
            left[cpu] -= thousandths * 1000
            self.assertEqual(left, self.stats().free)

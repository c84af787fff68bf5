# SPDX-License-Identifier: Apache-2.0
"""A program gets its reservation; its neighbours keep the rest."""

import contextlib
import os

from lab.measure import container
from lab.measure.rtprobe import ProbeError
from lab.tests import base

SECONDS = 10
TOLERANCE = 0.02
# What a reservation of 20 % leaves to an ordinary neighbour, of a CPU.
REST = 0.8
# Other programs of the machine, at a 256th of the neighbour's weight, and the
# accounting by ticks.
REST_TOLERANCE = 0.04


class BandwidthTest(base.LabTestCase):
    """Endless loops, and the CPU time that the kernel has counted."""

    def test_hog_gets_its_reservation(self):
        plain = self.create(base.PLAIN, network=True)
        plain_probe = self.probe(plain)
        for policy in ('rr', 'fifo'):
            with self.subTest(policy):
                # The service must come before a FIFO loop, which never gives
                # way. In its user namespace a container may lower priorities,
                # and not choose another policy.
                flavor = self.rt_flavor(
                    '20000/100000', policy=policy, priority='10'
                )
                rt = self.create(flavor, network=True)
                rt_probe = self.probe(rt)
                both = [self.container(rt), self.container(plain)]
                cpu = both[0].cpus()[0]
                rt_probe.hog(policy, 1, seconds=SECONDS + 5)
                plain_probe.hog('other', cpu=cpu, seconds=SECONDS + 5)
                with _before_others(both[1]):
                    lost = _lost_s(cpu)
                    got, rest = container.shares(both, SECONDS)
                    lost = (_lost_s(cpu) - lost) / SECONDS
                rt_probe.quiet()
                plain_probe.quiet()
                self.assertAlmostEqual(0.2, got, delta=0.2 * TOLERANCE)
                self.assertAlmostEqual(REST, rest + lost, delta=REST_TOLERANCE)
                # Or the sum above says little of the neighbour.
                self.assertLess(lost, REST_TOLERANCE)
                self.delete(rt)


@contextlib.contextmanager
def _before_others(found):
    """Give a container nearly all of the ordinary programs' share.

    Other programs of this machine are neighbours as well, and how many of them
    there are is not the kernel's doing.
    """
    mounted = container.hierarchies()
    top = mounted.get('cpu', mounted.get(''))
    changed = {}
    try:
        for group in (found.cgroup, *found.cgroup.parents):
            if group == top:
                break
            for name, most in (('cpu.shares', 262144), ('cpu.weight', 10000)):
                file = group / name
                if file.exists():
                    changed[file] = file.read_text()
                    file.write_text(str(most))
        yield
    finally:
        for file, text in changed.items():
            file.write_text(text)


def _lost_s(cpu):
    """The time that interrupts and the hypervisor took from a CPU so far."""
    for line in (container.PROC / 'stat').read_text().splitlines():
        name, *ticks = line.split()
        if name == f'cpu{cpu}':
            return sum(map(int, ticks[5:8])) / os.sysconf('SC_CLK_TCK')
    raise AssertionError(f'no CPU {cpu} in /proc/stat')


class PlainServerTest(base.LabTestCase):
    """Servers of ordinary flavors are as they always were."""

    def test_no_reservation(self):
        server = self.create(base.PLAIN, network=True)
        found = self.container(server)
        probe = self.probe(server)
        self.assertEqual(0, found.held().runtime_us)
        self.assertIsNone(self.record(server))
        self.assertNotIn(base.RESOURCE_CLASS, self.allocations(server))
        self.assertEqual(self.before.hosts, self.stats())
        self.assertEqual(('other', 0), probe.runs_as()[:2])
        with self.assertRaisesRegex(ProbeError, 'sched_setscheduler EPERM'):
            probe.hog('rr', 1, seconds=1)

    def test_every_cpu(self):
        server = self.create(base.PLAIN)
        root = container.hierarchies().get('cpuset')
        if root is None:
            self.skipTest('no cgroup v1 cpuset')
        everything = container.cpu_list((root / 'cpuset.cpus').read_text())
        self.assertEqual(everything, self.container(server).cpus())


class IsolationTest(base.LabTestCase):
    """A container never shares the network of its host."""

    def test_own_network_namespace(self):
        own = str((container.PROC / 'self' / 'ns' / 'net').readlink())
        for flavor in ('rt.tiny', base.PLAIN):
            for network in (False, True):
                with self.subTest(flavor=flavor, network=network):
                    server = self.create(flavor, network=network)
                    found = self.container(server)
                    self.assertNotEqual(own, found.network())
                    devices = found.network_devices()
                    self.assertEqual(
                        ['eth0', 'lo'] if network else ['lo'], devices
                    )

    def test_service_answers_as_real_time(self):
        server = self.create('rt.small', network=True)
        policy, priority, cpus = self.probe(server).runs_as()
        self.assertEqual(('rr', 1), (policy, priority))
        self.assertEqual(list(self.record(server).cpus), cpus)

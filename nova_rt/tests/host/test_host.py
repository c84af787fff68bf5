# SPDX-License-Identifier: Apache-2.0
"""Reservations on the real kernel, through the facade."""

import errno
import os

import fixtures

from nova_rt import exception
from nova_rt.admission import Capacity
from nova_rt.extra_specs import Policy, Request
from nova_rt.record import Record
from nova_rt.reservation import Reservation
from nova_rt.tests.host import machine
from nova_rt.virt import host


def _record(text, policy=Policy.RR, priority=1):
    request = Request(
        Reservation.parse(text), 1, policy=policy, priority=priority
    )
    return Record(request, (0,))


class HostTest(machine.MachineTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.machine = self.useFixture(machine.Machine())
        self.partition = self.machine.top / 'machine'
        self.host = self._host()
        self.found = self.host.start()

    def _host(self):
        return host.Host(
            cpu_set='0',
            smt=True,
            reserved_ppm=0,
            partition=str(self.partition.relative_to(self.machine.root)),
        )

    def _container(self, name, levels=()):
        """Its process and group, as libvirt-lxc leaves them, and a task."""
        group = self.partition
        for each in (name, *levels):
            group /= each
            self.machine.files.make_group(group)
        cpuset = self.machine.make_cpuset(group, '0')
        pid = self.machine.add_task(group)
        self.machine.move(pid, cpuset)
        return pid, group, self.machine.add_task(group)

    def _not_applied(self, pid, rec, number):
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, pid, rec
        )
        self.assertEqual(number, err.errno)
        return str(err)

    def _read(self, group, name='cpu.rt_runtime_us'):
        return int((group / name).read_text())

    def test_start(self):
        self.assertEqual('v1-throttle', self.found.name)
        self.assertEqual(
            Capacity({0: machine.SHARE_US}, machine.SHARE_US),
            self.host.capacity(),
        )
        self.assertEqual(machine.SHARE_US, self._read(self.partition))
        self.assertEqual([], list(self.machine.files.groups(self.partition)))

    def test_restart(self):
        pid, _, _ = self._container('web')
        rec = _record('4000/100000')
        self.host.apply(pid, rec)
        again = self._host()
        self.assertEqual(self.found, again.start())
        self.assertIsNone(again.check(pid, rec))

    def test_restart_when_full(self):
        pid, _, _ = self._container('web')
        rec = _record('4000/100000')
        self.host.apply(pid, rec)
        self.assertEqual(self.found, self._host().start())

    def test_apply(self):
        pid, group, task = self._container('web')
        rec = _record('300/10000', Policy.FIFO, 3)
        self.assertIn('was to hold', self.host.check(pid, rec))
        self.host.apply(pid, rec)
        self.assertIsNone(self.host.check(pid, rec))
        self.assertEqual(300, self._read(group))
        self.assertEqual(10000, self._read(group, 'cpu.rt_period_us'))
        self.assertEqual(os.SCHED_FIFO, os.sched_getscheduler(task))
        self.assertEqual(3, os.sched_getparam(task).sched_priority)
        self.assertEqual(os.SCHED_OTHER, os.sched_getscheduler(pid))

    def test_nested_groups(self):
        pid, group, task = self._container('web', ('libvirt',))
        self.host.apply(pid, _record('300/10000'))
        self.assertEqual([300, 300], [*map(self._read, (
            group, group.parent))])  # fmt: skip
        self.assertEqual(os.SCHED_RR, os.sched_getscheduler(task))

    def test_every_change_of_a_running_container(self):
        pid, _, _ = self._container('web', ('libvirt',))
        for text in ('200/10000', '800/20000', '20/1000', '20/2000',
                     '2000/100000', '200/100000', '4/100'):  # fmt: skip
            self.host.apply(pid, _record(text))
            self.assertIsNone(self.host.check(pid, _record(text)))

    def test_over_committed(self):
        first, _, _ = self._container('first')
        self.host.apply(first, _record('3000/100000'))
        second, group, task = self._container('second')
        text = self._not_applied(second, _record('1200/100000'), errno.EINVAL)
        self.assertIn('the groups in it 30000 ppm', text)
        self.assertEqual(0, self._read(group))
        self.assertEqual(os.SCHED_OTHER, os.sched_getscheduler(task))

    def test_bandwidth_of_an_ended_container(self):
        """The kernel gives it back late; the next one waits for it."""
        for turn in range(3):
            pid, group, task = self._container(f'web{turn}')
            self.host.apply(pid, _record('4000/100000'))
            for tid in (task, pid):
                self.machine.remove_task(tid)
            machine._remove_one(group)

    def test_other_cpus(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest('needs two CPUs')
        pid, _, _ = self._container('web')
        rec = _record('300/10000').on((1,))
        self.assertIn('CPUs 1', self._not_applied(pid, rec, 0))

    def test_policy_without_bandwidth(self):
        """What the kernel answers if the order were another."""
        pid, group, _ = self._container('web')
        err = self.assertRaises(
            PermissionError,
            self.machine.files.set_policy,
            group,
            pid,
            os.SCHED_RR,
            1,
        )
        self.assertEqual(errno.EPERM, err.errno)

    def test_tasks_keep_their_reservation_from_being_taken(self):
        pid, group, _ = self._container('web')
        self.host.apply(pid, _record('300/10000'))
        err = self.assertRaises(
            OSError,
            self.machine.files.write,
            group / 'cpu.rt_runtime_us',
            '0',
        )
        self.assertEqual(errno.EBUSY, err.errno)

    def test_ended(self):
        pid, group, task = self._container('web')
        for tid in (task, pid):
            self.machine.remove_task(tid)
        machine._remove_one(group)
        text = self._not_applied(pid, _record('300/10000'), errno.ENOENT)
        self.assertIn('the container has ended', text)

    def test_partition_reset(self):
        pid, group, _ = self._container('web')
        self.machine.files.write(self.partition / 'cpu.rt_runtime_us', '0')
        self.host.apply(pid, _record('300/10000'))
        self.assertEqual(machine.SHARE_US, self._read(self.partition))
        self.assertEqual(300, self._read(group))

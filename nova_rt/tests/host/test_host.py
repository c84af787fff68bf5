# SPDX-License-Identifier: Apache-2.0
"""Reservations on the real kernel, through the facade."""

import errno
import os
import sys
import time

import fixtures

from nova_rt import exception
from nova_rt.admission import Capacity
from nova_rt.extra_specs import TaskPolicy
from nova_rt.host import host, supply
from nova_rt.record import Record
from nova_rt.request import Request
from nova_rt.reservation import Reservation
from nova_rt.tests.host import machine


def _record(text, policy=TaskPolicy.RR, priority=1):
    request = Request(
        Reservation.parse(text), 1, policy=policy, priority=priority
    )
    return Record(request, (0,))


class HostTestCase(machine.MachineTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.partition = self.machine.top / 'machine'
        # As libvirt needs it; nova_rt itself needs the cpu controller.
        self.machine.enable(self.machine.top)
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
            self.machine.make_group(group)
        pid = self.machine.confine(group, '0')
        return pid, group, self.machine.add_task(group)

    def _not_applied(self, pid, rec, number):
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, pid, rec
        )
        self.assertEqual(number, err.errno)
        return str(err)

    def _read(self, group):
        """Runtime and period."""
        return tuple(
            int((group / name).read_text())
            for name in ('cpu.rt_runtime_us', 'cpu.rt_period_us')
        )


class EveryMachine:
    """What holds on every kernel."""

    #: A runtime that is none.
    NOTHING: int | None = 0

    #: What a refusal says of what is held.
    NUMBERS = ''

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
        rec = _record('300/10000', TaskPolicy.FIFO, 3)
        self.assertIn('was to hold', self.host.check(pid, rec))
        self.host.apply(pid, rec)
        self.assertIsNone(self.host.check(pid, rec))
        self.assertEqual((300, 10000), self._read(group))
        self.assertEqual(os.SCHED_FIFO, os.sched_getscheduler(task))
        self.assertEqual(3, os.sched_getparam(task).sched_priority)
        self.assertEqual(os.SCHED_OTHER, os.sched_getscheduler(pid))

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
        self.assertIn(self.NUMBERS, text)
        self.assertEqual(self.NOTHING, self._read(group)[0])
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
        rec = _record('300/10000').claimed_on((1,))
        self.assertIn('CPUs 1', self._not_applied(pid, rec, 0))

    def test_tasks_keep_their_reservation_from_being_taken(self):
        pid, group, _ = self._container('web')
        self.host.apply(pid, _record('300/10000'))
        err = self.assertRaises(
            OSError,
            self.machine.files.write,
            group / self.machine.RUNTIME_FILE,
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


class BudgetedTest(EveryMachine, HostTestCase):
    NUMBERS = 'the groups in it 30000 ppm'

    def test_start(self):
        self.assertEqual('v1-throttle', self.found.name)
        self.assertEqual(
            Capacity({0: machine.SHARE_US}, machine.SHARE_US),
            self.host.capacity(),
        )
        self.assertEqual(machine.SHARE_US, self._read(self.partition)[0])
        self.assertEqual([], list(self.machine.files.groups(self.partition)))

    def test_nested_groups(self):
        pid, group, task = self._container('web', ('libvirt',))
        self.host.apply(pid, _record('300/10000'))
        for each in (group, group.parent):
            self.assertEqual((300, 10000), self._read(each))
        self.assertEqual(os.SCHED_RR, os.sched_getscheduler(task))

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

    def test_partition_reset(self):
        pid, group, _ = self._container('web')
        self.machine.files.write(self.partition / 'cpu.rt_runtime_us', '0')
        self.host.apply(pid, _record('300/10000'))
        self.assertEqual(machine.SHARE_US, self._read(self.partition)[0])
        self.assertEqual(300, self._read(group)[0])


class ReportingTest(EveryMachine, HostTestCase):
    """The kernel of this repository, with cgroup v2."""

    MACHINE = machine.ReportingMachine
    NOTHING = None
    NUMBERS = 'CPU 0 has 40000 ppm'

    def _read(self, group):
        share = self._reader().read_share(group)
        return share.runtime_us, share.period_us

    def _reader(self):
        return supply.Reader(self.machine.hierarchy)

    def _effective(self, group):
        return (group / 'cpu.rt.effective').read_text()

    def _reserved(self):
        """What the kernel has reserved on CPU 0 in all, in ppm."""
        return self._reader().read_cpu_reports()[0].reserved_ppm

    def test_start(self):
        self.assertEqual('v2-rt-max-cpu', self.found.name)
        self.assertEqual('guarantee', self.found.enforcement)
        self.assertEqual('cpu', self.found.scope)
        self.assertEqual(Capacity({0: machine.SHARE_US}), self.host.capacity())
        self.assertIsNone(self._read(self.partition)[0])
        self.assertEqual([], list(self.machine.files.groups(self.partition)))

    def test_reserved_on_its_cpu_alone(self):
        pid, group, _ = self._container('web')
        self.host.apply(pid, _record('300/10000'))
        self.assertEqual(
            '0 runtime_ns=300000 period_ns=10000000\n', self._effective(group)
        )
        self.assertEqual({0: 10_000}, self.host.free([_record(
            '300/10000').claim]).cpus)  # fmt: skip

    def test_capacity_of_the_host(self):
        """Not of the tests' share: read from the host's own group."""
        partition = self.machine.top.parent / 'free'
        self.machine.make_group(partition)
        self.machine.enable(partition)
        self.addCleanup(self.machine._remove, partition)
        self.addCleanup(self.machine._end_all)
        self.partition = partition
        before = self._reserved()
        self.host = self._host()
        self.host.start()
        report = self._reader().read_cpu_reports()[0]
        capacity = self.host.capacity().cpus[0]
        # Our own share, which is not in this partition, counts as another's.
        self.assertLessEqual(
            abs(report.ceiling_ppm - machine.SHARE_US - capacity), 2
        )
        pid, group, task = self._container('web')
        rec = _record('4000/10000')
        self.host.apply(pid, rec)
        self.assertEqual(capacity, self.host.capacity().cpus[0])
        self.assertLessEqual(abs(self._reserved() - before - 400_000), 1)
        self.assertEqual(
            capacity - 400_000, self.host.free([rec.claim]).cpus[0]
        )
        for tid in (task, pid):
            self.machine.remove_task(tid)
        machine._remove_one(group)
        self.assertEqual(capacity, self.host.free([]).cpus[0])
        self.assertEqual(before, self._reserved())

    def test_nested_groups(self):
        """As with systemd: the scope is not confined, what is in it is."""
        pid, group, task = self._container('web', ('libvirt',))
        self.host.apply(pid, _record('300/10000'))
        one, other = group, group.parent
        if os.cpu_count() == 1:
            # The scope has the same CPUs, all there are.
            one, other = other, one
        self.assertEqual((300, 10000), self._read(one))
        self.assertIsNone(self._read(other)[0])
        self.assertEqual('', self._effective(other))
        self.assertEqual(os.SCHED_RR, os.sched_getscheduler(task))

    def test_groups_in_the_container(self):
        pid, group, _ = self._container('web')
        inside = group / 'init.scope'
        self.machine.files.make_group(inside)
        task = self.machine.add_task(inside)
        self.host.apply(pid, _record('300/10000'))
        self.assertEqual(os.SCHED_RR, os.sched_getscheduler(task))

    def test_container_divides_its_reservation(self):
        pid, group, _ = self._container('web')
        self.host.apply(pid, _record('300/10000'))
        inside = group / 'control'
        (group / 'cgroup.subtree_control').write_text('+cpu')
        self.machine.files.make_group(inside)
        self.machine.files.write(inside / 'cpu.rt.max', '100 10000')
        self.assertIn('runtime_ns=200', self._effective(group))
        self.assertIsNone(self.host.check(pid, _record('300/10000')))

    def test_real_time_before_its_reservation(self):
        pid, _, task = self._container('web')
        os.sched_setscheduler(task, os.SCHED_FIFO, os.sched_param(40))
        self.host.apply(pid, _record('300/10000'))
        self.assertIsNone(self.host.check(pid, _record('300/10000')))
        self.assertEqual(os.SCHED_FIFO, os.sched_getscheduler(task))
        self.assertEqual(40, os.sched_getparam(task).sched_priority)

    def test_usage(self):
        """A task that takes all it can get has its share, and is held.

        In an emulator a timer may be late by many budgets, which are then
        taken from later ones: so there are sums here, and the tests of the
        kernel look at each period.
        """
        pid, group, _ = self._container('web')
        begin = time.monotonic()
        self.host.apply(pid, _record('4000/100000'))
        hog = self.machine.add_task(
            group, sys.executable, '-c', 'while True: pass'
        )
        os.sched_setscheduler(hog, os.SCHED_RR, os.sched_param(1))
        time.sleep(1)
        first = self.host.read_usage(pid)[0]
        time.sleep(3)
        last = self.host.read_usage(pid)[0]
        took_us = (time.monotonic() - begin) * 1e6
        self.assertEqual([0], [*self.host.read_usage(pid)])
        self.assertLess(first.used_us, last.used_us)
        self.assertLess(first.periods, last.periods)
        self.assertLess(first.throttled, last.throttled)
        # Nothing is given before the last budget is used up.
        self.assertLess((last.periods - 2) * 4000, last.used_us)
        self.assertLess(last.used_us, 0.04 * took_us + 100_000)

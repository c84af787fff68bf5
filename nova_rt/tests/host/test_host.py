# SPDX-License-Identifier: Apache-2.0
"""Reservations on the real kernel, through the facade."""

import collections
import contextlib
import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import fixtures

from nova_rt import exception
from nova_rt.host import cgroup, hcbs_files, host
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.extra_specs import TaskPolicy
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures.requests import ask
from nova_rt.tests.host import machine


def _record(text, policy=TaskPolicy.RR, priority=1):
    request = Request(
        Reservation.parse(text), 1, policy=policy, priority=priority
    )
    return Record(request, (0,))


#: Root of a user namespace, outside of it.
MAPPED = 100_000

#: Makes itself root of a user namespace once somebody has mapped it, and
#: opens files to write: without writing, so that nothing is changed. A kernel
#: without user namespaces has the user only that this is outside of it.
AS_MAPPED_ROOT = f"""
import json, os, sys
user = {MAPPED}
if int(sys.argv[1]):
    import ctypes
    assert ctypes.CDLL(None).unshare(0x10000000) == 0  # CLONE_NEWUSER
    user = 0
print('unshared', flush=True)
sys.stdin.readline()
os.setgroups([])
os.setgid(user)
os.setuid(user)
answers = {{}}
for name in sys.argv[2:]:
    try:
        os.close(os.open(name, os.O_WRONLY))
        answers[name] = 0
    except OSError as err:
        answers[name] = err.errno
print(json.dumps(answers))
"""

#: A process that always has another one below it, for some seconds.
CHAIN = """
import os, time
end = time.monotonic() + 20
while time.monotonic() < end:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
"""


#: A process that makes many, which stay.
FAN = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
time.sleep(30)
"""


class HostTestCase(machine.MachineTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.partition = self.machine.top / 'machine'
        # As libvirt needs it; nova_rt itself needs the cpu controller.
        self.machine.enable(self.machine.top)
        self.machine.set_partition(self.partition)
        self.host = self._host()
        self.found = self.host.start()

    def _host(self):
        return host.Host(
            cpu_set='0',
            smt=True,
            reserved_ppm=0,
            partition=str(self.partition.relative_to(self.machine.root)),
        )

    def _container(self, name, levels=(), cpus='0'):
        """Its process and group, as libvirt-lxc leaves them, and a task."""
        group = self.partition
        for each in (name, *levels):
            group /= each
            self.machine.make_group(group)
        pid = self.machine.confine(group, cpus)
        task = self.machine.add_task(group)
        self.machine.move_to_cpus(task, group)
        return pid, group, task

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
    """Tests for every kernel."""

    #: A runtime that is none.
    NOTHING: int | None = 0

    #: The part of a refusal that tells what is held.
    NUMBERS = ''

    def test_restart(self):
        pid, _, _ = self._container('web')
        rec = _record('4000/100000')
        self.host.apply(pid, rec)
        again = self._host()
        self.assertEqual(self.found, again.start())
        self.assertIsNone(again.check(pid, rec))

    def test_apply(self):
        pid, group, task = self._container('web')
        rec = _record('300/10000', TaskPolicy.FIFO, 3)
        self.assertIn('expected', self.host.check(pid, rec))
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
        """Somebody has changed its cpuset: it gets its CPUs again."""
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest('needs two CPUs')
        pid, group, task = self._container('web', cpus='0-1')
        self.machine.set_cpus(group, '1')
        rec = _record('300/10000')
        self.assertEqual({1}, os.sched_getaffinity(task))
        self.host.apply(pid, rec)
        self.assertIsNone(self.host.check(pid, rec))
        for tid in (pid, task):
            self.assertEqual({0}, os.sched_getaffinity(tid))

    def test_cpu_that_is_not_there(self):
        pid, _, _ = self._container('web')
        rec = _record('300/10000').claimed_on((4000,))
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, pid, rec
        )
        text = str(err)
        self.assertIn('expected CPUs 4000, found 0', text)

    def test_policies_that_are_kept(self):
        pid, group, first = self._container('web')
        second = self.machine.add_task(group)
        self.host.apply(pid, _record('300/10000', TaskPolicy.OTHER))
        mine = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(first, mine, os.sched_param(2))
        os.sched_setscheduler(second, os.SCHED_BATCH, os.sched_param(0))
        self.host.apply(pid, _record('300/10000'))
        self.assertEqual(mine, os.sched_getscheduler(first))
        self.assertEqual(os.SCHED_RR, os.sched_getscheduler(second))

    def test_container_that_forks_without_end(self):
        """One child at a time, each with a child of its own."""
        pid, group, _ = self._container('web')
        task = self.machine.add_task(group, sys.executable, '-c', CHAIN)
        self.host.apply(pid, _record('3000/100000'))
        self.assertEqual(os.SCHED_RR, os.sched_getscheduler(task))
        for tid in self.machine.hierarchy.read_tasks(group):
            with contextlib.suppress(ProcessLookupError):
                if tid != pid:
                    policy = os.sched_getscheduler(tid)
                    self.assertEqual(os.SCHED_RR, policy)

    def test_task_that_is_forked_meanwhile(self):
        """Copied from an ordinary parent, and in no list until it is done."""
        pid, group, _ = self._container('web')
        for _ in range(10):
            self.machine.add_task(group, sys.executable, '-c', FAN)
        time.sleep(0.15)
        self.host.apply(pid, _record('3000/100000'))
        time.sleep(1)
        tids = self.machine.hierarchy.read_tasks(group) - {pid}
        policies = collections.Counter(map(os.sched_getscheduler, tids))
        for tid in tids:
            os.kill(tid, signal.SIGKILL)
        self.assertEqual({os.SCHED_RR: len(tids)}, policies)

    def test_mapped_root_writes_nothing_of_any_reservation(self):
        """From inside of a user namespace; libvirt gave it the files.

        Those of its sibling, too: the roots of all containers are one user.
        """
        mine, other = (self._container(name)[0] for name in ('web', 'other'))
        groups = [
            group
            for pid in (mine, other)
            for group in self.machine.hierarchy.find_reserving(
                self.machine.hierarchy.find_container(pid, self.partition)
            )
        ]
        for each in groups:
            for path in (each, *each.iterdir()):
                os.chown(path, MAPPED, MAPPED)
        before = self._write_as_mapped_root(groups)
        self.assertIn(0, before.values())
        rec = _record('150/10000')
        self.assertIn('writable for root alone', self._differs(mine, rec))
        for pid in (mine, other):
            self.host.apply(pid, rec)
        after = self._write_as_mapped_root(groups)
        for group in groups:
            for name in self._reserving_files(group):
                with self.subTest(name):
                    self.assertEqual(errno.EACCES, after.pop(name))
        self.assertEqual({errno.EACCES}, set(after.values()), after)
        for pid in (mine, other):
            self.assertIsNone(self.host.check(pid, rec))

    def _reserving_files(self, group):
        """Names of a group's files that make a reservation, all of them."""
        found = [
            str(path)
            for path in group.iterdir()
            if path.name.startswith(('cpu.rt', 'cpuset.'))
            and path.stat().st_mode & 0o222
        ]
        self.assertTrue(found, group)
        return found

    def _differs(self, pid, rec):
        """Find what differs once the kernel holds the reservation."""
        cgroup.Patience().repeat(
            lambda: self.host._backend.reserve(
                self.host.capability, self.host._find(pid), rec
            )
        )
        return self.host.check(pid, rec)

    def _write_as_mapped_root(self, groups):
        """Open each of the files to write, as root of a user namespace.

        :returns: name of a file -> errno, 0 if it could
        """
        names = [
            str(path)
            for group in groups
            for path in group.iterdir()
            if path.is_file() and path.stat().st_mode & 0o222
        ]
        mapped = os.path.exists('/proc/self/uid_map')
        child = subprocess.Popen(
            [sys.executable, '-c', AS_MAPPED_ROOT, str(int(mapped)), *names],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(child.kill)
        child.stdout.readline()
        for what in ('uid_map', 'gid_map') if mapped else ():
            path = pathlib.Path('/proc', str(child.pid), what)
            path.write_text(f'0 {MAPPED} 65536')
        text, _ = child.communicate('go\n', timeout=60)
        return json.loads(text)


class V1ThrottlingTest(EveryMachine, HostTestCase):
    NUMBERS = 'the groups in it 30000 ppm'

    def test_every_cpuset_has_shrunk(self):
        """As the kernel leaves them after a CPU was off line."""
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest('needs two CPUs')
        pid, group, task = self._container('web', ('libvirt',), cpus='0-1')
        rec = _record('300/10000').claimed_on((0, 1))
        for each in (group, group.parent, self.partition):
            self.machine.set_cpus(each, '0')
        self.assertEqual({0}, os.sched_getaffinity(task))
        self.host.apply(pid, rec)
        self.assertIsNone(self.host.check(pid, rec))
        for tid in (pid, task):
            self.assertEqual({0, 1}, os.sched_getaffinity(tid))

    def test_tasks_are_not_in_their_cpuset(self):
        """The kernel moves them out of one that has lost its last CPU."""
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest('needs two CPUs')
        pid, group, task = self._container('web', cpus='0-1')
        self.machine.set_cpus(group, '0')
        for tid in (pid, task):
            self.machine.move(tid, self.machine.cpuset_of(self.partition))
        self.host.apply(pid, _record('300/10000'))
        self.assertIsNone(self.host.check(pid, _record('300/10000')))
        cpuset = self.machine.cpuset_of(group)
        self.assertEqual(
            {pid, task},
            {int(tid) for tid in (cpuset / 'tasks').read_text().split()},
        )

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


class HCBSTest(EveryMachine, HostTestCase):
    """The kernel of this repository, with cgroup v2."""

    MACHINE = machine.HCBSMachine
    NOTHING = None
    NUMBERS = 'CPU 0 has 40000 ppm'

    def _read(self, group):
        share = self._reader().read_share(group)
        return share.runtime_us, share.period_us

    def _reader(self):
        return hcbs_files.HCBSReader(self.machine.hierarchy)

    def _effective(self, group):
        return (group / 'cpu.rt.effective').read_text()

    def _reserved(self):
        """Read what the kernel has reserved on CPU 0 in all, in ppm."""
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
        self.host.refresh()
        self.assertEqual({0: 10_000}, self.host.free([_record(
            '300/10000')]).cpus)  # fmt: skip

    def test_capacity_of_the_host(self):
        """Not of the tests' share: read from the host's own group."""
        partition = self.machine.top.parent / 'free'
        self.machine.make_group(partition)
        self.machine.enable(partition)
        self.addCleanup(self.machine._remove, partition)
        self.addCleanup(self.machine._end_all)
        self.partition = partition
        self.machine.set_partition(partition)
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
        self.host.refresh()
        self.assertEqual(capacity, self.host.capacity().cpus[0])
        self.assertLessEqual(abs(self._reserved() - before - 400_000), 1)
        self.assertEqual(capacity - 400_000, self.host.free([rec]).cpus[0])
        for tid in (task, pid):
            self.machine.remove_task(tid)
        machine._remove_one(group)
        # The next server that needs it waits for it.
        self.assertEqual((0,), self.host.place([], ask(1, capacity)))
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

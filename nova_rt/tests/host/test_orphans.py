# SPDX-License-Identifier: Apache-2.0
"""Groups that libvirt leaves behind, on the real kernel."""

import errno
import os
import pathlib
import shutil
import subprocess
import sys
import time

import fixtures

from nova_rt import exception
from nova_rt.host import host
from nova_rt.privsep import orphans
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.host import machine

#: A libvirt_lxc that makes its groups in others (its arguments), waits, moves
#: itself there, and ends a little later: with 0 if all went well.
STARTING = """
import os, sys, time
with open('/proc/self/comm', 'w') as file:
    file.write('libvirt_lxc')
name = f'lxc-{os.getpid()}-web.libvirt-lxc'
groups = [os.path.join(top, name) for top in sys.argv[1:]]
for group in groups:
    os.mkdir(group)
    if 'cpuset' in group.split('/'):
        for file in 'cpuset.mems', 'cpuset.cpus':
            with open(os.path.join(os.path.dirname(group), file)) as above:
                value = above.read()
            with open(os.path.join(group, file), 'w') as own:
                own.write(value)
    time.sleep(0.02)
for group in groups:
    with open(os.path.join(group, 'cgroup.procs'), 'w') as file:
        file.write(str(os.getpid()))
time.sleep(0.05)
assert all(map(os.path.isdir, groups))
"""


def _record(text):
    return Record(Request(Reservation.parse(text), 1), (0,))


class EveryMachine:
    """Tests for every kernel."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.let_settle(0)
        self.partition = self.machine.top / 'machine'
        self.machine.enable(self.machine.top)
        self.machine.set_partition(self.partition)
        self.host = host.Host(
            cpu_set='0',
            smt=True,
            reserved_ppm=0,
            partition=str(self.partition.relative_to(self.machine.root)),
        )
        self.host.start()

    def start(self, name='web', text='3000/100000', nested=()):
        """Start a container with a reservation.

        :returns: its libvirt_lxc process, and the groups, outermost first
        """
        pid = self.machine.add_process()
        groups = [self.partition / f'lxc-{pid}-{name}.libvirt-lxc']
        groups += [groups[0].joinpath(*nested[: n + 1])
                   for n in range(len(nested))]  # fmt: skip
        for group in groups:
            self.machine.make_group(group)
        ours = self.machine.confine(groups[-1], '0')
        self.machine.move(pid, groups[-1])
        self.machine.move_to_cpus(pid, groups[-1])
        self.machine.remove_task(ours)
        self.host.apply(pid, _record(text))
        return pid, groups

    def end(self, pid, groups):
        """End it, as libvirt ends one whose groups it then leaves."""
        self.machine.remove_task(pid)
        # The kernel takes the last task out a little later.
        deadline = time.monotonic() + 5
        while self.machine.hierarchy.read_tasks_inside(groups[0]):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def let_settle(self, seconds):
        """Set how long a group must have existed."""
        self.useFixture(
            fixtures.MockPatchObject(orphans, 'SETTLED_S', seconds)
        )

    def in_all(self, group):
        if self.machine.RUNTIME_FILE == 'cpu.rt.max':
            return [group]
        return [group, self.machine.cpuset_of(group)]

    def refused(self, group):
        err = self.assertRaises(OSError, self.machine.files.reclaim, group)
        return err.errno

    def test_removed_and_its_bandwidth_is_free(self):
        pid, groups = self.start()
        self.end(pid, groups)
        second = self.partition / 'lxc-7-second.libvirt-lxc'
        self.machine.make_group(second)
        other = self.machine.confine(second, '0')
        wish = _record('1200/100000')
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, other, wish
        )
        self.assertEqual(errno.EINVAL, err.errno)
        (found,) = self.host.reclaim([other])
        self.assertEqual(groups[0].name, found.name)
        self.assertEqual('3000/100000 us', str(found.held))
        self.assertIsNone(found.kept)
        for path in self.in_all(groups[0]):
            self.assertFalse(path.exists())
        self.host.apply(other, wish)
        self.assertIsNone(self.host.check(other, wish))
        self.assertEqual([], self.host.reclaim([other]))

    def test_task_in_a_nested_group(self):
        pid, groups = self.start(nested=('libvirt', 'a', 'b'))
        # Removed first, by whoever does not look first.
        innermost = groups[-1] / 'c'
        innermost.mkdir()
        self.assertEqual([], self.host.reclaim([]))
        self.assertEqual(errno.EBUSY, self.refused(groups[0]))
        for group in (*groups, innermost):
            self.assertTrue(group.is_dir())
        self.end(pid, groups)
        (found,) = self.host.reclaim([])
        self.assertIsNone(found.kept)
        self.assertFalse(groups[0].exists())

    def test_new_group(self):
        """By a time that nobody can set."""
        pid, groups = self.start()
        self.end(pid, groups)
        self.let_settle(1)
        for then in (0, 2**32):
            for path in self.in_all(groups[0]):
                os.utime(path, (then, then))
            (found,) = self.host.reclaim([])
            self.assertIn('has existed for 0 s only', found.kept)
            self.assertTrue(groups[0].is_dir())
        time.sleep(1.1)
        (found,) = self.host.reclaim([])
        self.assertIsNone(found.kept)
        self.assertFalse(groups[0].exists())

    def test_process_of_that_number(self):
        """A libvirt_lxc is starting; any other program got it by chance."""
        program = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        program /= 'libvirt_lxc'
        shutil.copy('/bin/sleep', program)
        for command, stays in (((program, '600'), True), ((), False)):
            pid = self.machine.add_process(*command)
            # Until it is that program.
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and 'python' in (
                pathlib.Path(f'/proc/{pid}/comm').read_text()
            ):
                time.sleep(0.01)
            group = self.partition / f'lxc-{pid}-web.libvirt-lxc'
            self.machine.make_group(group)
            self.machine.remove_task(self.machine.confine(group, '0'))
            self.host.reclaim([])
            self.assertEqual(stays, group.is_dir())
            self.machine.remove_task(pid)

    def test_nothing_else_is_removed(self):
        pid, groups = self.start(nested=('libvirt',))
        self.end(pid, groups)
        name = groups[0].name
        outside = self.machine.top / name
        foreign = self.partition / 'web'
        probe = self.partition / 'nova-rt-probe-1'
        within = self.partition / 'some.partition'
        deeper = within / name
        for group in (outside, foreign, probe, within, deeper):
            self.machine.make_group(group)
        for path in (
            outside, foreign, probe, within, deeper, groups[1],
            self.partition, self.partition.parent, f'{groups[0]}/.',
            f'{self.partition}/../{name}', f'{groups[0]}/',
            f'{self.partition}/x/../{name}', '/tmp',
        ):  # fmt: skip
            self.assertEqual(errno.EACCES, self.refused(path), path)
        (found,) = [
            each for each in self.host.reclaim([]) if not each.kept
        ]  # fmt: skip
        self.assertEqual(name, found.name)
        for group in (outside, foreign, probe, within, deeper):
            self.assertTrue(group.is_dir())

    def test_starts_under_way(self):
        """No start is harmed, however often somebody reclaims."""
        # Its process alone protects it.
        if len(self.in_all(self.partition)) > 1:
            self.machine._make_cpuset(self.partition, '0')
        processes = [
            subprocess.Popen(
                [sys.executable, '-c', STARTING, *self.in_all(self.partition)],
                stderr=subprocess.PIPE, text=True,
            )
            for _ in range(8)
        ]  # fmt: skip
        removed = 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and any(
            process.poll() is None for process in processes
        ):
            found = self.host.reclaim([])
            removed += sum(each.kept is None for each in found)
        for process in processes:
            _, text = process.communicate()
            self.assertEqual(0, process.returncode, text)
        removed += len(self.host.reclaim([]))
        self.assertEqual(len(processes), removed)


class V1ThrottlingTest(EveryMachine, machine.MachineTestCase):
    pass


class HCBSTest(EveryMachine, machine.MachineTestCase):
    MACHINE = machine.HCBSMachine

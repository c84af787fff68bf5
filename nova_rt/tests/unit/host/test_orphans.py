# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.orphans, on fake kernels."""

import errno
import pathlib

import fixtures
from oslotest import base

from nova_rt.host import files, orphans
from nova_rt.tests.unit.host.base import HostTestCase, make_record


class EveryKernel:
    """Tests for every kernel; privsep's tests have each group that is kept."""

    def setUp(self):
        super().setUp()
        self.boot(cpus=2)
        self.host.start()
        self.kernel.leave_groups()

    def leave(self, pid, text='600/1000', **kwargs):
        """A container has ended, and its group holds its reservation."""
        group = self.kernel.add_container(pid, 'web', (0,), **kwargs)
        self.host.apply(pid, make_record(text, (0,)))
        self.kernel.remove_container(pid)
        return group

    def reclaim(self, *running):
        return [
            (each.name, str(each.held), each.kept)
            for each in self.host.reclaim(running)
        ]

    def test_removed(self):
        for nested in ((), ('libvirt',)):
            group = self.leave(7, nested=nested)
            top = group.parent if nested else group
            self.assertEqual([(top.name, '600/1000 us', None)], self.reclaim())
            self.assertFalse(top.exists())
            self.assertEqual([], self.reclaim())
        self.kernel.remove_group(self.kernel.partition)
        self.assertEqual([], self.reclaim())

    def test_its_bandwidth_is_free(self):
        self.leave(7)
        self.kernel.add_container(8, 'web', (0,))
        wish = make_record('500/1000', (0,))
        err = self.not_applied(wish, 8)
        self.assertIn(err.errno, (errno.EINVAL, errno.EBUSY))
        self.reclaim(8)
        self.host.apply(8, wish)
        self.assertIsNone(self.host.check(8, wish))

    def test_tasks_in_a_nested_group(self):
        group = self.leave(7)
        self.kernel.enable(group)
        self.kernel.make_group(group / 'a')
        task = self.kernel.add_task(group / 'a')
        self.assertEqual([], self.reclaim())
        self.assertTrue((group / 'a').is_dir())
        self.kernel.remove_task(task)
        self.assertIsNone(self.reclaim()[0][2])
        self.assertFalse(group.exists())

    def test_libvirt_says_it_runs(self):
        """Whatever the reason for which it has no tasks."""
        group = self.leave(7)
        ((_, _, kept),) = self.reclaim(7, 8)
        self.assertIn('libvirt says', kept)
        self.assertTrue(group.is_dir())

    def test_number_of_another_container(self):
        group = self.leave(7)
        self.kernel.leave_groups(False)
        other = self.kernel.add_container(7, 'other', (1,))
        self.assertEqual([(group.name, '600/1000 us', None)], self.reclaim(7))
        self.assertTrue(other.is_dir())

    def test_new(self):
        group = self.leave(7)
        self.kernel.set_age(group, 4)
        ((_, held, kept),) = self.reclaim()
        self.assertEqual('600/1000 us', held)
        self.assertIn('has existed for 4 s only', kept)
        self.assertTrue(group.is_dir())

    def test_other_names(self):
        """They are only named, with what they hold."""
        for name in ('nova-rt-probe-7', 'some.partition'):
            self.kernel.make_group(self.kernel.partition / name)
        for name, held, kept in self.reclaim():
            self.assertEqual('None', held)
            self.assertIn('no container', kept)
            self.assertTrue((self.kernel.partition / name).is_dir())

    def test_one_that_cannot_be_removed(self):
        """The others go all the same."""
        first, second, third = (
            self.leave(pid, '10/1000') for pid in (7, 8, 9)
        )
        remove = self.kernel.remove_group

        def refuse(path):
            if path == second:
                raise OSError(errno.EBUSY, 'no')
            remove(path)

        self.kernel.remove_group = refuse
        self.assertEqual([None, 'no', None], [k for _, _, k in self.reclaim()])
        self.assertEqual(
            [False, True, False],
            [each.exists() for each in (first, second, third)],
        )

    def test_libvirt_is_faster(self):
        """It is gone, which is what counts."""
        group = self.leave(7)
        reclaim = self.kernel.files.reclaim

        def late(path):
            for each in self.kernel._in_all(group):
                self.kernel.remove_group(each)
            reclaim(path)

        self.kernel.files.reclaim = late
        self.assertEqual([(group.name, '600/1000 us', None)], self.reclaim())


class V1ThrottlingTest(EveryKernel, HostTestCase):
    def test_group_of_cpus(self):
        group = self.leave(7)
        cpus = self.kernel.cpuset_of(group)
        self.assertTrue(cpus.is_dir())
        self.reclaim()
        self.assertFalse(cpus.exists())

    def test_group_of_cpus_alone(self):
        group = self.leave(7)
        self.kernel.remove_group(group)
        self.assertEqual([(group.name, 'None', None)], self.reclaim())
        self.assertFalse(self.kernel.cpuset_of(group).exists())

    def test_task_in_the_group_of_cpus(self):
        group = self.leave(7)
        task = self.kernel.add_task(self.kernel.root)
        cpus = self.kernel.cpuset_of(group)
        self.kernel.write(cpus / 'tasks', str(task))
        self.assertEqual([], self.reclaim())
        self.assertTrue(group.is_dir())

    def test_foreign_group_with_bandwidth(self):
        group = self.kernel.partition / 'nova-rt-probe-7'
        self.kernel.make_group(group)
        self.kernel.write(group / 'cpu.rt_runtime_us', '200000')
        ((name, held, kept),) = self.reclaim()
        self.assertEqual((group.name, '200000/1000000 us'), (name, held))
        self.assertIsNotNone(kept)


class HCBSTest(EveryKernel, HostTestCase):
    INTERFACE = 'v2-rt-max-cpu'

    def test_free_for_the_next_claim(self):
        """Without a server, it still counts against servers until it goes."""
        before = self.host.free([])
        group = self.leave(7)
        self.host.refresh()
        self.assertEqual(before.cpus[0] - 600_000, self.host.free([]).cpus[0])
        self.reclaim()
        self.assertFalse(group.exists())
        self.kernel.let_time_pass()
        self.host.refresh()
        self.assertEqual(before, self.host.free([]))


class SweepTest(base.BaseTestCase):
    """The helper is asked if there is something, and only then."""

    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.asked = 0
        self.files = files.Files(cgroup=str(self.top))
        self.useFixture(
            fixtures.MockPatchObject(
                self.files, 'sweep_task_limits', self._answer
            )
        )

    def _answer(self):
        self.asked += 1

    def sweep(self, partition='cpu/machine'):
        self.asked = 0
        orphans.sweep_task_limits(self.files, self.top / partition)
        return self.asked

    def test_what_has_ended(self):
        name = 'lxc-7-web.libvirt-lxc'
        for hierarchy in ('cpu', 'pids'):
            (self.top / hierarchy / 'machine' / name).mkdir(parents=True)
        self.assertEqual(0, self.sweep())
        (self.top / 'cpu/machine' / name).rmdir()
        self.assertEqual(1, self.sweep())
        (self.top / 'pids/machine' / name).rename(
            self.top / 'pids/machine/other'
        )
        self.assertEqual(0, self.sweep())

    def test_no_such_hierarchy(self):
        (self.top / 'cpu/machine').mkdir(parents=True)
        self.assertEqual(0, self.sweep())

    def test_one_hierarchy(self):
        (self.top / 'machine.slice').mkdir()
        self.assertEqual(0, self.sweep('machine.slice'))

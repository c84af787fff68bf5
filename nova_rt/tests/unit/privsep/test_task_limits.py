# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.privsep.task_limits.

On a directory tree in the place of the control groups.
"""

import errno
import os
import pathlib
from unittest import mock

from nova_rt.privsep import cgroup, task_limits
from nova_rt.tests.unit.privsep import test_cgroup, test_orphans

NAME = test_orphans.NAME


def _path_of(directory):
    return pathlib.Path(os.readlink(f'/proc/self/fd/{directory}'))


class Tree(test_orphans.Tree):
    """A group of cgroup v1 that was just made has its files."""

    ages: dict[str, float] = {}
    #: The text that the kernel keeps instead of what is written.
    keeps = None

    def make_group(self, directory, name):
        super().make_group(directory, name)
        path = _path_of(directory) / name
        for file in ('pids.max', 'tasks'):
            (path / file).touch()

    def write(self, directory, name, text):
        path = _path_of(directory)
        if not (path / name).exists():
            raise FileNotFoundError(errno.ENOENT, str(path / name))
        if name == 'tasks':
            with (path / name).open('a') as file:
                file.write(f'{text}\n')
            return
        if name == 'pids.max':
            (path / name).write_text(self.keeps or text)
            return
        super().write(directory, name, text)
        if name == 'cgroup.subtree_control':
            for inner in filter(pathlib.Path.is_dir, path.iterdir()):
                (inner / 'pids.max').touch()


class V1Test(test_cgroup.TreeTestCase):
    def setUp(self):
        super().setUp()
        self.kernel = Tree(self.top)
        self.guard = cgroup.CgroupHelper(self.kernel)
        self.group = self._group('cpu', 'machine', NAME)
        self.pids = self.root / 'pids'
        self.pids.mkdir()
        self.limited = self.pids / 'machine' / NAME

    def limit(self, most=7):
        self.guard.limit_tasks(str(self.group), most)

    def test_without_systemd(self):
        for tid in (11, 12):
            self._process(tid, self.group)
        self._process(13, self.other)
        self.limit()
        self.assertEqual('7', (self.limited / 'pids.max').read_text())
        self.assertEqual(
            {'11', '12'}, set((self.limited / 'tasks').read_text().split())
        )

    def end_slowly(self, passes):
        """A task is in its list for so many passes, and cannot be moved."""
        self._process(12, self.group)
        self._process(11, self.group)
        write = self.kernel.write
        paused = []

        def refuse(directory, name, text):
            if text == '12':
                raise ProcessLookupError(errno.ESRCH, 'it ends')
            write(directory, name, text)

        def pause(_):
            paused.append(1)
            if len(paused) == passes:
                tasks = self.group / 'tasks'
                tasks.write_text(tasks.read_text().replace('12\n', ''))

        with (
            mock.patch.object(self.kernel, 'write', refuse),
            mock.patch.object(task_limits.time, 'sleep', pause),
        ):
            self.limit()
        return len(paused)

    def test_task_that_ends_slowly(self):
        self.assertEqual(3, self.end_slowly(3))
        self.assertEqual('11\n' * 4, (self.limited / 'tasks').read_text())

    def test_task_that_does_not_end(self):
        with self.assertRaisesRegex(OSError, 'change too fast') as raised:
            self.end_slowly(1000)
        self.assertEqual(errno.EAGAIN, raised.exception.errno)

    def test_again(self):
        self._process(11, self.group)
        self.limit()
        self._process(12, self.group)
        self.limit(9)
        self.assertEqual('9', (self.limited / 'pids.max').read_text())
        self.assertIn('12', (self.limited / 'tasks').read_text().split())

    def test_with_systemd(self):
        """The scope is there, and its tasks are in it."""
        self._process(11, self.group)
        self.limited.mkdir(parents=True)
        (self.limited / 'pids.max').write_text('16384')
        (self.limited / 'tasks').write_text('11\n')
        self.limit()
        self.assertEqual('7', (self.limited / 'pids.max').read_text())
        self.assertEqual('11\n', (self.limited / 'tasks').read_text())

    def test_no_controller(self):
        self.pids.rmdir()
        self._fails(errno.ENOENT, 'limit_tasks', str(self.group), 7)

    def test_not_held(self):
        self.kernel.keeps = 'max'
        said = self._fails(errno.EIO, 'limit_tasks', str(self.group), 7)
        self.assertIn('expected 7, found max', said)

    def test_no_number(self):
        for most in (0, -1):
            self._fails(errno.EINVAL, 'limit_tasks', str(self.group), most)

    def test_of_no_container(self):
        web = self._group('cpu', 'machine', 'web')
        nested = self._group('cpu', 'machine', NAME, 'nested')
        cpuset = self._group('cpuset', 'machine', NAME)
        for group in (web, nested, cpuset, self.partition, self.other):
            self._fails(errno.EACCES, 'limit_tasks', str(group), 7)
        self.assertEqual([], list(self.pids.iterdir()))

    def test_through_a_link(self):
        outside = self.top / 'outside'
        outside.mkdir()
        (self.pids / 'machine').symlink_to(outside)
        self._fails(errno.EACCES, 'limit_tasks', str(self.group), 7)
        self.assertEqual([], list(outside.iterdir()))

    def test_containers_that_ended(self):
        """Also at the start of another one."""
        machine = self.pids / 'machine'
        ended, used, foreign = (
            machine / name
            for name in ('lxc-7-a.libvirt-lxc', 'lxc-8-b.libvirt-lxc', 'web')
        )
        self.limit()
        for sweep in (self.guard.sweep_task_limits, self.limit):
            for path in (ended, used, foreign):
                path.mkdir(exist_ok=True)
                (path / 'tasks').touch()
            (used / 'tasks').write_text('5\n')
            sweep()
            self.assertEqual(
                {NAME, used.name, foreign.name},
                {path.name for path in machine.iterdir() if path.is_dir()},
            )

    def test_nothing_to_sweep(self):
        self.guard.sweep_task_limits()
        self.pids.rmdir()
        self.guard.sweep_task_limits()


class V2Test(test_cgroup.TreeTestCase):
    UNIFIED = True
    HIERARCHY = ()
    TASKS = 'cgroup.threads'

    def setUp(self):
        super().setUp()
        self.kernel = Tree(self.top, unified=True)
        self.guard = cgroup.CgroupHelper(self.kernel)
        self.group = self._group('machine', NAME)
        (self.root / 'cgroup.subtree_control').touch()

    def limit(self, most=7):
        self.guard.limit_tasks(str(self.group), most)

    def test_with_systemd(self):
        (self.group / 'pids.max').write_text('16384')
        self.limit()
        self.assertEqual('7', (self.group / 'pids.max').read_text())
        control = self.partition / 'cgroup.subtree_control'
        self.assertEqual('', control.read_text())

    def test_without_systemd(self):
        self.limit()
        self.assertEqual('7', (self.group / 'pids.max').read_text())
        for above in (self.root, self.partition):
            control = above / 'cgroup.subtree_control'
            self.assertEqual('+pids', control.read_text())

    def test_nothing_to_sweep(self):
        self.guard.sweep_task_limits()
        self.assertTrue(self.group.is_dir())

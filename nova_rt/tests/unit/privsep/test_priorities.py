# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.privsep.priorities."""

import errno
import os
import pathlib

import fixtures
from oslotest import base

from nova_rt.privsep import kernel, priorities


class _Kernel(kernel.SystemCalls):
    """A proc of its own; a limit may come too late for its process."""

    partition = 'machine'

    def __init__(self, proc):
        self.proc = str(proc)
        self.cgroup = '/nowhere'
        self.limits = []
        self.ends = set()
        self.forks = 0

    def limit_priority(self, pid, most):
        self.limits.append((pid, most))
        directory = pathlib.Path(self.proc, str(pid))
        if pid in self.ends:
            (directory / 'stat').unlink()
        if self.forks:
            self.forks -= 1
            children = directory / 'task' / str(pid) / 'children'
            child = 1000 + self.forks
            self.make(child)
            children.write_text(f'{children.read_text()} {child} ')

    def make(self, pid, *children, group='/machine/lxc-7-a.libvirt-lxc'):
        directory = pathlib.Path(self.proc, str(pid))
        task = directory / 'task' / str(pid)
        task.mkdir(parents=True)
        (directory / 'stat').write_text('')
        (directory / 'cgroup').write_text(f'0::{group}\n')
        (task / 'children').write_text(' '.join(map(str, children)) + ' ')


class AllowTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.kernel = _Kernel(self.useFixture(fixtures.TempDir()).path)
        self.kernel.make(7, 8)
        self.kernel.make(8, 9, 10)
        self.kernel.make(9)
        self.kernel.make(10, 11)
        self.kernel.make(11)

    def _allow(self, most=50, controller=7):
        priorities._allow(self.kernel, controller, most)

    def _fails(self, number, *args):
        err = self.assertRaises(OSError, self._allow, *args)
        self.assertEqual(number, err.errno)
        self.assertEqual([], self.kernel.limits)

    def test_every_process_but_the_controller(self):
        before = len(os.listdir('/proc/self/fd'))
        self._allow()
        self.assertEqual(
            [(pid, 50) for pid in (8, 9, 10, 11)], sorted(self.kernel.limits)
        )
        self.assertEqual(before, len(os.listdir('/proc/self/fd')))

    def test_children_that_come_meanwhile(self):
        self.kernel.forks = 3
        self._allow()
        self.assertLessEqual(
            {1000, 1001, 1002}, {pid for pid, _ in self.kernel.limits}
        )

    def test_too_many(self):
        self.kernel.forks = 10_000
        err = self.assertRaises(OSError, self._allow)
        self.assertEqual(errno.EAGAIN, err.errno)

    def test_a_number_of_another_process(self):
        """The limit went to a process that came later: it is taken back."""
        self.kernel.ends = {9}
        self._allow()
        self.assertEqual(
            [(9, 0), (9, 50)],
            sorted(each for each in self.kernel.limits if each[0] == 9),
        )

    def test_outside_of_the_partition(self):
        self.kernel.make(12, 13, group='/user.slice')
        self.kernel.make(13)
        self._fails(errno.EACCES, 50, 12)

    def test_no_process(self):
        self._fails(errno.ENOENT, 50, 99)

    def test_no_priority(self):
        for most in (0, 100, -1):
            self._fails(errno.EINVAL, most)

    def test_this_process(self):
        """The kernel takes the call: a limit may always be lowered to 0."""
        child = os.fork()
        if not child:
            os.pause() if hasattr(os, 'pause') else os.read(0, 1)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, 9)
        kernel.SystemCalls().limit_priority(child, 0)
        limit = pathlib.Path(f'/proc/{child}/limits').read_text()
        (line,) = (
            line for line in limit.splitlines() if 'realtime priority' in line
        )
        self.assertEqual(['0', '0'], line.split()[3:5])

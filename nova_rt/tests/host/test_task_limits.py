# SPDX-License-Identifier: Apache-2.0
"""Limits of tasks, on the real kernel."""

import errno
import subprocess
import sys

from nova_rt.privsep import cgroup
from nova_rt.tests.host import machine

#: Makes processes until the kernel refuses, reports how many there are, with
#: its own, and the errno; they end with their parent's standard input.
_BOMB = """
import os, sys
number, refused = 1, 0
while number < 300:
    try:
        child = os.fork()
    except OSError as err:
        refused = err.errno
        break
    if not child:
        sys.stdin.read()
        os._exit(0)
    number += 1
print(number, refused, flush=True)
sys.stdin.read()
"""

#: Forks all the time, a few at once.
_FORKING = """
import os, time
while True:
    if not os.fork():
        time.sleep(0.002)
        os._exit(0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
"""

MOST = 40


class EveryMachine:
    """Tests for every kernel."""

    def setUp(self):
        super().setUp()
        # The first process waits in the group until the limit is there.
        self.group = self.machine.top / 'lxc-7-web.libvirt-lxc'
        self.machine.enable(self.machine.top)
        self.machine.make_group(self.group)
        if self.pids.is_dir():
            self.addCleanup(self._remove_pids)

    @property
    def pids(self):
        """The hierarchy of cgroup v1."""
        return self.machine.files.cgroup / 'pids'

    def _remove_pids(self):
        path = self.pids / self.group.relative_to(self.machine.root)
        self.machine._end_all()
        while path != self.pids and path.name.startswith(('lxc-', 'nova-rt')):
            machine._remove_one(path)
            path = path.parent

    def start(self, *command):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.communicate)
        return process

    def limit(self, most=MOST):
        cgroup.limit_tasks(str(self.group), most)

    def bomb(self):
        """Start one inside; return what it reports."""
        waiting = 'import sys; sys.stdin.readline()\n'
        process = self.start(sys.executable, '-c', waiting + _BOMB)
        self.machine.move(process.pid, self.group)
        self.limit()
        process.stdin.write('\n')
        process.stdin.flush()
        return tuple(map(int, process.stdout.readline().split()))

    def test_bomb(self):
        self.assertEqual((MOST, errno.EAGAIN), self.bomb())
        # This one is not in the container.
        subprocess.run(['true'], check=True)

    def test_those_there_already(self):
        """They count, and nothing is ended."""
        others = [self.machine.add_task(self.group) for _ in range(3)]
        self.assertEqual((MOST - len(others), errno.EAGAIN), self.bomb())

    def test_less_than_there_are(self):
        for _ in range(3):
            self.machine.add_task(self.group)
        self.limit(2)
        self.assertEqual(3, self.count())
        process = self.start(sys.executable, '-c', _BOMB)
        self.machine.move(process.pid, self.group)
        self.limit(2)
        self.assertEqual(
            (1, errno.EAGAIN),
            tuple(map(int, process.stdout.readline().split())),
        )

    def count(self):
        """The tasks that the kernel counts in the limited group."""
        group = self.group
        if self.pids.is_dir():
            group = self.pids / group.relative_to(self.machine.root)
        return int((group / 'pids.current').read_text())

    def test_while_it_forks(self):
        for _ in range(20):
            pid = self.machine.add_task(
                self.group, sys.executable, '-c', _FORKING
            )
            self.limit()
            self.assertEqual([], self.outside())
            self.machine.remove_task(pid)

    def outside(self):
        """Tasks of the container that are in no limited group."""
        if not self.pids.is_dir():
            return []
        group = self.pids / self.group.relative_to(self.machine.root)
        limited = set((group / 'tasks').read_text().split())
        # Those that come after the second list was read have limited parents.
        found = set((self.group / 'tasks').read_text().split())
        later = set((group / 'tasks').read_text().split())
        return sorted(found - limited - later)

    def test_another_partition(self):
        self.machine.set_partition(self.machine.top / 'other')
        err = self.assertRaises(OSError, self.limit)
        self.assertEqual(errno.EACCES, err.errno)

    def test_group_of_what_has_ended(self):
        if not self.pids.is_dir():
            self.skipTest('there is no other group')
        pid = self.machine.add_task(self.group)
        self.limit()
        limited = self.pids / self.group.relative_to(self.machine.root)
        cgroup.sweep_task_limits()
        self.assertTrue(limited.is_dir())
        self.machine.remove_task(pid)
        machine._remove_one(self.group)
        cgroup.sweep_task_limits()
        self.assertFalse(limited.exists())


class V1ThrottlingTest(EveryMachine, machine.MachineTestCase):
    pass


class HCBSTest(EveryMachine, machine.MachineTestCase):
    MACHINE = machine.HCBSMachine

# SPDX-License-Identifier: Apache-2.0
"""Limits of user namespaces on this machine's own kernel."""

import errno
import os
import pathlib
import subprocess
import sys
import textwrap

from oslo_config import cfg

from nova_rt.privsep import limits
from nova_rt.tests.host import machine

#: Makes inotify instances until the kernel refuses, and keeps them.
_BOMB = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
number = 0
while number < 1000 and libc.inotify_init() >= 0:
    number += 1
print(number, ctypes.get_errno(), flush=True)
sys.stdin.read()
"""


class EveryMachine(machine.MountHelperMixin):
    """A container's root cannot use up what the host's root has."""

    def _namespace(self, controller):
        first = self.machine.read_first(controller)
        return f'--user=/proc/{first}/ns/user'

    def _bomb(self, controller):
        """Return how many instances a process inside gets, and the errno."""
        process = subprocess.Popen(
            [
                'nsenter', self._namespace(controller),
                sys.executable, '-c', textwrap.dedent(_BOMB),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        return tuple(map(int, process.stdout.readline().split()))

    def _unshared(self):
        return self.machine.add_container(
            self.group, 'unshare', '--user', '--map-root-user'
        )

    def _inside(self, controller, name):
        return subprocess.run(
            [
                'nsenter', self._namespace(controller),
                'cat', f'/proc/sys/user/{name}',
            ],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    def test_instances(self):
        cfg.CONF.set_override('max_inotify_instances', 9, group='nova_rt')
        self.addCleanup(
            cfg.CONF.clear_override, 'max_inotify_instances', group='nova_rt'
        )
        one, other = self._unshared(), self._unshared()
        for controller in (one, other):
            limits.limit(controller)
        self.assertEqual((9, errno.EMFILE), self._bomb(one))
        self.assertEqual((9, errno.EMFILE), self._bomb(other))

    def test_every_limit(self):
        there = set(os.listdir('/proc/sys/user'))
        controller = self._unshared()
        limits.limit(controller)
        # A kernel that has one more is a reason to look again.
        self.assertLessEqual(there, set(limits._OPTIONS))
        for name, option in limits._OPTIONS.items():
            if name in there:
                self.assertEqual(
                    f'{cfg.CONF.nova_rt[option]}\n',
                    self._inside(controller, name),
                )

    def test_only_there(self):
        path = pathlib.Path('/proc/sys/user/max_inotify_instances')
        before = path.read_text()
        limits.limit(self._unshared())
        self.assertEqual(before, path.read_text())

    def test_no_user_namespace(self):
        self.fails(
            errno.EACCES, limits.limit, self.machine.add_container(self.group)
        )

    def test_outside_of_the_partition(self):
        self.fails(
            errno.EACCES,
            limits.limit,
            self.machine.add_container(
                self.machine.top, 'unshare', '--user', '--map-root-user'
            ),
        )

    def test_no_child(self):
        self.fails(
            errno.ESRCH, limits.limit, self.machine.add_task(self.group)
        )

    def test_no_process(self):
        for controller in (0, -1, 2**22 + 1):
            self.fails(errno.ESRCH, limits.limit, controller)


class V1ThrottlingTest(EveryMachine, machine.MachineTestCase):
    pass


class HCBSTest(EveryMachine, machine.MachineTestCase):
    MACHINE = machine.HCBSMachine

# SPDX-License-Identifier: Apache-2.0
"""A container cannot use up the limits of the host's root."""

import ctypes
import errno
import os
import pathlib
import subprocess
import sys

from lab.tests import base

#: [nova_rt] max_inotify_instances, unless set.
INSTANCES = 64
CAP_SYS_RESOURCE = 24

#: Makes inotify instances until the kernel refuses, and keeps them.
BOMB = """
import ctypes, sys
libc = ctypes.CDLL(None)
number = 0
while number < 1000 and libc.inotify_init() >= 0:
    number += 1
print(number, flush=True)
sys.stdin.read()
"""


#: [nova_rt] max_tasks, unless set; of a flavor.
MOST_TASKS = 4096
FEW = 20

#: Joins a group (its argument) and forks until the kernel refuses.
FORKS = """
import os, sys
with open(sys.argv[1] + '/cgroup.procs', 'w') as file:
    file.write(str(os.getpid()))
number, refused = 0, 0
while number < 100:
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


class LimitsTest(base.LabTestCase):
    """Plain servers as well as real-time ones."""

    def test_every_server(self):
        for flavor in ('rt.tiny', base.PLAIN):
            with self.subTest(flavor):
                server = self.create(flavor)
                self.assert_limited(server)
                self.cloud.compute.reboot_server(server, 'HARD')
                self.reach(server, 'ACTIVE')
                self.assert_limited(server)

    def test_tasks(self):
        """By the flavor, and by [nova_rt] max_tasks where it says nothing."""
        for flavor in ('rt.tiny', base.PLAIN):
            with self.subTest(flavor):
                server = self.create(flavor)
                self.assertEqual(MOST_TASKS, self.read_most(server))
        flavor = self.flavor({'lxc:max_tasks': str(FEW)})
        server = self.create(flavor)
        self.assertEqual(FEW, self.read_most(server))
        made, refused = self.fork(server)
        # Its own first processes count, and libvirt_lxc.
        self.assertLess(made, FEW)
        self.assertEqual(errno.EAGAIN, refused)
        self.cloud.compute.reboot_server(server, 'HARD')
        self.reach(server, 'ACTIVE')
        self.assertEqual(FEW, self.read_most(server))

    def group_of(self, server):
        """Return the limited group that a server's first process is in."""
        process = self.container(server).first_process()
        lines = pathlib.Path(f'/proc/{process}/cgroup').read_text().split()
        v1 = [line for line in lines if ':pids:' in line]
        (line,) = v1 or [line for line in lines if line.startswith('0::')]
        group = pathlib.Path('/sys/fs/cgroup', 'pids' if v1 else '')
        return group / line.split(':', 2)[2].lstrip('/')

    def read_most(self, server):
        group = self.group_of(server)
        while not group.name.startswith(('lxc-', 'machine-')):
            group = group.parent
        return int((group / 'pids.max').read_text())

    def fork(self, server):
        """Fork in a server's group: how often it succeeds, and the errno."""
        bomb = subprocess.Popen(
            [sys.executable, '-c', FORKS, str(self.group_of(server))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            return tuple(map(int, bomb.stdout.readline().split()))
        finally:
            bomb.communicate()

    def assert_limited(self, server):
        process = self.container(server).first_process()
        status = pathlib.Path(f'/proc/{process}/status').read_text()
        (bounds,) = (
            int(line.split()[1], 16)
            for line in status.splitlines()
            if line.startswith('CapBnd:')
        )
        self.assertEqual(0, bounds >> CAP_SYS_RESOURCE & 1)
        bomb = subprocess.Popen(
            [
                'nsenter', f'--user=/proc/{process}/ns/user',
                sys.executable, '-c', BOMB,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            made = int(bomb.stdout.readline())
            # What it runs may have some itself.
            self.assertLessEqual(made, INSTANCES)
            self.assertLess(0, made)
            left = ctypes.CDLL(None, use_errno=True).inotify_init()
            self.assertLessEqual(0, left, 'none is left to the host')
            os.close(left)
        finally:
            bomb.communicate()

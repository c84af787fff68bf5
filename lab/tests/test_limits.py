# SPDX-License-Identifier: Apache-2.0
"""A container cannot use up what the kernel counts for the host's root."""

import ctypes
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

# SPDX-License-Identifier: Apache-2.0
"""Loop devices of this machine's own kernel, mounted in a namespace of ours.

Like a container that ends: its mounts are in its own namespace, and go after
its last process.
"""

import os
import pathlib
import subprocess

import fixtures
from oslotest import base

from nova_rt.host import blockdevs


class LoopDevicesTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        if os.geteuid():
            self.skipTest('needs root')
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.image = self.top / 'server' / 'disk'
        self.image.parent.mkdir()
        self.run_program('truncate', '-s', '16M', self.image)
        self.run_program('mkfs.ext4', '-q', self.image)
        self.device = self.run_program(
            'losetup', '--find', '--show', self.image
        )
        self.addCleanup(self.detach)
        self.devices = blockdevs.BlockDevices()

    @staticmethod
    def run_program(*words):
        done = subprocess.run(words, check=True, capture_output=True)
        return done.stdout.decode().strip()

    def detach(self):
        # Only while it is this test's: the name may be another's by now.
        name = os.path.basename(self.device)
        file = pathlib.Path(f'/sys/block/{name}/loop/backing_file')
        if file.exists() and file.read_text().startswith(str(self.top)):
            subprocess.run(('losetup', '-d', self.device), check=True)

    def mount(self, command):
        """Mount it where only one process sees it, which runs a command."""
        directory = self.top / 'rootfs'
        directory.mkdir()
        process = subprocess.Popen(
            (
                'unshare', '--mount', 'sh', '-c',
                f'mount {self.device} {directory} && cd {directory} && '
                f'{command}; echo; read -r _',
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        process.stdout.readline()
        return process

    def test_by_image(self):
        self.assertEqual([self.device], self.devices.find(str(self.image)))
        other = self.image.with_name('disk.local')
        self.assertEqual([], self.devices.find(str(other)))

    def test_image_that_was_moved_or_removed(self):
        moved = self.top / 'server_resize' / 'disk'
        self.image.parent.rename(moved.parent)
        self.assertEqual([self.device], self.devices.find(str(moved)))
        self.assertEqual([], self.devices.find(str(self.image)))
        moved.unlink()
        self.assertEqual([self.device], self.devices.find(str(moved)))

    def test_detached(self):
        self.assertEqual(
            [self.device],
            self.devices.wait_until_detached(str(self.image), 0.2),
        )
        self.detach()
        self.assertEqual(
            [], self.devices.wait_until_detached(str(self.image), 10)
        )

    def test_mounted_elsewhere(self):
        self.assertFalse(self.devices.is_mounted(self.device))
        process = self.mount('echo all of it > written')
        self.assertTrue(self.devices.is_mounted(self.device))
        self.assertFalse(os.path.ismount(self.top / 'rootfs'))
        self.assertFalse(self.devices.wait_until_unmounted(self.device, 0.2))
        process.kill()
        self.assertTrue(self.devices.wait_until_unmounted(self.device, 10))
        # Whoever copies the file now has what was written last.
        self.assertEqual(
            'all of it',
            self.run_program('debugfs', '-R', 'cat written', self.image),
        )

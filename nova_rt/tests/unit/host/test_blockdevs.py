# SPDX-License-Identifier: Apache-2.0
"""The device that shows a disk, by files like the kernel's."""

import pathlib

import fixtures
from oslotest import base

from nova_rt.host import blockdevs, files

DISK = '/instances/one/disk'


class BlockDevicesTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.sys = top / 'sys'
        self.proc = top / 'proc'
        (self.sys / 'block').mkdir(parents=True)
        (self.sys / 'fs').mkdir()
        self.devices = blockdevs.BlockDevices(
            files.Files(proc=str(self.proc), sys=str(self.sys))
        )

    def loop(self, name, image):
        directory = self.sys / 'block' / name / 'loop'
        directory.mkdir(parents=True)
        (directory / 'backing_file').write_text(f'{image}\n')

    def nbd(self, name, *words, pid=77):
        directory = self.sys / 'block' / name
        directory.mkdir()
        (directory / 'pid').write_text(f'{pid}\n')
        if words:
            (self.proc / str(pid)).mkdir(parents=True)
            (self.proc / str(pid) / 'cmdline').write_text(
                ''.join(f'{word}\0' for word in words)
            )

    def mount(self, name, file_system='ext4'):
        (self.sys / 'fs' / file_system / name).mkdir(parents=True)

    def test_none(self):
        (self.sys / 'block' / 'loop0').mkdir()
        self.assertEqual([], self.devices.find(DISK))

    def test_loop(self):
        self.loop('loop1', '/instances/two/disk')
        self.loop('loop2', DISK)
        self.loop('loop3', f'{DISK} (deleted)')
        self.loop('loop4', f'{DISK}.local')
        self.assertEqual(['/dev/loop2', '/dev/loop3'], self.devices.find(DISK))

    def test_nbd(self):
        self.nbd('nbd0', 'qemu-nbd', '-c', '/dev/nbd0', DISK)
        self.nbd('nbd1', 'qemu-nbd', '-c', '/dev/nbd1', '/x/disk', pid=78)
        self.assertEqual(['/dev/nbd0'], self.devices.find(DISK))

    def test_nbd_of_which_nothing_can_be_known(self):
        """Rather none than that of another server."""
        self.nbd('nbd0')
        # The number is another program's by now.
        self.nbd('nbd1', 'vi', DISK, pid=79)
        self.assertEqual([], self.devices.find(DISK))

    def test_mounted(self):
        self.mount('loop1', 'ext4')
        self.mount('nbd2', 'xfs')
        self.mount('loop3', 'btrfs/0d1f/devices')
        for name in ('loop1', 'nbd2', 'loop3'):
            self.assertTrue(self.devices.is_mounted(f'/dev/{name}'), name)
        for name in ('loop2', 'loop11', 'nbd1'):
            self.assertFalse(self.devices.is_mounted(f'/dev/{name}'), name)

    def test_stays_mounted(self):
        self.mount('loop1')
        self.assertFalse(
            self.devices.wait_until_unmounted('/dev/loop1', timeout_s=0.01)
        )

    def test_stays_attached(self):
        self.loop('loop2', DISK)
        self.assertEqual(
            ['/dev/loop2'], self.devices.wait_until_detached(DISK, 0.01)
        )

# SPDX-License-Identifier: Apache-2.0
"""Moves that keep the content of a root disk, and leave nothing behind.

Mounts and loop devices are real; every test of the lab sees at its end that
none is left. Servers of ordinary flavors move like all others.
"""

import pathlib
import subprocess

from lab import world
from lab.measure import container
from lab.tests import base


class DiskTestBase(base.LabTestCase):
    def run_in(self, server, command):
        """Run a command as the root of a container."""
        pid = min(self.container(server).processes())
        return subprocess.run(
            (
                'nsenter', '--target', str(pid), '--user', '--mount',
                '--setuid', '0', '--setgid', '0', 'sh', '-c', command,
            ),
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip

    def write(self, server, text):
        """Write to the root disk; nothing waits until it is there."""
        self.run_in(server, f'echo {text} > /root/written')

    def assert_written(self, server, text):
        found = self.run_in(server, 'cat /root/written; stat -c %u:%g /root')
        self.assertEqual(f'{text}\n0:0', found)

    def root_bytes(self, server):
        """Size of the file system that the container sees."""
        pid = min(self.container(server).processes())
        found = pathlib.Path(f'/proc/{pid}/root')
        done = subprocess.run(
            ('stat', '-f', '-c', '%b %S', f'{found}/'),
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        blocks, size = map(int, done.stdout.split())
        return blocks * size

    def devices(self, server):
        """Loop devices that show a disk of a server, by their files."""
        return [each for each in world.look(self.cloud).loops
                if server.id in each]  # fmt: skip

    def assert_stopped(self, server):
        """Nothing runs, nothing is mounted, nothing is attached."""
        self.assertIsNone(container.Container.of(server.id))
        self.wait_for(
            lambda: not self.devices(server), 'a loop device is left'
        )

    def large_flavor(self):
        made = self.cloud.compute.create_flavor(
            name=f'e2e-{self._testMethodName}'[:60], vcpus=1, ram=128, disk=2
        )
        self.addCleanup(self.cloud.compute.delete_flavor, made.id)
        return made.id


class PlainMovesTest(DiskTestBase):
    """On the one host that every lab has."""

    on_first = True

    def setUp(self):
        super().setUp()
        self.server = self.create(base.PLAIN)
        self.write(self.server, 'before')
        self.assertEqual(1, len(self.devices(self.server)))

    def resize(self):
        self.cloud.compute.resize_server(self.server, self.large_flavor())
        self.server = self.reach(self.server, 'VERIFY_RESIZE')

    def test_confirmed(self):
        size = self.root_bytes(self.server)
        self.resize()
        self.assert_written(self.server, 'before')
        self.assertGreater(self.root_bytes(self.server), size)
        self.write(self.server, 'since')
        self.cloud.compute.confirm_server_resize(self.server)
        self.reach(self.server, 'ACTIVE')
        self.assert_written(self.server, 'since')
        for kind in ('SOFT', 'HARD'):
            self.cloud.compute.reboot_server(self.server, kind)
            self.reach(self.server, 'ACTIVE')
            self.assert_written(self.server, 'since')
        self.assertEqual(1, len(self.devices(self.server)))

    def test_reverted(self):
        self.resize()
        self.write(self.server, 'since')
        self.cloud.compute.revert_server_resize(self.server)
        self.reach(self.server, 'ACTIVE')
        self.assert_written(self.server, 'before')
        self.assertEqual(1, len(self.devices(self.server)))

    def test_stopped(self):
        self.cloud.compute.stop_server(self.server)
        self.reach(self.server, 'SHUTOFF')
        self.assert_stopped(self.server)
        self.resize()
        self.cloud.compute.confirm_server_resize(self.server)
        self.reach(self.server, 'SHUTOFF')
        self.assert_stopped(self.server)
        self.cloud.compute.start_server(self.server)
        self.reach(self.server, 'ACTIVE')
        self.assert_written(self.server, 'before')

    def test_device_name_of_another(self):
        """Resize of a server with a noted device of another server."""
        other = self.create(base.PLAIN)
        self.write(other, 'of the other')
        (file,) = self.devices(other)
        (device,) = [
            path.parts[-3]
            for path in pathlib.Path('/sys/block').glob(
                'loop*/loop/backing_file'
            )
            if path.read_text().strip() == file
        ]
        self.cloud.compute.stop_server(self.server)
        self.reach(self.server, 'SHUTOFF')
        world.execute(
            'nova_cell1',
            'INSERT INTO instance_system_metadata '
            '(created_at, instance_uuid, `key`, value, deleted) '
            "VALUES (NOW(), %s, 'rootfs_device_name', %s, 0)",
            self.server.id,
            f'/dev/{device}',
        )
        self.resize()
        self.assertEqual([file], self.devices(other))
        self.run_in(other, 'sync')
        self.assert_written(other, 'of the other')
        self.cloud.compute.confirm_server_resize(self.server)
        self.reach(self.server, 'SHUTOFF')


class ShelveTest(DiskTestBase):
    def test_offloaded(self):
        server = self.create('rt.small')
        self.assert_agree(server, '20000/100000')
        self.write(server, 'before')
        asked = self.record(server).request
        files = world.instances(self.host_of(server))

        self.cloud.compute.shelve_server(server)
        self.reach(server, 'SHELVED_OFFLOADED')
        self.assert_stopped(server)
        self.assert_nothing_allocated(server)
        rec = self.record(server)
        self.assertEqual(((), asked), (rec.cpus, rec.request))
        self.wait_for(
            lambda: self.stats() == self.before.hosts, 'a claim is left'
        )
        self.assertFalse((files / server.id).exists())

        self.cloud.compute.unshelve_server(server)
        self.reach(server, 'ACTIVE')
        self.assert_agree(server, '20000/100000')
        self.assert_written(server, 'before')

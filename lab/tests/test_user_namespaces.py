# SPDX-License-Identifier: Apache-2.0
"""A container's root is nobody on the host; its disk knows nothing."""

import pathlib
import subprocess

from lab import world
from lab.tests import base

#: IDs of a server.
_SIZE = 65536


class UserNamespacesTest(base.LabTestCase):
    """Owners in the container, on the host and on the disk."""

    def users(self, server):
        """Return the real user and group IDs of a container's processes."""
        found = set()
        for pid in self.container(server).processes():
            lines = pathlib.Path(f'/proc/{pid}/status').read_text()
            fields = dict(
                line.split(':', 1)
                for line in lines.splitlines()
                if ':' in line
            )
            ids = fields['Uid'].split()[0], fields['Gid'].split()[0]
            found.add(tuple(map(int, ids)))
        return found

    def root(self, server):
        """Return the root directory of a container, seen from the host."""
        pid = min(self.container(server).processes())
        return pathlib.Path(f'/proc/{pid}/root')

    def owner_on_disk(self, server, path):
        """Return the owner of a file as the disk has it."""
        files = world.instances(self.host_of(server))
        disk = files / server.id / 'disk'
        return self.owner_in(disk, path)

    def owner_in(self, disk, path):
        done = subprocess.run(
            ('debugfs', '-R', f'stat {path}', str(disk)),
            capture_output=True,
            text=True,
            check=True,
        )
        words = done.stdout.replace(':', ': ').split()
        return tuple(
            int(words[words.index(key) + 1]) for key in ('User:', 'Group:')
        )

    def first(self, server):
        """Return the first ID of a server's range, which its root has."""
        ((user, group),) = self.users(server)
        self.assertEqual(user, group)
        self.assertEqual(0, user % _SIZE)
        self.assertGreater(user, 0)
        return user

    def assert_mapped(self, server):
        first = self.first(server)
        for path in ('', 'bin/busybox', 'root'):
            stat = (self.root(server) / path).stat()
            self.assertEqual((first, first), (stat.st_uid, stat.st_gid))
        return first

    def test_each_server_has_its_own(self):
        servers = [
            self.create(flavor)
            for flavor in ('rt.tiny', base.PLAIN, 'rt.tiny', base.PLAIN)
        ]
        found = {self.assert_mapped(each) for each in servers}
        self.assertEqual(4, len(found))

    def test_every_start_of_every_server(self):
        for flavor in ('rt.tiny', base.PLAIN):
            with self.subTest(flavor):
                server = self.create(flavor)
                first = self.assert_mapped(server)
                self.cloud.compute.reboot_server(server, 'HARD')
                self.reach(server, 'ACTIVE')
                self.assertEqual(first, self.assert_mapped(server))
                self.cloud.compute.stop_server(server)
                stopped = self.reach(server, 'SHUTOFF')
                for path in ('/', '/bin/busybox', '/root'):
                    self.assertEqual((0, 0), self.owner_on_disk(stopped, path))

    def test_a_snapshot_has_the_owners_of_the_disk(self):
        server = self.create('rt.tiny')
        # Made by the container's root; it is root's on the disk.
        made = self.root(server) / 'root' / 'made'
        subprocess.run(
            (
                'nsenter', '--target', made.parts[2], '--user', '--mount',
                '--setuid', '0', '--setgid', '0', 'sh', '-c',
                'touch /root/made && sync /root/made',
            ),
            check=True,
        )  # fmt: skip
        self.assertEqual(self.first(server), made.stat().st_uid)
        image = self.cloud.compute.create_server_image(
            server.id, 'e2e-snapshot', wait=True
        )
        self.addCleanup(self.cloud.image.delete_image, image.id)
        self.reach(server, 'ACTIVE')
        file = base.paths.VAR / 'images' / image.id
        for path in ('/root', '/root/made'):
            self.assertEqual((0, 0), self.owner_in(file, path))

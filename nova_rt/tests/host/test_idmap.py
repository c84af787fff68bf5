# SPDX-License-Identifier: Apache-2.0
"""Id-mapped mounts of this machine's own kernel, in a namespace of ours."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap
import uuid

import fixtures
from oslotest import base

import nova_rt.privsep
import nova_rt.privsep.idmap

MAPS = [(0, 100000, 65536)]

# Runs in a mount namespace of its own: nothing is mounted on the machine.
_PROGRAM = """
import errno, json, os, sys
import nova_rt.privsep, nova_rt.privsep.idmap as idmap
nova_rt.privsep.mount_pctxt.set_client_mode(False)
path, maps = sys.argv[1], json.loads(sys.argv[2])
maps = [tuple(each) for each in maps]
result = {'error': None}
open(path + '/before', 'w').close()
os.chown(path + '/before', 7, 8)
try:
    idmap.map_owners(path, maps, maps)
except OSError as err:
    result['error'] = errno.errorcode[err.errno]
mounts = open('/proc/self/mountinfo').read().splitlines()
result['mounts'] = sum(line.split()[4] == path for line in mounts)
stat = os.stat(path + '/before')
result['before'] = [stat.st_uid, stat.st_gid]
# The way to it may be closed to this user.
root = os.open(path, os.O_PATH)
os.setegid(100003)
os.seteuid(100000)
try:
    os.close(os.open('new', os.O_CREAT, dir_fd=root))
except OSError as err:
    result['new'] = errno.errorcode[err.errno]
else:
    stat = os.stat('new', dir_fd=root)
    result['new'] = [stat.st_uid, stat.st_gid]
print(json.dumps(result))
"""


class MapOwnersTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        if os.geteuid():
            self.skipTest('needs root')
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        top.chmod(0o755)
        self.path = top / str(uuid.uuid4()) / 'rootfs'
        self.path.mkdir(parents=True)

    def run_inside(self, maps=MAPS, path=None, mount='tmpfs'):
        """Mount a file system, map its owners, and look."""
        path = path or self.path
        script = f'mount -t {mount} none {path} -o mode=777 && exec "$@"'
        done = subprocess.run(
            (
                'unshare', '--mount', 'sh', '-c', script, 'sh',
                sys.executable, '-c', textwrap.dedent(_PROGRAM), str(path),
                json.dumps(maps),
            ),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_owners_are_mapped_both_ways(self):
        result = self.run_inside()
        if result['error'] == 'EINVAL':
            self.skipTest('tmpfs has no id-mapped mounts before Linux 6.3')
        self.assertEqual(
            {
                'error': None,
                # One, not two: Nova unmounts one.
                'mounts': 1,
                'before': [100007, 100008],
                'new': [100000, 100003],
            },
            result,
        )

    def test_file_system_cannot(self):
        """What was mounted is mounted still."""
        result = self.run_inside(mount='ramfs')
        self.assertEqual('EINVAL', result['error'])
        self.assertEqual(1, result['mounts'])
        self.assertEqual([7, 8], result['before'])

    def test_root_of_the_host(self):
        for maps in ([(0, 0, 1)], [(0, 100000, 65536), (70000, 0, 5)]):
            self.assertEqual('EACCES', self.run_inside(maps)['error'])

    def test_no_maps(self):
        for maps in (
            [(0, 100000, 0)],
            [(-1, 100000, 5)],
            [(0, -5, 10)],
            [(0, 1 << 32, 5)],
            [(0, (1 << 32) - 3, 5)],
            # Refused by the kernel: they overlap.
            [(0, 100000, 10), (5, 200000, 10)],
        ):
            self.assertEqual('EINVAL', self.run_inside(maps)['error'], maps)

    def test_other_mount_points(self):
        for name in ('rootfs', 'x/rootfs', f'{uuid.uuid4()}/other'):
            path = self.path.parent.parent / name
            path.mkdir(parents=True, exist_ok=True)
            result = self.run_inside(path=path)
            self.assertEqual('EACCES', result['error'], name)
            self.assertEqual([7, 8], result['before'])

    def test_links_and_dots(self):
        link = self.path.parent.parent / str(uuid.uuid4())
        link.symlink_to(self.path.parent)
        for path in (
            link / 'rootfs',
            self.path.parent / '.' / 'rootfs',
            f'{self.path}/../rootfs',
            f'{self.path}/',
        ):
            result = self.run_inside(path=path)
            if str(path) != str(self.path):
                self.assertEqual('EACCES', result['error'], path)

    def test_nothing_is_mounted(self):
        nova_rt.privsep.mount_pctxt.set_client_mode(False)
        self.addCleanup(nova_rt.privsep.mount_pctxt.set_client_mode, True)
        refusal = self.assertRaises(
            OSError,
            nova_rt.privsep.idmap.map_owners, str(self.path), MAPS, MAPS,
        )  # fmt: skip
        self.assertIn('nothing is mounted', str(refusal))

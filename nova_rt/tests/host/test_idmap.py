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

FIRST = 131072
#: Two ranges.
POOL = '131072:131072'

# Runs in a mount namespace of its own: nothing is mounted on the machine.
_PROGRAM = """
import errno, json, os, sys
from oslo_config import cfg
import nova_rt.privsep, nova_rt.privsep.idmap as idmap
from nova_rt.privsep import roots
nova_rt.privsep.mount_pctxt.set_client_mode(False)
top, path, here, server, first, pool, swap = json.loads(sys.argv[1])
with open(top + '/nova.conf', 'w') as file:
    file.write('[DEFAULT]\\ninstances_path = ' + top + '/instances\\n')
    file.write('[nova_rt]\\nid_pool = ' + pool + '\\n')
cfg.CONF(['--config-file', top + '/nova.conf'], project='privsep')
result = {'error': None}
open(path + '/before', 'w').close()
os.chown(path + '/before', 7, 8)
os.mknod(path + '/null', 0o600 | 0o20000, os.makedev(1, 3))
really_open, really_call = os.open, idmap._call
calls = []


def swapping(really):
    # The directory of the server is another one from that call on.
    def swap_and_call(*args, **kwargs):
        if len(calls) == swap:
            name = top + '/instances/' + here
            os.rename(name, name + '.aside')
            os.symlink(top + '/other', name)
        calls.append(args)
        return really(*args, **kwargs)

    return swap_and_call


os.open, idmap._call = swapping(really_open), swapping(really_call)
try:
    idmap.map_owners(server, first)
except OSError as err:
    result['error'] = errno.errorcode[err.errno]
os.open, idmap._call = really_open, really_call
result['calls'] = len(calls)
mounts = [
    line.split() for line in open('/proc/self/mountinfo').read().splitlines()
    if line.split()[4].startswith(top)
]
result['mounts'] = [
    line[4].removeprefix(top + '/').replace(here, 'SERVER')
    for line in mounts
]


def owner(path):
    try:
        stat = os.stat(path)
    except OSError as err:
        return errno.errorcode[err.errno]
    return [stat.st_uid, stat.st_gid]


if swap is None:
    result['before'] = owner(path + '/before')
    try:
        os.close(os.open(path + '/null', os.O_RDONLY))
        result['device'] = True
    except PermissionError:
        result['device'] = False
    # The way to it may be closed to this user.
    root = os.open(path, os.O_PATH)
    os.setegid(131075)
    os.seteuid(131072)
    try:
        os.close(os.open('new', os.O_CREAT, dir_fd=root))
    except OSError as err:
        result['new'] = errno.errorcode[err.errno]
    else:
        stat = os.stat('new', dir_fd=root)
        result['new'] = [stat.st_uid, stat.st_gid]
else:
    result['other'] = owner(top + '/other/rootfs/before')
print(json.dumps(result))
"""


class MapOwnersTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        if os.geteuid():
            self.skipTest('needs root')
        self.make()

    def make(self):
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        top.chmod(0o755)
        self.top = top
        self.server = str(uuid.uuid4())
        self.path = top / 'instances' / self.server / 'rootfs'
        self.path.mkdir(parents=True)
        #: Another file system, such as one of the host.
        self.other = top / 'other' / 'rootfs'
        self.other.mkdir(parents=True)

    def run_inside(
        self, first=FIRST, server=None, path=None, mount='tmpfs', pool=POOL,
        swap=None,
    ):  # fmt: skip
        """Mount a file system, map its owners, and look."""
        path = path or self.path
        server = self.server if server is None else server
        script = (
            f'mount -t {mount} none {path} -o mode=777 && '
            f'mount -t tmpfs none {self.other} && '
            f'touch {self.other}/before && exec "$@"'
        )
        arguments = [
            str(self.top), str(path), self.server, server, first, pool, swap,
        ]  # fmt: skip
        done = subprocess.run(
            (
                'unshare', '--mount', 'sh', '-c', script, 'sh',
                sys.executable, '-c', textwrap.dedent(_PROGRAM),
                json.dumps(arguments),
            ),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_owners_are_mapped_both_ways(self):
        for first in (FIRST, FIRST + 65536):
            self.make()
            result = self.run_inside(first)
            if result['error'] == 'EINVAL':
                self.skipTest('tmpfs has no id-mapped mounts before Linux 6.3')
            self.assertIsNone(result['error'])
            self.assertEqual([first + 7, first + 8], result['before'])
            # One, not two: Nova unmounts one.
            self.assertEqual(
                {'instances/SERVER/rootfs', 'other/rootfs'},
                {*result['mounts']},
            )
            self.assertEqual(2, len(result['mounts']))
            # An image's node of a disk of the host opens nothing.
            self.assertFalse(result['device'])
            if first == FIRST:
                self.assertEqual([131072, 131075], result['new'])

    def assert_untouched(self, error, **arguments):
        result = self.run_inside(**arguments)
        self.assertEqual(error, result['error'], arguments)
        self.assertEqual([7, 8], result['before'])
        self.assertEqual(2, len(result['mounts']))

    def test_file_system_cannot(self):
        """The mount that was there is there still."""
        self.assert_untouched('EINVAL', mount='ramfs')

    def test_no_range_of_the_pool(self):
        for first in (
            0, 6, 65534, 65536, 100000, FIRST - 65536, FIRST + 1,
            FIRST + 2 * 65536, -FIRST, (1 << 32) - 1, 1 << 32, 1 << 70,
            str(FIRST), float(FIRST), None, True, [FIRST], [[0, 0, 1]],
        ):  # fmt: skip
            self.make()
            self.assert_untouched('EACCES', first=first)

    def test_pool_of_this_helper(self):
        """The caller has no say in it."""
        for pool in ('', '0:4294901760', '100000:65536', '1048576:65536'):
            self.make()
            self.assert_untouched('EACCES', pool=pool)

    def test_no_server(self):
        for server in (
            '', '.', '..', 'x', '{0}/', './{0}', '{0}/rootfs', '{0}\n',
            '../instances/{0}', '{0}\x00', '/{0}', '{0}/../{0}', 5,
            ['{0}'],
        ):  # fmt: skip
            self.make()
            if isinstance(server, str):
                server = server.format(self.server)
            self.assert_untouched('EACCES', server=server)
        self.assert_untouched('EACCES', server=str(self.path.parent))

    def test_server_that_is_not_there(self):
        self.assert_untouched('ENOENT', server=str(uuid.uuid4()))

    def test_directories_of_others(self):
        """With the right names, and not in the directory of the servers."""
        elsewhere = self.top / 'elsewhere' / self.server / 'rootfs'
        elsewhere.mkdir(parents=True)
        self.assert_untouched('EINVAL', path=elsewhere)

    def test_link_in_the_place_of_a_server(self):
        other = self.top / 'elsewhere' / self.server / 'rootfs'
        other.mkdir(parents=True)
        server = str(uuid.uuid4())
        (self.top / 'instances' / server).symlink_to(other.parent)
        self.assert_untouched('EACCES', server=server, path=other)

    def test_link_in_the_place_of_a_root(self):
        other = self.top / 'elsewhere'
        other.mkdir()
        self.path.rmdir()
        self.path.symlink_to(other)
        self.assert_untouched('EACCES', path=other)

    def test_file_in_the_place_of_a_server(self):
        server = str(uuid.uuid4())
        (self.top / 'instances' / server).touch()
        self.assert_untouched('EACCES', server=server)

    def test_mount_in_the_place_of_a_server(self):
        self.assert_untouched('EACCES', path=self.path.parent)

    def test_nothing_is_mounted(self):
        other = self.top / 'elsewhere'
        other.mkdir()
        self.assert_untouched('EINVAL', path=other)

    def test_directory_of_servers_is_a_link(self):
        """An operator may have made it."""
        (self.top / 'instances').rename(self.top / 'disk2')
        (self.top / 'instances').symlink_to(self.top / 'disk2')
        self.path = self.top / 'disk2' / self.server / 'rootfs'
        result = self.run_inside()
        self.assertIn(result['error'], (None, 'EINVAL'))
        if result['error'] is None:
            self.assertEqual([FIRST + 7, FIRST + 8], result['before'])

    def test_directory_that_is_swapped_for_a_link(self):
        """Before any of the calls, one after another."""
        count = self.run_inside()['calls']
        self.assertGreater(count, 7)
        errors = set()
        for swap in range(count):
            self.make()
            result = self.run_inside(swap=swap)
            # What the link leads to has its owners, and its one mount.
            self.assertEqual([0, 0], result['other'], swap)
            self.assertEqual(1, result['mounts'].count('other/rootfs'))
            self.assertEqual(2, len(result['mounts']), swap)
            errors.add(result['error'])
        # Too early, it is seen; too late, the server's own is mapped.
        self.assertLessEqual(errors, {None, 'EACCES', 'EINVAL'})
        self.assertIn('EACCES', errors)


class CheckTest(base.BaseTestCase):
    """Both sides read the same, or the service does not start."""

    PROGRAM = """
import sys
from oslo_config import cfg
import nova_rt.privsep, nova_rt.privsep.idmap as idmap
nova_rt.privsep.mount_pctxt.set_client_mode(False)
path, *arguments = sys.argv[1:]
cfg.CONF(['--config-file', path], project='privsep')
try:
    idmap.check(*arguments)
except OSError as err:
    print(err.strerror)
"""

    def check(self, text, pool, instances):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'nova.conf'
        path.write_text(text)
        done = subprocess.run(
            (sys.executable, '-c', self.PROGRAM, str(path), pool, instances),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout.strip()

    def test_same(self):
        text = '[DEFAULT]\nstate_path = /srv\n[nova_rt]\nid_pool = ' + POOL
        self.assertEqual('', self.check(text, POOL, '/srv/instances'))
        text = '[DEFAULT]\ninstances_path = /a/b\n'
        default = '2000224256:147128320'
        self.assertEqual('', self.check(text, default, '/a/b'))
        self.assertEqual(
            '', self.check('', default, '/var/lib/nova/instances')
        )

    def test_other(self):
        text = '[DEFAULT]\ninstances_path = /a\n[nova_rt]\nid_pool = ' + POOL
        said = self.check(text, '65536:65536', '/a')
        self.assertIn('[nova_rt] id_pool is 65536:65536 for this', said)
        self.assertIn(POOL, said)
        said = self.check(text, POOL, '/b')
        self.assertIn('instances_path is /b for this service and /a', said)

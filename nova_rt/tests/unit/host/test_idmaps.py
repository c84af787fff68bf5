# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.idmaps: whose the IDs of a pool are."""

import errno
import logging
import os
import pathlib
import types
from unittest import mock

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.host import idmaps

#: Two ranges from 2000224256 on.
POOL = '2000224256:131072'


class ReadPoolTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.etc = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.accounts(users={0: 'root', 65534: 'nobody', 64060: 'nova'})

    def accounts(self, users=None, groups=None):
        for name, found in (
            ('pwd.getpwall', [
                types.SimpleNamespace(pw_uid=number, pw_name=each)
                for number, each in (users or {}).items()
            ]),
            ('grp.getgrall', [
                types.SimpleNamespace(gr_gid=number, gr_name=each)
                for number, each in (groups or {}).items()
            ]),
        ):  # fmt: skip
            self.useFixture(
                fixtures.MonkeyPatch(name, lambda found=found: found)
            )

    def read(self, text=POOL):
        return idmaps.read_pool(text, str(self.etc))

    def assert_refused(self, *reasons, text=POOL):
        refusal = self.assertRaises(exception.HostNotPrepared, self.read, text)
        for each in (f'[nova_rt] id_pool = {text}', *reasons):
            self.assertIn(each, str(refusal))

    def test_free(self):
        self.assertEqual(POOL, str(self.read()))
        self.assertEqual('', self.log.output)

    def test_no_pool(self):
        self.assert_refused('a multiple of 65536', text='100000:65536')

    def test_user_of_the_host(self):
        self.accounts(users={2000355327: 'ann'})
        self.assert_refused('user ann', '2000355327')

    def test_group_of_the_host(self):
        """A setgid file of an image would belong to it."""
        self.accounts(groups={6: 'disk', 2000224256: 'storage'})
        self.assert_refused('group storage', '2000224256')

    def test_beside_accounts(self):
        self.accounts({2000224255: 'a', 2000355328: 'b'}, {2000224255: 'c'})
        self.read()

    def test_subordinate_ids_of_others(self):
        for name in ('subuid', 'subgid'):
            path = self.etc / name
            path.write_text('ann:100000:65536\nbob:2000355327:1\n')
            self.assert_refused(f'line 2 of {path}', 'bob:2000355327:1')
            self.assert_refused('ann', text='131072:65536')
            path.unlink()

    def test_subordinate_ids_of_root(self):
        """The way to keep useradd off them."""
        text = f'root:{POOL}\n0:{POOL}\n'
        for name in ('subuid', 'subgid'):
            (self.etc / name).write_text(text)
        self.read()

    def test_lines_that_say_nothing(self):
        (self.etc / 'subuid').write_bytes(
            b'\n#\nann\nann:1\nann:x:5\nann:2000224256:0\nann:-1:4294967295\n'
            b'ann:2000224256:65536:more\n\xff\xfe:100000:65536\n'
        )
        self.read()
        (self.etc / 'subuid').write_bytes(b'\xff:2000224256:65536\n')
        self.assert_refused('line 1')

    def test_file_that_cannot_be_read(self):
        """It may give away anything."""
        (self.etc / 'subgid').mkdir()
        self.assert_refused('cannot read', 'subgid', 'Is a directory')

    def test_ranges_that_systemd_chooses_from(self):
        for text in ('1000013824:65536', '2147352576:65536'):
            self.assertEqual(text, str(self.read(text)))
            self.assertIn(text, self.log.output)
            self.assertIn('systemd', self.log.output)


class PutOnTest(base.BaseTestCase):
    def test_refused(self):
        for number, hint in ((errno.EINVAL, True), (errno.EACCES, False)):
            helper = mock.Mock()
            helper.map_owners.side_effect = OSError(
                number, os.strerror(number)
            )
            refusal = self.assertRaises(
                exception.HostNotPrepared,
                idmaps.put_on, 'a-uuid', 2000224256, helper,
            )  # fmt: skip
            helper.map_owners.assert_called_once_with('a-uuid', 2000224256)
            self.assertIn(os.strerror(number), str(refusal))
            self.assertEqual(hint, 'Linux 5.12' in str(refusal))

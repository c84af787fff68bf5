# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.idmaps: which maps are safe."""

import pathlib
import types

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.host import files, idmaps

ACCOUNTS = {0: 'root', 64060: 'nova', 65534: 'nobody'}


class ParseTest(base.BaseTestCase):
    def test_maps(self):
        self.assertEqual(
            ((0, 100000, 65536),),
            idmaps.parse('uid_maps', ['0:100000:65536'], ACCOUNTS),
        )
        self.assertEqual(
            ((1, 200000, 5), (0, 100000, 1)),
            idmaps.parse('uid_maps', ['1:200000:5', ' 0:100000:1'], ACCOUNTS),
        )

    def assert_refused(self, texts, reason):
        refusal = self.assertRaises(
            exception.HostNotPrepared,
            idmaps.parse,
            'gid_maps',
            texts,
            ACCOUNTS,
        )
        self.assertIn('[libvirt] gid_maps = ', str(refusal))
        self.assertIn(reason, str(refusal))

    def test_not_maps(self):
        for text in (
            '', '0', '0:1', 'a:b:c', '0:100000:-1', '0:100000:65536:1',
            '0:0x10:5', '\u0660:100000:65536',
        ):  # fmt: skip
            with self.subTest(text):
                self.assert_refused([text], 'a map is')

    def test_number_of_maps(self):
        self.assert_refused([], '1 to 5 maps')
        self.assert_refused(
            [f'{n}:{100000 + n}:1' for n in range(6)], '1 to 5 maps'
        )

    def test_root_is_not_mapped(self):
        """Then nothing in the container would be root of it."""
        self.assert_refused(['1:100000:65536'], '0, the root')
        self.assert_refused(['0:100000:0'], '0, the root')

    def test_root_would_be_root(self):
        self.assert_refused(['0:0:65536'], 'root (0)')
        self.assert_refused(['0:100000:65536', '70000:0:1'], 'root (0)')

    def test_a_user_would_have_an_account(self):
        self.assert_refused(['0:60000:65536'], 'nova (64060)')
        self.assert_refused(['0:64060:1'], 'nova (64060)')

    def test_root_counts_where_nobody_lists_it(self):
        self.assertRaises(
            exception.HostNotPrepared,
            idmaps.parse, 'uid_maps', ['0:0:1'], {},
        )  # fmt: skip


class OptionsTest(base.BaseTestCase):
    def read(self, uids, gids):
        return idmaps.IDMaps.from_options(
            types.SimpleNamespace(uid_maps=uids, gid_maps=gids)
        )

    def test_none(self):
        self.assertIsNone(self.read([], []))

    def test_both(self):
        maps = ['0:3000000000:65536']
        found = self.read(maps, maps)
        self.assertEqual(((0, 3000000000, 65536),), found.uids)
        self.assertEqual(found.uids, found.gids)

    def test_one_of_them_is_no_protection(self):
        maps = ['0:3000000000:65536']
        for uids, gids in ((maps, []), ([], maps)):
            self.assertRaises(exception.HostNotPrepared, self.read, uids, gids)

    def test_this_host_has_accounts(self):
        self.assertRaises(
            exception.HostNotPrepared,
            self.read, ['0:1:65536'], ['0:100000:65536'],
        )  # fmt: skip


class PutOnTest(base.BaseTestCase):
    """Where the privileged helper, which follows no links, is sent."""

    def test_directory_of_servers_is_a_link(self):
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path).resolve()
        (top / 'disk2' / 'server' / 'rootfs').mkdir(parents=True)
        (top / 'instances').symlink_to(top / 'disk2')
        asked = []

        class Recorder(files.Files):
            def map_owners(self, path, uids, gids):
                asked.append((path, uids, gids))

        maps = ((0, 3000000000, 65536),)
        idmaps.IDMaps(maps, maps).put_on(
            str(top / 'instances' / 'server' / 'rootfs'), Recorder()
        )
        self.assertEqual(
            [(str(top / 'disk2' / 'server' / 'rootfs'), maps, maps)], asked
        )

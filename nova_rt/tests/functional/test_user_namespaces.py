# SPDX-License-Identifier: Apache-2.0
"""A container's root is nobody on the host, or nothing starts."""

import errno

import fixtures
from lxml import etree

from nova_rt.tests.fixtures import kernel
from nova_rt.tests.functional import base

_MAPS = ((0, 3000000000, 65536),)


class UserNamespacesTest(base.RTServersTestBase):
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        self.start_compute()

    def id_maps(self, server):
        tree = etree.fromstring(self.guest(server).get_xml_desc())
        return [
            (each.tag, dict(each.attrib)) for each in tree.findall('idmap/*')
        ]

    def assert_mapped(self, server, times):
        values = {'start': '0', 'target': '3000000000', 'count': '65536'}
        self.assertEqual(
            [('uid', values), ('gid', values)], self.id_maps(server)
        )
        paths = [
            path for path, _, _ in self.mapped if f'/{server["id"]}/' in path
        ]
        self.assertEqual(times, len(paths))
        self.assertTrue(
            all(maps == [_MAPS] * 2 for _, *maps in self.mapped), self.mapped
        )
        self.assertEqual(set(), self.mounted)

    def test_every_start(self):
        server = self.create(self.rt_flavor())
        self.assert_mapped(server, 1)
        self._reboot_server(server, hard=True)
        self.assert_mapped(server, 2)

    def test_plain_servers(self):
        """They live on the same host."""
        server = self.create(self._create_flavor(memory_mb=64))
        self.assert_mapped(server, 1)

    def test_tasks_that_could_never_be_real_time(self):
        server = self.create(self.rt_flavor(policy='other'), state='ERROR')
        self.assertIn('rt:policy=other', base.fault_of(server))
        self.assertEqual([], self.containers.started)
        self.assert_nothing_left(of=[server])

    def refuse_maps(self, number):
        def refuse(files, path, uids, gids):
            raise OSError(number, 'no')

        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.files.Files.map_owners', refuse)
        )

    def test_owners_cannot_be_mapped(self):
        """Nothing is started with the wrong owners."""
        self.refuse_maps(errno.EINVAL)
        server = self.create(self.rt_flavor(), state='ERROR')
        self.assertIn('cannot map the owners', base.fault_of(server))
        self.assertEqual([], self.containers.started)
        self.assert_nothing_left(of=[server])

    def test_owners_cannot_be_mapped_later(self):
        server = self.create(self.rt_flavor())
        self.refuse_maps(errno.EPERM)
        self._reboot_server(server, hard=True, expected_state='ERROR')
        self.assertEqual(1, len(self.containers.started))
        self.assertEqual(set(), self.mounted)


class StartWithoutTest(base.RTServersTestBase):
    """What nova-rt-compute says of maps that do not protect the host."""

    def test_no_maps(self):
        self.flags(uid_maps=[], gid_maps=[], group='libvirt')
        self.assert_not_started('root of this host', 'allow_host_root')

    def test_one_of_them(self):
        self.flags(gid_maps=[], group='libvirt')
        self.assert_not_started('[libvirt] gid_maps')

    def test_root_is_root(self):
        self.flags(uid_maps=['0:0:65536'], group='libvirt')
        self.assert_not_started('root (0)')

    def test_what_nova_would_have_dropped(self):
        self.flags(uid_maps=['0:100000'], group='libvirt')
        self.assert_not_started('0:100000', 'a map is')

    def give_away(self):
        """A host without systemd, and systemd's hierarchy is mounted."""
        fake = self.useFixture(kernel.make('v1-throttle'))
        self.kernels['compute1'] = fake
        hierarchy = fake.files.cgroup / 'systemd'
        hierarchy.mkdir()
        (hierarchy / 'tasks').touch()

    def test_libvirt_would_give_a_hierarchy_away(self):
        self.give_away()
        self.assert_not_started('systemd is mounted', 'Unmount')

    def test_without_maps_libvirt_gives_nothing_away(self):
        self.give_away()
        self.flags(uid_maps=[], gid_maps=[], group='libvirt')
        self.flags_of_ours(allow_host_root=True)
        self.start_compute()

    def test_operator_insists(self):
        self.flags(uid_maps=[], gid_maps=[], group='libvirt')
        self.flags_of_ours(allow_host_root=True)
        self.start_compute()
        server = self.create(self.rt_flavor(policy='other'))
        self.assert_held(server)
        self.assertEqual([], self.mapped)
        self.assertNotIn('<idmap>', self.guest(server).get_xml_desc())

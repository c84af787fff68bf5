# SPDX-License-Identifier: Apache-2.0
"""A container's root is nobody on the host and in no other container."""

import errno

import fixtures
from lxml import etree

from nova_rt import exception, id_pool
from nova_rt.lxc import id_ranges
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.functional import base, moves

_FIRST = 3000041472


class RangesMixin:
    def id_maps(self, server, hostname='compute1'):
        xml = self.guest(server, hostname).get_xml_desc()
        return [
            (each.tag, dict(each.attrib))
            for each in etree.fromstring(xml).findall('idmap/*')
        ]

    def range_of(self, server, hostname='compute1'):
        """Return the first ID of its range; domain, mount and note agree."""
        maps = self.id_maps(server, hostname)
        first = int(maps[0][1]['target'])
        values = {'start': '0', 'target': str(first), 'count': '65536'}
        self.assertEqual([('uid', values), ('gid', values)], maps)
        mapped = [each for uuid, each in self.mapped if uuid == server['id']]
        self.assertEqual(first, mapped[-1])
        kept = self.instance(server).system_metadata[id_ranges.KEY]
        self.assertEqual(str(first), kept)
        return first

    def number(self, server, hostname='compute1'):
        """Return the number of its range in the pool, from 0."""
        pool = id_pool.IDPool.parse(base.base.CONF.nova_rt.id_pool)
        return pool.ranges.index(self.range_of(server, hostname))


class UserNamespacesTest(RangesMixin, base.RTServersTestBase):
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        self.start_compute()

    def test_each_server_has_its_own(self):
        """Plain ones, which live on the same host, too."""
        rt, plain = self.rt_flavor(), self.plain_flavor()
        servers = [self.create(each) for each in (rt, plain, rt, plain)]
        self.assertEqual([0, 1, 2, 3], [*map(self.number, servers)])
        self.assertEqual(set(), self.mounted)
        # At every start, and while they are stopped.
        before = len(self.mapped)
        for server in servers[:2]:
            self._reboot_server(server, hard=True)
            self._stop_server(server)
            servers.append(self.create(plain))
            self._start_server(server)
        self.assertEqual([0, 1, 2, 3, 4, 5], [*map(self.number, servers)])
        self.assertEqual(before + 6, len(self.mapped))
        self.assertEqual(set(), self.mounted)
        # Not before a server is deleted, and a restart loses nothing.
        self.restart_compute_service('compute1')
        self._delete_server(servers.pop(0))
        servers.extend(self.create(plain) for _ in range(2))
        self.assertEqual([1, 2, 3, 4, 5, 0, 6], [*map(self.number, servers)])

    def test_exhausted(self):
        """Refused with the numbers; nothing is left and nobody is hurt."""
        self.flags_of_ours(id_pool=f'{_FIRST}:65536')
        self.restart_compute_service('compute1')
        first = self.create(self.rt_flavor())
        server = self.create(self.rt_flavor('100/1000'), state='ERROR')
        fault = base.fault_of(server)
        self.assertIn('asked for 65536 user IDs, free 0 of 1 range', fault)
        self.assertIn(f'id_pool = {_FIRST}:65536', fault)
        self.assert_nothing_left(of=[server])
        # Nova tells the user of a plain server less than the log.
        plain = self.create(self.plain_flavor(), state='ERROR')
        self.assertIn(
            f'{plain["id"]} was re-scheduled: asked for 65536 user '
            'IDs, free 0 of 1',
            self.stdlog.logger.output,
        )
        self.assert_nothing_left(of=[plain])
        self.assert_held(first)
        self._reboot_server(first, hard=True)
        self.assertEqual(0, self.number(first))
        self._delete_server(first)
        self.assertEqual(0, self.number(self.create(self.rt_flavor())))

    def test_what_was_kept_is_no_more_than_a_wish(self):
        """Of another host, of another server, or of nobody who means well."""
        flavor = self.plain_flavor()
        other, server = self.create(flavor), self.create(flavor)
        for text in (
            str(self.range_of(other)), '0', '100000', str(_FIRST + 1),
            str(_FIRST - 65536), '-1', '1e9', 'x' * 255, '\u0663', '',
        ):  # fmt: skip
            instance = self.instance(server)
            instance.system_metadata[id_ranges.KEY] = text
            instance.save()
            self._reboot_server(server, hard=True)
            self.assertEqual(1, self.number(server), text)

    def test_maps_of_an_earlier_release(self):
        """Other servers share them until their next start."""
        old, server = (self.create(self.plain_flavor()) for _ in range(2))
        domain = self.guest(old)._domain
        domain.raw_xml = domain.raw_xml.replace(str(_FIRST), '100000')
        self._reboot_server(server, hard=True)
        self.assertEqual(1, self.number(server))
        self._reboot_server(old, hard=True)
        self.assertEqual(0, self.number(old))

    def test_tasks_that_could_never_be_real_time(self):
        server = self.create(self.rt_flavor(policy='other'), state='ERROR')
        self.assertIn('rt:policy=other', base.fault_of(server))
        self.assertEqual([], self.containers.started)
        self.assert_nothing_left(of=[server])

    def test_owners_cannot_be_mapped(self):
        """Nothing is started with the wrong owners."""
        running = self.create(self.rt_flavor())
        self.containers.started.clear()
        with fixtures.MockPatch(
            'nova_rt.host.files.Files.map_owners',
            side_effect=OSError(errno.EINVAL, 'no'),
        ):
            server = self.create(self.rt_flavor(), state='ERROR')
            self._reboot_server(running, hard=True, expected_state='ERROR')
        self.assertIn('cannot map the owners', base.fault_of(server))
        self.assertEqual([], self.containers.started)
        self.assert_nothing_left(of=[server])


class MovesTest(RangesMixin, moves.MovesTestBase):
    """Servers come with the range of another host, which means nothing."""

    def test_resize_on_the_same_host(self):
        for flavors in (
            (self.rt_flavor('100/1000'), self.rt_flavor('200/1000')),
            (self.plain_flavor(), self.plain_flavor()),
        ):
            server = self.create(flavors[0])
            host = self.host_of(server)
            self.stay(host)
            before = self.range_of(server, host)
            server = self.resize(server, flavors[1])
            self.assertEqual(before, self.range_of(server, host))
            server = self.revert(server)
            self.assertEqual(before, self.range_of(server, host))
            self.confirm(self.resize(server, flavors[1]))
            self.assertEqual(before, self.range_of(server, host))
            self.enable(self.other(host))

    def test_other_host(self):
        here, there = moves.HOSTS
        server = self.create(self.plain_flavor(), host=here)
        for _ in range(2):
            self.create(self.plain_flavor(), host=there)
        moved = self.create(self.plain_flavor(), host=here)
        self.assertEqual(1, self.number(moved, here))
        moved = self.migrate(moved, there)
        self.assertEqual(2, self.number(moved, there))
        moved = self.confirm(moved)
        self.assertEqual(0, self.number(server, here))
        self.assertEqual(
            1, self.number(self.create(self.plain_flavor(), host=here), here)
        )


class StartWithoutTest(base.RTServersTestBase):
    """Errors of nova-rt-compute about IDs that do not protect the host."""

    def test_ranges_that_do_not_protect(self):
        """Nor those that all containers would share."""
        for ours, theirs, texts in (
            ('', {}, ('root of this host', 'allow_host_root')),
            ('0:65536', {}, ('id_pool = 0:65536',)),
            *(
                (self.ID_POOL, maps, ('[libvirt] uid_maps', '[nova_rt] id_po'))
                for maps in (
                    {'uid_maps': ['0:100000:65536'],
                     'gid_maps': ['0:100000:65536']},
                    {'uid_maps': ['0:100000:65536']},
                    {'gid_maps': ['x']},
                )
            ),
        ):  # fmt: skip
            with self.case(ours, theirs):
                self.flags_of_ours(id_pool=ours)
                self.flags(
                    **{'uid_maps': [], 'gid_maps': []} | theirs,
                    group='libvirt',
                )
                self.assert_not_started(*texts)

    def test_helper_with_another_configuration(self):
        refusal = exception.HostNotPrepared('pools differ')
        with fixtures.MockPatch(
            'nova_rt.host.files.Files.check_mount_helper', side_effect=refusal
        ):
            self.assert_not_started('pools differ')

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
        # Without maps, it gives nothing away.
        self.flags_of_ours(id_pool='', allow_host_root=True)
        self.start_compute()

    def test_operator_insists(self):
        self.flags_of_ours(id_pool='', allow_host_root=True)
        self.start_compute()
        server = self.create(self.rt_flavor(policy='other'))
        self.assert_held(server)
        self.assertEqual([], self.mapped)
        self.assertNotIn('<idmap>', self.guest(server).get_xml_desc())

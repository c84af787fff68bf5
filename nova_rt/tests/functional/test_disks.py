# SPDX-License-Identifier: Apache-2.0
"""The disk of a server that moves, of ordinary flavors as well.

All hosts of these tests share what they store; what is sent by SSH is in the
unit tests of the driver.
"""

from nova.virt.libvirt import driver as nova_driver

from nova_rt.tests.functional import base


class DisksTestBase(base.RTServersTestBase):
    ADMIN_API = True
    CAST_AS_CALL = False
    HOSTS = ('compute1', 'compute2')

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        for hostname in self.HOSTS:
            self.start_compute(hostname)
        self.server = self.create(self.plain_flavor())
        self.path = self.disk(self.instance(self.server))
        self.old = self.path.parent.with_name(
            self.path.parent.name + '_resize'
        )
        self.path.write_text('its own')

    def assert_disk(self):
        self.assertEqual('its own', self.path.read_text())
        self.assertEqual(set(), self.mounted)


class DisksTest(DisksTestBase):
    def test_migration(self):
        """Reverted, then confirmed."""
        first = self.instance(self.server).host
        self._migrate_server(self.server)
        self.path.write_text('of the move')
        self._revert_resize(self.server)
        self.assertEqual(first, self.instance(self.server).host)
        self.assert_disk()
        self.assertFalse(self.old.exists())
        self._migrate_server(self.server)
        self.assertNotEqual(first, self.instance(self.server).host)
        self.assert_disk()
        self._confirm_resize(self.server)
        self.assert_disk()
        self.assertFalse(self.old.exists())
        for hard in (True, False):
            self._reboot_server(self.server, hard=hard)
            self.assert_disk()

    def test_disk_that_is_left_behind(self):
        """As by Nova's own driver: nothing is made in its place."""
        self.stub_out(
            'nova_rt.lxc.containers.ContainerDriver'
            '._get_instance_disk_info_from_config',
            nova_driver.LibvirtDriver._get_instance_disk_info_from_config,
        )
        self.ask_for(self.server, 'migrate', state='ERROR')
        self.assertFalse(self.path.exists())
        self.assertEqual('its own', (self.old / 'disk').read_text())

    def test_hosts_that_map_fewer_owners(self):
        """Refused before the server is stopped."""
        first = self.instance(self.server).host
        self.useFixture(self.owners_of_others())
        failed = self.ask_in_vain(
            self.server, 'migrate', None, 'compute_prep_resize'
        )
        self.assertIn('0-99999', failed['details'])
        self.wait_idle(self.server)
        self.assertEqual(first, self.instance(self.server).host)
        self.assert_disk()


class OneHostTest(DisksTestBase):
    HOSTS = ('compute1',)

    def test_larger(self):
        self._resize_server(
            self.server, self._create_flavor(memory_mb=64, vcpu=1, disk=20)
        )
        self.assert_disk()
        self._confirm_resize(self.server)
        self.assert_disk()
        self.assertFalse(self.old.exists())

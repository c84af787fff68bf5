# SPDX-License-Identifier: Apache-2.0
"""Root disks are where their servers are: real images, moved by Nova's code.

Two machines take turns at having the directory of instances; what Nova sends
to the other one by SSH is copied.
"""

import json
import os
import pathlib
import shutil
import subprocess
from unittest import mock

import fixtures
from nova import context, exception, objects, test
from nova.compute import task_states
from nova.tests import fixtures as nova_fixtures
from nova.tests.unit import fake_instance
from nova.virt import fake
from nova.virt.libvirt import blockinfo
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver as nova_driver

from nova_rt import id_pool
from nova_rt.lxc import containers, disks, id_ranges, user_namespaces
from nova_rt.tests.fixtures import disks as real

#: The unit that flavors count root disks in: small ones will do.
_GIB = 32 << 20
_HERE, _THERE = '192.0.2.1', '192.0.2.2'
_VOLUME = {
    'block_device_mapping': [
        {'boot_index': 0, 'mount_device': '/dev/sda', 'connection_info': {}}
    ]
}


class Machine(test.NoDBTestCase):
    """A driver, and a server whose container runs."""

    FORMAT = disks.RAW

    def setUp(self):
        super().setUp()
        self.patch('oslo_utils.units.Gi', _GIB)
        self.useFixture(nova_fixtures.PrivsepFixture())
        self.useFixture(nova_fixtures.LibvirtFixture())
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.instances = self.top / 'instances'
        self.instances.mkdir()
        self.elsewhere = self.top / 'elsewhere'
        self.elsewhere.mkdir()
        self.flags(instances_path=str(self.instances))
        self.flags(virt_type='lxc', group='libvirt')
        self.host_makes(self.FORMAT)
        self.image = self.top / 'image'
        real.make_image(self.image)
        self.fetched = []
        self.patch('nova.virt.libvirt.utils.fetch_image', self.fetch)
        self.driver = containers.ContainerDriver(fake.FakeVirtAPI(), False)
        self.ctxt = context.get_admin_context()
        self.instance = self.make_instance()
        self.path = self.instances / self.instance.uuid
        self.disk = self.path / 'disk'
        self.running = True
        self.powered_off = 0
        for name, replacement in (
            ('get_host_ip_addr', lambda: _HERE),
            ('power_off', self.power_off),
            ('unplug_vifs', mock.Mock()),
            ('_get_guest_xml', mock.Mock()),
            ('_create_guest_with_network', mock.Mock()),
            ('_ensure_console_log_for_instance', mock.Mock()),
            ('_get_all_assigned_mediated_devices', mock.Mock(return_value={})),
            ('_get_existing_guest_config', mock.Mock()),
        ):
            self.patch_object(self.driver, name, replacement)
        self.patch_object(self.driver._host, 'get_guest', self.get_guest)
        self.patch_object(self.driver, '_remotefs', Remote(self))
        self.patch(
            'nova.virt.libvirt.volume.remotefs.RemoteFilesystem.copy_file',
            lambda this, *args, **kwargs: Remote(self).copy_file(*args),
        )
        self.create()

    def patch(self, name, replacement):
        self.useFixture(fixtures.MonkeyPatch(name, replacement))

    def patch_object(self, thing, name, replacement):
        self.useFixture(fixtures.MockPatchObject(thing, name, replacement))

    def host_makes(self, disk_format):
        self.flags(use_cow_images=True)
        self.flags(images_type=disk_format, group='libvirt')

    @staticmethod
    def flavor(root_gb):
        return objects.Flavor(
            id=root_gb, flavorid=str(root_gb), name=f'of {root_gb}',
            memory_mb=64, vcpus=1, root_gb=root_gb, ephemeral_gb=0, swap=0,
            extra_specs={},
        )  # fmt: skip

    def make_instance(self, root_gb=1):
        instance = fake_instance.fake_instance_obj(
            self.ctxt,
            flavor=self.flavor(root_gb),
            image_ref='155d900f-4e14-4e4c-a73d-069cbf4541e6',
            expected_attrs=['system_metadata'],
            kernel_id=None,
            ramdisk_id=None,
        )
        instance.save = mock.Mock()
        instance.trusted_certs = None
        instance.system_metadata['image_base_image_ref'] = instance.image_ref
        return instance

    def fetch(self, *, target, image_id, **kwargs):
        self.fetched.append(image_id)
        shutil.copy(self.image, target)

    def get_guest(self, instance):
        config = vconfig.LibvirtConfigGuest()
        root = vconfig.LibvirtConfigGuestFilesys()
        root.source_dir = str(self.path / 'rootfs')
        config.add_device(root)
        parsed = vconfig.LibvirtConfigGuest()
        config.name, config.uuid, config.virt_type = 'x', 'y', 'lxc'
        config.os_type, config.memory, config.vcpus = 'exe', 64, 1
        parsed.parse_str(config.to_xml())
        return mock.Mock(
            get_config=lambda: parsed, is_active=lambda: self.running
        )

    def power_off(self, instance, timeout=0, retry_interval=0):
        """The disk is where it was; nothing is copied of a running one."""
        self.assertTrue(self.disk.exists())
        self.assertFalse(self.resized.exists())
        self.assertEqual([], list(self.elsewhere.glob('*/disk')))
        real.write(self.disk, 'written last', base=self.base)
        self.running = False
        self.powered_off += 1

    @property
    def resized(self):
        return self.path.with_name(self.path.name + '_resize')

    @property
    def base(self):
        """The backing file, where the disk has one."""
        found = list((self.instances / '_base').glob('*'))
        return found[0] if self.FORMAT == disks.QCOW2 else None

    def create(self):
        """As spawn() does."""
        self.driver._create_image(self.ctxt, self.instance, self.mapping())

    def mapping(self):
        return blockinfo.get_disk_info(
            'lxc', self.instance, self.instance.image_meta, {}
        )['mapping']

    def other_machine(self):
        """From now on, this is the machine that the disk was sent to."""
        aside = self.top / 'aside'
        self.instances.rename(aside)
        self.elsewhere.rename(self.instances)
        aside.rename(self.elsewhere)

    # What Nova's manager does

    def migrate(self, flavor=None, dest=_HERE, volumes=None):
        self.instance.task_state = task_states.RESIZE_MIGRATING
        return self.driver.migrate_disk_and_power_off(
            self.ctxt, self.instance, dest,
            flavor or self.instance.flavor, network_info=[],
            block_device_info=volumes or {},
        )  # fmt: skip

    def finish(self, disk_info, flavor=None, volumes=None):
        self.instance.task_state = task_states.RESIZE_FINISH
        self.instance.old_flavor = self.instance.flavor
        self.instance.new_flavor = flavor or self.instance.flavor
        if flavor:
            self.instance.flavor = flavor
        self.driver.finish_migration(
            self.ctxt, objects.Migration(source_compute='here'),
            self.instance, disk_info, [], self.instance.image_meta, True, {},
            block_device_info=volumes or {}, power_on=False,
        )  # fmt: skip

    def revert(self):
        self.driver.finish_revert_migration(
            self.ctxt, self.instance, [],
            objects.Migration(source_compute='here'), power_on=False,
        )  # fmt: skip

    def confirm(self):
        self.driver.confirm_migration(
            self.ctxt, objects.Migration(), self.instance, []
        )

    # What became of it

    def assert_disk(self, disk_format=None, gibibytes=1):
        """It is there, as large as it should be, with what was written."""
        disk_format = disk_format or self.FORMAT
        info = disks.describe(str(self.disk))
        self.assertEqual(disk_format, info['type'])
        self.assertEqual(gibibytes * _GIB, info['virt_disk_size'])
        found = json.loads(
            real.run('qemu-img', 'info', '--output=json', self.disk)
        )
        self.assertEqual(disk_format, found['format'])
        self.assertEqual('written last', real.read(self.disk, disk_format))
        return info

    def files(self):
        """List the files that are there, except in the shared directories."""
        return sorted(
            str(path.relative_to(self.instances))
            for path in self.instances.rglob('*')
            if path.is_file()
            and path.relative_to(self.instances).parts[0]
            not in ('_base', 'locks')
        )


class Remote:
    """The other machine, as Nova reaches it by SSH."""

    def __init__(self, this):
        self.this = this

    def there(self, path):
        relative = pathlib.Path(path).relative_to(self.this.instances)
        return self.this.elsewhere / relative

    def create_dir(self, host, path, **kwargs):
        self.this.assertEqual(_THERE, host)
        self.there(path).mkdir(parents=True)

    def create_file(self, host, path, **kwargs):
        self.there(path).touch()

    def remove_file(self, host, path, **kwargs):
        self.there(path).unlink()

    def remove_dir(self, host, path, **kwargs):
        shutil.rmtree(self.there(path))

    def copy_file(self, src, dst):
        host, path = dst.split(':')
        self.this.assertEqual(_THERE, host)
        shutil.copy(src, self.there(path))


class MovesTest(Machine):
    """The disk goes where the server goes."""

    def test_same_host(self):
        """A resize that is reverted, and one that is confirmed."""
        larger = self.flavor(2)
        for end, gibibytes in ((self.revert, 1), (self.confirm, 2)):
            info = self.migrate(larger)
            self.assertFalse(self.running)
            self.finish(info, larger)
            self.assert_disk(gibibytes=2)
            end()
            self.assertFalse(self.resized.exists())
            self.assert_disk(gibibytes=gibibytes)
            self.instance.flavor = self.flavor(1)
            self.running = True

    def test_other_host(self):
        before = self.files()
        info = self.migrate(dest=_THERE)
        self.other_machine()
        self.finish(info)
        self.assert_disk()
        self.assertEqual(before, self.files())
        self.other_machine()
        self.confirm()
        self.assertEqual([], self.files())

    def test_other_host_reverted(self):
        before = self.files()
        info = self.migrate(dest=_THERE)
        self.other_machine()
        self.finish(info)
        self.assertTrue(self.driver.delete_instance_files(self.instance))
        self.assertEqual([], self.files())
        self.other_machine()
        self.revert()
        self.assert_disk()
        self.assertEqual(before, self.files())

    def test_deleted_when_a_resize_was_broken_off(self):
        """Nova takes one of the two directories, and stumbles over it."""
        self.finish(self.migrate())
        deleted = self.path.with_name(self.path.name + '_del')
        shutil.copytree(self.path, deleted)
        self.assertTrue(self.resized.exists())
        # Its disk lives as long as it does.
        self.driver.delete_instance_files(self.instance)
        self.assertTrue(self.resized.exists())
        self.instance.task_state = task_states.DELETING
        self.assertTrue(self.driver.delete_instance_files(self.instance))
        self.assertEqual([], self.files())

    def test_shared_storage(self):
        """Of another host, which sees what this one makes."""
        self.patch_object(
            self.driver, '_is_path_shared_with', lambda dest, path: True
        )
        self.finish(self.migrate(dest=_THERE))
        self.assert_disk()
        self.assertEqual([], os.listdir(self.elsewhere))

    def test_larger_flavor(self):
        larger = self.flavor(2)
        info = self.migrate(larger, dest=_THERE)
        self.other_machine()
        self.finish(info, larger)
        self.assert_disk(gibibytes=2)

    def test_smaller_flavor(self):
        """Refused while the server runs."""
        self.instance.flavor = self.flavor(2)
        refusal = self.assertRaises(
            exception.InstanceFaultRollback, self.migrate, self.flavor(1)
        )
        self.assertIn('resize disk down', str(refusal.inner_exception))
        self.assertEqual(0, self.powered_off)
        self.assertEqual([], os.listdir(self.elsewhere))

    def test_flavor_smaller_than_the_disk(self):
        """Of a server whose flavor bounds nothing."""
        self.driver.delete_instance_files(self.instance)
        self.instance.flavor = self.flavor(3)
        self.create()
        self.instance.flavor = self.flavor(0)
        refusal = self.assertRaises(
            exception.InstanceFaultRollback, self.migrate, self.flavor(2)
        )
        for number in (2 * _GIB, 3 * _GIB):
            self.assertIn(str(number), str(refusal.inner_exception))
        self.assertEqual(0, self.powered_off)

    def test_no_disk(self):
        self.disk.unlink()
        self.assertRaises(exception.InstanceFaultRollback, self.migrate)
        self.assertEqual(0, self.powered_off)

    def test_copy_fails(self):
        """The server has its disk again, and nothing is left elsewhere."""
        before = self.files()

        def full(this, src, dst):
            raise OSError('no space left on device')

        remote = mock.patch.object(Remote, 'copy_file', full)
        with remote:
            self.assertRaises(OSError, self.migrate, dest=_THERE)
        self.assertEqual(before, self.files())
        self.assert_disk()
        self.assertEqual([], list(self.elsewhere.rglob('*disk*')))

    def test_disk_does_not_come(self):
        """From a host with Nova's own driver, which finds no disk."""
        self.patch_object(
            self.driver,
            '_get_instance_disk_info',
            lambda *args: nova_driver.LibvirtDriver._get_instance_disk_info(
                self.driver, *args
            ),
        )
        self.patch_object(
            self.driver,
            '_get_instance_disk_info_from_config',
            lambda *args: (
                nova_driver.LibvirtDriver._get_instance_disk_info_from_config(
                    self.driver, *args
                )
            ),
        )
        info = self.migrate(dest=_THERE)
        self.assertEqual('[]', info)
        self.other_machine()
        self.assertRaises(exception.DiskNotFound, self.finish, info)
        self.assertNotIn(f'{self.instance.uuid}/disk', self.files())
        self.other_machine()
        self.revert()
        self.assert_disk()

    def test_image_is_gone(self):
        """A complete disk needs it no more; Nova would fetch it."""
        if self.FORMAT == disks.QCOW2:
            self.skipTest('the image is half of the disk')
        larger = self.flavor(2)
        info = self.migrate(larger, dest=_THERE)
        self.other_machine()
        self.fetched.clear()
        self.finish(info, larger)
        self.assertEqual([], self.fetched)
        self.assert_disk(gibibytes=2)

    def test_the_image_comes_too(self):
        if self.FORMAT == disks.RAW:
            self.skipTest('the disk has none')
        info = self.migrate(dest=_THERE)
        self.other_machine()
        self.finish(info)
        self.assertEqual(2, len(self.fetched))
        self.assertTrue(self.base.exists())


class Qcow2MovesTest(MovesTest):
    FORMAT = disks.QCOW2


class RawTest(Machine):
    def test_the_file_system_grows(self):
        self.assertEqual(_GIB, real.file_system_bytes(self.disk))
        larger = self.flavor(2)
        self.finish(self.migrate(larger), larger)
        self.assertEqual(2 * _GIB, real.file_system_bytes(self.disk))

    def test_to_a_host_of_the_other_format(self):
        info = self.migrate(dest=_THERE)
        self.other_machine()
        self.host_makes(disks.QCOW2)
        larger = self.flavor(2)
        self.finish(info, larger)
        self.assert_disk(disks.QCOW2, gibibytes=2)


class Qcow2Test(Machine):
    FORMAT = disks.QCOW2

    def test_to_a_host_of_the_other_format(self):
        info = self.migrate(dest=_THERE)
        self.other_machine()
        self.host_makes(disks.RAW)
        larger = self.flavor(2)
        self.finish(info, larger)
        self.assert_disk(disks.RAW, gibibytes=2)
        self.assertEqual('', disks.describe(str(self.disk))['backing_file'])

    def test_reboot_after_a_move_fetches_the_image(self):
        """Nova's hard reboot mends what it knows of."""
        self.finish(self.migrate())
        self.base.unlink()
        config = self.get_guest(self.instance).get_config()
        self.assertRaises(
            subprocess.CalledProcessError, real.read, self.disk, 'qcow2'
        )
        found = self.driver._get_instance_disk_info_from_config(config, {})
        self.driver._create_images_and_backing(
            self.ctxt, self.instance, str(self.path), found
        )
        self.assert_disk()


class DescribeTest(Machine):
    """The information on disks that the rest of Nova reads."""

    def info(self, volumes=None):
        config = self.get_guest(self.instance).get_config()
        return self.driver._get_instance_disk_info_from_config(config, volumes)

    def test_root_disk(self):
        (found,) = self.info({})
        used = self.disk.stat().st_blocks * 512
        self.assertEqual(
            {
                'type': 'raw', 'path': str(self.disk),
                'virt_disk_size': _GIB, 'backing_file': '',
                'disk_size': used, 'over_committed_disk_size': _GIB - used,
            },
            found,
        )  # fmt: skip

    def test_no_disk(self):
        """A volume, or the domain of a server that Nova has no more.

        If the disk is gone, Nova's audit knows the error, and goes on.
        """
        self.assertEqual(1, len(self.info(None)))
        self.disk.unlink()
        self.assertEqual([], self.info(_VOLUME))
        self.assertEqual([], self.info(None))
        self.assertRaises(exception.DiskNotFound, self.info, {})

    def test_notes_that_cannot_be_read(self):
        notes = self.path / 'disk.info'
        for text in ('{', '[]', json.dumps({str(self.disk): 'vmdk'})):
            notes.write_text(text)
            self.assertRaises(exception.InvalidDiskInfo, self.info, {})

    def test_raw_disk_that_looks_like_qcow2(self):
        """Its user wrote that, with a backing file of the host in it."""
        with open(self.disk, 'r+b') as file:
            file.write(b'QFI\xfb')
        (found,) = self.info({})
        self.assertEqual('raw', found['type'])
        self.assertEqual('', found['backing_file'])

    def test_no_files(self):
        """Nova refuses to migrate these itself."""
        self.flags(images_type='lvm', group='libvirt')
        self.assertEqual([], self.info({}))

    def test_over_committed(self):
        domain = mock.Mock(UUIDString=lambda: self.instance.uuid)
        self.patch_object(
            self.driver._host, 'list_instance_domains', lambda **kw: [domain]
        )
        guest = self.get_guest(self.instance)
        guest.uuid = self.instance.uuid
        self.patch(
            'nova.virt.libvirt.guest.Guest', mock.Mock(return_value=guest)
        )
        self.patch(
            'nova.objects.InstanceList.get_by_filters',
            lambda *args, **kwargs: [self.instance],
        )
        self.patch(
            'nova.objects.BlockDeviceMappingList.bdms_by_instance_uuid',
            lambda *args: {},
        )
        (found,) = self.info({})
        total = self.driver._get_disk_over_committed_size_total
        self.assertEqual(found['over_committed_disk_size'], total())
        self.disk.unlink()
        self.assertEqual(0, total())


class DevicesTest(Machine):
    """The devices that are attached and mounted, of this server alone."""

    def setUp(self):
        super().setUp()
        self.shown = {}
        self.mounted = set()
        self.detached = []
        devices = self.driver._rt_devices
        self.patch_object(
            devices,
            'find',
            lambda image: [
                name for name, path in self.shown.items() if path == image
            ],
        )
        self.patch_object(devices, 'is_mounted', self.mounted.__contains__)
        self.patch('nova_rt.lxc.containers._SETTLE_S', 0.05)
        self.patch('nova.virt.disk.api.clean_lxc_namespace', mock.Mock())
        self.patch('nova.virt.disk.api.teardown_container', self.detach)

    def detach(self, container_dir, container_root_device=None):
        self.assertEqual(str(self.path / 'rootfs'), container_dir)
        self.detached.append(container_root_device)
        if container_root_device not in self.mounted:
            self.shown.pop(container_root_device, None)

    def note(self, device):
        self.instance.system_metadata['rootfs_device_name'] = device

    def test_its_own(self):
        self.shown = {'/dev/loop3': str(self.disk)}
        self.note('/dev/loop3')
        self.driver._teardown_container(self.instance)
        self.assertEqual(['/dev/loop3'], self.detached)
        self.assertNotIn('rootfs_device_name', self.instance.system_metadata)

    def test_of_another_host(self):
        """The name came with the server; here it is another server's."""
        other = '/dev/loop3'
        self.shown = {other: '/instances/other/disk'}
        self.mounted.add(other)
        self.note(other)
        self.driver._teardown_container(self.instance)
        self.assertEqual([], self.detached)
        self.assertEqual({other: '/instances/other/disk'}, self.shown)

    def test_after_a_reboot_of_the_host(self):
        """Device names have gone round; it is another one now."""
        self.shown = {
            '/dev/nbd3': '/instances/other/disk',
            '/dev/nbd4': str(self.disk),
        }
        self.note('/dev/nbd3')
        self.driver._teardown_container(self.instance)
        self.assertEqual(['/dev/nbd4'], self.detached)

    def test_still_mounted(self):
        """The kernel detaches a loop device later; NBD would lose data."""
        self.shown = {
            '/dev/loop3': str(self.disk),
            '/dev/nbd4': str(self.disk),
        }
        self.mounted.update(self.shown)
        self.driver._teardown_container(self.instance)
        self.assertEqual(['/dev/loop3'], self.detached)

    def test_nothing_is_copied_before_all_is_written(self):
        self.shown = {'/dev/loop3': str(self.disk)}
        refusal = self.assertRaises(
            exception.InstanceFaultRollback, self.migrate, dest=_THERE
        )
        self.assertIn('/dev/loop3', str(refusal.inner_exception))
        self.assertTrue(self.disk.exists())
        self.assertEqual([], list(self.elsewhere.rglob('disk')))
        # The next try finds it at rest.
        self.shown.clear()
        self.running = True
        self.assertTrue(self.migrate())

    def test_attached_by_a_start_that_was_broken_off(self):
        """Its server is deleted; what is mounted or another's stays."""
        self.shown = {
            '/dev/loop3': str(self.disk),
            '/dev/loop4': '/instances/other/disk',
            '/dev/nbd4': str(self.disk),
        }
        self.mounted.add('/dev/nbd4')
        self.assertTrue(self.driver.delete_instance_files(self.instance))
        self.assertEqual(['/dev/loop3'], self.detached)

    def test_a_running_disk_can_be_looked_at(self):
        self.shown = {'/dev/loop3': str(self.disk)}
        (found,) = self.driver._get_instance_disk_info(self.instance, {})
        self.assertEqual(str(self.disk), found['path'])

    def mount(self):
        self.patch(
            'os.path.ismount', lambda path: str(path).endswith('rootfs')
        )

    def test_a_mounted_root_is_not_removed(self):
        """It may be a volume, whose files would go with the directory."""
        self.mount()
        self.assertFalse(self.driver.delete_instance_files(self.instance))
        self.assertRaises(
            exception.InstanceFaultRollback,
            self.driver._cleanup_failed_instance_base,
            str(self.path),
        )
        self.assertTrue(self.disk.exists())

    def test_a_mounted_root_is_not_moved(self):
        self.mount()
        self.patch_object(self.driver, '_disconnect_volume', mock.Mock())
        self.assertRaises(
            exception.InstanceFaultRollback, self.migrate, volumes=_VOLUME
        )
        self.assertTrue(self.path.exists())


class OwnersTest(Machine):
    """A host knows whose files it can run."""

    def test_start_notes_and_move_checks(self):
        """Of a host that maps nothing, to one that maps a range."""
        with mock.patch.object(
            user_namespaces.disk_api, 'setup_container'
        ) as put:
            put.side_effect = exception.NovaException('enough')
            self.assertRaises(
                exception.NovaException,
                self.driver._create_domain_setup_lxc,
                None, self.instance, self.instance.image_meta, {},
            )  # fmt: skip
        user_namespaces.check_owners(self.driver, self.instance)
        self.driver._rt_ids = id_ranges.IDRanges(
            id_pool.IDPool(id_pool.SIZE, id_pool.SIZE), self.driver._host
        )
        self.assertRaises(
            exception.ComputeResourcesUnavailable,
            user_namespaces.check_owners, self.driver, self.instance,
        )  # fmt: skip
        user_namespaces.check_owners(fake.FakeDriver(None), self.instance)

# SPDX-License-Identifier: Apache-2.0
"""Nova's libvirt driver, with correct handling of containers' root disks.

Nova 34 looks for disks among the ``<disk>`` elements of a domain. A container
has a ``<filesystem>`` instead, so that a resize or cold migration leaves its
root disk behind and makes a new one from the image. Nova also detaches the
loop or NBD device recorded at the last start, even if it shows another disk by
now. All corrections also apply to servers of ordinary flavors.
"""

import os
import shutil
from typing import Any

from nova import exception as nova_exception
from nova.compute import task_states
from nova.virt.disk import api as disk_api
from nova.virt.libvirt import driver
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging
from oslo_serialization import jsonutils

from nova_rt.host import blockdevs
from nova_rt.lxc import disks, user_namespaces

CONF = driver.CONF
LOG = logging.getLogger(__name__)

#: Seconds that the mounts of a container may last after its last process; the
#: kernel writes their data meanwhile.
_SETTLE_S = 60


class ContainerDriver(user_namespaces.UserNamespaceDriver):
    """A LibvirtDriver that keeps the root disks of containers."""

    def __init__(self, virtapi, read_only=False):
        super().__init__(virtapi, read_only)
        self._rt_devices = blockdevs.BlockDevices()

    def init_host(self, host):
        """Set the default format of snapshots to that of Nova's disks.

        Nova takes the format of a snapshot from the domain, where a container
        has none (nova/virt/libvirt/utils.py, find_disk()).
        """
        found = disks.host_format()
        if found is not None:
            CONF.set_default('snapshot_image_format', found, group='libvirt')
        super().init_host(host)

    # Unmounting the root file system

    def _teardown_container(self, instance):
        """Unmount the root of a stopped container, and detach its devices.

        The device recorded by Nova is ignored: since a move or a reboot of the
        host, that name may be the device of another server. Devices are
        detached after the container's own mounts are gone: a process may end
        late, and data that an NBD device has not written by then is lost.
        """
        path = libvirt_utils.get_instance_path(instance)
        rootfs = os.path.join(path, disks.ROOTFS)
        disk_api.clean_lxc_namespace(container_dir=rootfs)
        noted = instance.system_metadata.pop(user_namespaces.DEVICE, None)
        found = self._rt_devices.find(os.path.join(path, 'disk'))
        if noted and not blockdevs.shows_file(noted):
            # A volume, which Nova disconnects next.
            self._rt_devices.wait_until_unmounted(noted, _SETTLE_S)
        for device in found:
            if not self._rt_devices.wait_until_unmounted(device, _SETTLE_S):
                LOG.error('Device %s is still mounted %s s after the end of '
                          'the container', device, _SETTLE_S,
                          instance=instance)  # fmt: skip
                if 'nbd' in device:
                    continue
                # The kernel detaches a loop device when its last mount goes.
            disk_api.teardown_container(
                container_dir=rootfs, container_root_device=device
            )

    # Disk information

    def _get_instance_disk_info_from_config(
        self, guest_config, block_device_info
    ):
        """Add the root disk, unless it is a volume."""
        found = super()._get_instance_disk_info_from_config(
            guest_config, block_device_info
        )
        path = disks.find_root(guest_config)
        if (
            path is None
            or disks.host_format() is None
            or self._is_booted_from_volume(block_device_info)
            # For a domain without a server in Nova, this is unknown.
            or (block_device_info is None and not os.path.exists(path))
        ):
            return found
        return [disks.describe(path), *found]

    def _get_instance_disk_info(self, instance, block_device_info):
        """Wait until an ended container has written all data to its disk.

        :raises InstanceFaultRollback: if its disk is still in use after that
        """
        path = libvirt_utils.get_instance_path(instance)
        if not self._host.get_guest(instance).is_active():
            self._rt_unmount(path)
            left = self._rt_devices.wait_until_detached(
                os.path.join(path, 'disk'), _SETTLE_S
            )
            if left:
                raise nova_exception.InstanceFaultRollback(
                    nova_exception.MigrationError(
                        reason='the root disk is still in use after the end '
                        f'of the container ({", ".join(left)})'
                    )
                )
        return super()._get_instance_disk_info(instance, block_device_info)

    @staticmethod
    def _rt_unmount(directory: str) -> None:
        """Unmount a root file system before its directory is moved or removed.

        :raises InstanceFaultRollback: if it stays mounted
        """
        rootfs = os.path.join(directory, disks.ROOTFS)
        if os.path.ismount(rootfs):
            disk_api.clean_lxc_namespace(container_dir=rootfs)
        if os.path.ismount(rootfs):
            raise nova_exception.InstanceFaultRollback(
                nova_exception.MigrationError(
                    reason='the root file system cannot be unmounted'
                )
            )

    def _rt_detach(self, directory: str) -> None:
        """Detach the devices of a disk that is not mounted.

        An interrupted start leaves such a device.
        """
        for device in self._rt_devices.find(os.path.join(directory, 'disk')):
            if not self._rt_devices.is_mounted(device):
                disk_api.teardown_container(
                    container_dir=os.path.join(directory, disks.ROOTFS),
                    container_root_device=device,
                )

    # Moves of the disk

    def migrate_disk_and_power_off(
        self, context, instance, dest, flavor, network_info,
        block_device_info=None, timeout=0, retry_interval=0,
    ):  # fmt: skip
        """Refuse a flavor that the disk does not fit into before the stop.

        Nova compares flavors only, but the disk of a flavor with ``root_gb=0``
        is as large as its image.
        """
        if not self._is_booted_from_volume(block_device_info):
            path = libvirt_utils.get_instance_path(instance)
            try:
                disks.check_fits(
                    os.path.join(path, 'disk'), instance.flavor, flavor
                )
            except nova_exception.NovaException as err:
                raise nova_exception.InstanceFaultRollback(err) from err
        return super().migrate_disk_and_power_off(
            context, instance, dest, flavor, network_info, block_device_info,
            timeout, retry_interval,
        )  # fmt: skip

    def finish_migration(
        self, context, migration, instance, disk_info, network_info,
        image_meta, resize_instance, allocations, block_device_info=None,
        *args, **kwargs,
    ):  # fmt: skip
        """Adopt the transferred disk; never make a new one in its place.

        :raises DiskNotFound: if it was not transferred; the old one is still
            in place
        """
        found = jsonutils.loads(disk_info)
        root = [
            each
            for each in found
            if os.path.basename(each['path']) == 'disk'
        ]  # fmt: skip
        wanted = disks.host_format()
        if wanted and not self._is_booted_from_volume(block_device_info):
            path = os.path.join(
                libvirt_utils.get_instance_path(instance), 'disk'
            )
            if not os.path.exists(path):
                raise nova_exception.DiskNotFound(location=path)
            has = disks.read_format(path)
            if has != wanted:
                # The backing file that this host's image backend expects.
                self._create_images_and_backing(
                    context, instance, os.path.dirname(path), root,
                    fallback_from_host=migration.source_compute,
                )  # fmt: skip
                disks.convert(path, has, wanted)
        # Nova would turn raw disks into qcow2 if the option use_cow_images has
        # its default.
        rest = [each for each in found if each not in root]
        super().finish_migration(
            context, migration, instance, jsonutils.dumps(rest), network_info,
            image_meta, resize_instance, allocations, block_device_info,
            *args, **kwargs,
        )  # fmt: skip

    def finish_revert_migration(
        self, context, instance, network_info, migration,
        block_device_info=None, power_on=True, *args, **kwargs,
    ):  # fmt: skip
        """Resume an interrupted revert at any point.

        Its container may run already, or its disk may be mounted.
        """
        path = libvirt_utils.get_instance_path(instance)
        if not os.path.exists(f'{path}_resize'):
            if self._rt_is_active(instance):
                return
            self._rt_unmount(path)
            self._rt_detach(path)
        super().finish_revert_migration(
            context, instance, network_info, migration, block_device_info,
            power_on, *args, **kwargs,
        )  # fmt: skip

    def _rt_is_active(self, instance: Any) -> bool:
        try:
            active: bool = self._host.get_guest(instance).is_active()
        except nova_exception.InstanceNotFound:
            return False
        return active

    def _try_fetch_image_cache(
        self, image, fetch_func, context, filename, image_id, instance, size,
        fallback_from_host=None,
    ):  # fmt: skip
        """Skip the image of a disk that is complete without it.

        After a move Nova would fetch the image for its size alone, and fail if
        it was deleted meanwhile.
        """
        if disks.needs_no_base(image):
            if size:
                image.resize_image(size)
            return
        super()._try_fetch_image_cache(
            image, fetch_func, context, filename, image_id, instance, size,
            fallback_from_host,
        )  # fmt: skip

    def _cleanup_failed_instance_base(self, inst_base):
        """Unmount the root file system first, to remove only its disk."""
        self._rt_unmount(inst_base)
        super()._cleanup_failed_instance_base(inst_base)

    def delete_instance_files(self, instance):
        """Unmount the root file system of a deleted server, maybe a volume.

        Nova renames a server's directory before it deletes it, and gives up if
        the new name is taken. An interrupted resize leaves a directory under
        each of two names, as does an interrupted deletion. As long as the
        server exists, one of them holds its disk.
        """
        path = libvirt_utils.get_instance_path(instance)
        names = [path + suffix for suffix in ('_del', '_resize', '')]
        try:
            for name in names:
                self._rt_unmount(name)
                self._rt_detach(name)
            if _is_deleted(instance):
                found = [name for name in names if os.path.exists(name)]
                for name in found[:-1]:
                    shutil.rmtree(name)
        except (nova_exception.InstanceFaultRollback, OSError) as err:
            LOG.error('Could not remove files of server: %s', err,
                      instance=instance)  # fmt: skip
            return False
        return super().delete_instance_files(instance)


def _is_deleted(instance: Any) -> bool:
    """Tell whether a server is deleted, or being deleted."""
    return any(
        instance.obj_attr_is_set(name) and getattr(instance, name) == value
        for name, value in (
            ('deleted', True), ('task_state', task_states.DELETING),
        )
    )  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Nova's libvirt driver, with a user namespace for each container.

Nova 34 maps the users of all containers to the same IDs of the host, and tries
to change the owners of every file on the disk. It fails, since the arguments
cannot be sent to its privileged helper. Here each server has a range of IDs of
its own, and an ID-mapped mount replaces the change of owners. This applies to
servers of ordinary flavors, too.
"""

from collections.abc import Iterator
import contextlib
import os
from typing import Any

from nova import block_device
from nova.virt import driver as nova_driver
from nova.virt.disk import api as disk_api
from nova.virt.image import model as imgmodel
from nova.virt.libvirt import utils as libvirt_utils
from oslo_utils import excutils, fileutils

from nova_rt import exception, faults
from nova_rt.host import idmaps
from nova_rt.lxc import disk_owners, disks, id_ranges, reconnecting
from nova_rt.reservation import extra_specs, request

#: Nova's name for the device of the root disk in system_metadata.
DEVICE = 'rootfs_device_name'


class UserNamespaceDriver(reconnecting.ReconnectingDriver):
    """A LibvirtDriver with a range of IDs for each container."""

    def __init__(self, virtapi, read_only=False):
        super().__init__(virtapi, read_only)
        #: None if containers have no user namespaces.
        self._rt_ids: id_ranges.IDRanges | None = None

    @contextlib.contextmanager
    def _rt_id_range(self, instance: Any) -> Iterator[int | None]:
        """Reserve a range of IDs for a starting server.

        :returns: its first ID; None if containers have no user namespaces
        :raises ReservationNotHeld: if none can be reserved
        """
        with contextlib.ExitStack() as stack:
            first = None
            if self._rt_ids is not None:
                try:
                    first = stack.enter_context(
                        self._rt_ids.starting(instance)
                    )
                except exception.HostError as err:
                    raise faults.ReservationNotHeld(
                        reason=faults.tell(err)
                    ) from err
            yield first

    def _create_guest_with_network(
        self, context, xml, instance, *args, **kwargs
    ):
        """Choose the IDs before the root file system is mounted."""
        with self._rt_id_range(instance):
            return super()._create_guest_with_network(
                context, xml, instance, *args, **kwargs
            )

    def _create_guest(self, context, xml, instance, *args, **kwargs):
        """Add the ID map to the domain XML; every start calls this method."""
        with self._rt_id_range(instance) as first:
            if first is not None:
                xml = id_ranges.write_id_map(xml, first)
            return super()._create_guest(
                context, xml, instance, *args, **kwargs
            )

    def _create_domain_setup_lxc(
        self, context, instance, image_meta, block_device_info
    ):  # fmt: skip
        """Mount the root file system with mapped owners.

        This replaces Nova's method, which changes the owners of every file on
        the disk instead: see :mod:`nova_rt.host.idmaps`.
        """
        disk_owners.note(instance, self._rt_ids is not None)
        if self._rt_ids is None:
            super()._create_domain_setup_lxc(
                context, instance, image_meta, block_device_info
            )
            return
        volume = block_device.get_root_bdm(
            nova_driver.block_device_info_get_mapping(block_device_info)
        )
        if volume:
            self._connect_volume(context, volume['connection_info'], instance)
            image = imgmodel.LocalBlockImage(
                volume['connection_info']['data']['device_path']
            )
        else:
            disk = self.image_backend.by_name(instance, 'disk')
            image = disk.get_model(self._host.get_connection())
        path = os.path.join(
            libvirt_utils.get_instance_path(instance), disks.ROOTFS
        )
        fileutils.ensure_tree(path)
        device = disk_api.setup_container(image, container_dir=path)
        try:
            if device:
                instance.system_metadata[DEVICE] = device
            self._rt_map_owners(instance)
        except Exception:
            with excutils.save_and_reraise_exception():
                self._create_domain_cleanup_lxc(instance)

    def _rt_map_owners(self, instance: Any) -> None:
        try:
            with self._rt_id_range(instance) as first:
                assert first is not None
                idmaps.put_on(instance.uuid, first)
        except exception.HostError as err:
            raise faults.ReservationNotHeld(reason=faults.tell(err)) from err


def check_owners(virt: nova_driver.ComputeDriver, instance: Any) -> None:
    """Require that all files of a server will have owners on this host.

    :param virt: the host's driver; only ours makes containers
    :raises ComputeResourcesUnavailable: as :func:`.disk_owners.check`
    """
    if isinstance(virt, UserNamespaceDriver):
        disk_owners.check(instance, virt._rt_ids is not None)


def check_owners_after_death(
    virt: nova_driver.ComputeDriver, instance: Any
) -> None:
    """Require owners for the files of an evacuated server, if they exist.

    If its disk was lost with the old host, Nova makes a new one from the
    image.

    :param virt: the driver of the new host
    :raises ComputeResourcesUnavailable: as :func:`.disk_owners.check`
    """
    if isinstance(virt, UserNamespaceDriver) and (
        not instance.image_ref or virt.instance_on_disk(instance)
    ):
        check_owners(virt, instance)


def check_request(virt: UserNamespaceDriver, asked: request.Request) -> None:
    """Require that a container of this host can use a reservation.

    :raises InvalidRequest: if its tasks could never become real-time
    """
    if (
        virt._rt_ids is not None
        and asked.policy is extra_specs.TaskPolicy.OTHER
    ):
        # kernel/sched/syscalls.c, user_check_sched_setscheduler():
        # CAP_SYS_NICE counts in the first user namespace alone.
        raise exception.InvalidRequest(
            f'{extra_specs.POLICY}={asked.policy}: in a user namespace '
            'no program may become real-time by itself, so the '
            'reservation would be of no use; take rr or fifo'
        )

# SPDX-License-Identifier: Apache-2.0
"""Root disks of containers, as files.

libvirt knows the root of a container as a directory, where Nova mounts the
disk before each start. Only the files in the directory of the disk describe
it.
"""

import json
import os
from typing import Any

from nova import exception
import nova.conf
from nova.virt import images
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import imagebackend
from oslo_utils import units

CONF = nova.conf.CONF

RAW = 'raw'
QCOW2 = 'qcow2'

#: Name of the mount point of the disk, in the same directory.
ROOTFS = 'rootfs'


def host_format() -> str | None:
    """Return the format of new root disks on this host.

    :returns: None if they are no files
    """
    images_type = CONF.libvirt.images_type
    if images_type == 'default':
        return QCOW2 if CONF.use_cow_images else RAW
    return {'raw': RAW, 'flat': RAW, 'qcow2': QCOW2}.get(images_type)


def find_root(guest: vconfig.LibvirtConfigGuest) -> str | None:
    """Find the file that is mounted as the root of a container.

    :returns: its path, which need not exist; None if there is no such root
    """
    for device in guest.devices:
        if (
            isinstance(device, vconfig.LibvirtConfigGuestFilesys)
            and device.source_type == 'mount'
            and device.target_dir == '/'
            and device.source_dir
        ):
            directory, name = os.path.split(device.source_dir.rstrip('/'))
            if name == ROOTFS:
                return os.path.join(directory, 'disk')
    return None


def read_format(path: str) -> str:
    """Read the format of a disk, as it was recorded at its creation.

    The disk itself is not inspected: the content of a raw disk is its user's.

    :returns: RAW or QCOW2
    :raises InvalidDiskInfo: if the record cannot be read, or has another
        format
    """
    notes = _read_notes(path)
    found = notes.get(path) or _read_moved(notes, path) or host_format()
    if found not in (RAW, QCOW2):
        raise exception.InvalidDiskInfo(
            reason=f'{path} is recorded as {found}, and containers have {RAW} '
            f'or {QCOW2}'
        )
    return found


def _read_moved(notes: dict[str, str], path: str) -> str | None:
    """Find the format of a disk from a host with another directory.

    The recorded formats are transferred with the disk, with its path there.

    :returns: None if there is none
    :raises InvalidDiskInfo: if they disagree
    """
    name = os.path.basename(path)
    found = {
        noted
        for where, noted in notes.items()
        if os.path.basename(where) == name
    }
    if len(found) > 1:
        raise exception.InvalidDiskInfo(
            reason=f'{path} is recorded in {_notes(path)} for other hosts as '
            f'{" and ".join(sorted(map(str, found)))}'
        )
    return found.pop() if found else None


def _read_notes(path: str) -> dict[str, str]:
    """Read the formats recorded by Nova in a server's directory.

    Source: nova/virt/libvirt/imagebackend.py, disk_info_path.

    :returns: path of a disk -> its format
    :raises InvalidDiskInfo: if they cannot be read
    """
    try:
        with open(_notes(path), encoding='utf-8') as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    try:
        notes = json.loads(text or '{}')
        assert isinstance(notes, dict)
    except (ValueError, AssertionError) as err:
        raise exception.InvalidDiskInfo(
            reason=f'cannot read {_notes(path)}'
        ) from err
    return notes


def _notes(path: str) -> str:
    return os.path.join(os.path.dirname(path), 'disk.info')


def describe(path: str) -> dict[str, Any]:
    """Describe a disk in the format of _get_instance_disk_info_from_config().

    :returns: its type, path and sizes in bytes
    :raises DiskNotFound: if there is none
    :raises InvalidDiskInfo: if its recorded format cannot be read or is
        invalid
    """
    try:
        found = os.stat(path)
    except FileNotFoundError as err:
        raise exception.DiskNotFound(location=path) from err
    disk_format = read_format(path)
    used, size, backing = found.st_blocks * 512, found.st_size, None
    if disk_format == QCOW2:
        info = images.qemu_img_info(path, QCOW2)
        used, size, backing = (
            info.disk_size,
            info.virtual_size,
            info.backing_file,
        )
    return {
        'type': disk_format,
        'path': path,
        'virt_disk_size': size,
        'backing_file': os.path.basename(backing or ''),
        'disk_size': used,
        'over_committed_disk_size': max(0, size - used),
    }


def check_fits(path: str, old: Any, new: Any) -> None:
    """Require that a disk fits into the new flavor of its server.

    :param old: the present flavor of the server
    :param new: its new flavor
    :raises ResizeError: if it does not, with the numbers
    :raises DiskNotFound: if there is none
    :raises InvalidDiskInfo: as :func:`describe`
    """
    if host_format() is None:
        return
    size = describe(path)['virt_disk_size']
    wanted = new.root_gb * units.Gi
    if new.root_gb != old.root_gb and 0 < wanted < size:
        raise exception.ResizeError(
            reason=f'the root disk has {size} bytes, and flavor {new.name} '
            f'gives {wanted}: a disk is not made smaller'
        )


def convert(path: str, from_format: str, to_format: str) -> None:
    """Convert a disk to another format, without a backing file.

    :raises ImageUnacceptable: if it cannot be done; the disk is unchanged
    """
    temporary = f'{path}.{to_format}'
    try:
        images.convert_image(path, temporary, from_format, to_format)
        # Between the two steps, a disk that is wrongly recorded as raw can
        # only fail to be mounted. The content of a raw disk is its user's: it
        # must never be recorded as another format.
        if to_format == RAW:
            _write_note(path, to_format)
        os.rename(temporary, path)
        if to_format != RAW:
            _write_note(path, to_format)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _write_note(path: str, disk_format: str) -> None:
    notes = {**_read_notes(path), path: disk_format}
    temporary = f'{_notes(path)}.tmp'
    with open(temporary, 'w', encoding='utf-8') as file:
        json.dump(notes, file)
    os.rename(temporary, _notes(path))


def needs_no_base(image: imagebackend.Image) -> bool:
    """Tell whether a disk exists and is complete without its image.

    :returns: True for a raw disk without a backing file
    """
    return (
        isinstance(image, imagebackend.Flat)
        and image.driver_format == RAW
        and image.exists()
    )

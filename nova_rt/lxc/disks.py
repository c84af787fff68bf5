# SPDX-License-Identifier: Apache-2.0
"""Root disks of containers, as files.

libvirt knows the root of a container as a directory, where Nova mounts the
disk before each start. What the disk is, only the files beside it say.
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

#: Name of the directory, beside the disk, where the disk is mounted.
ROOTFS = 'rootfs'


def host_format() -> str | None:
    """Format of the root disks that this host makes.

    :returns: None if they are no files
    """
    images_type = CONF.libvirt.images_type
    if images_type == 'default':
        return QCOW2 if CONF.use_cow_images else RAW
    return {'raw': RAW, 'flat': RAW, 'qcow2': QCOW2}.get(images_type)


def find_root(guest: vconfig.LibvirtConfigGuest) -> str | None:
    """Path of the file that is mounted as the root of a container.

    :returns: None if it has no such root; the file need not exist
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
    """Format of a disk, as it was noted when it was made.

    Not by looking into it: a raw disk has what its user writes.

    :returns: RAW or QCOW2
    :raises InvalidDiskInfo: if the note cannot be read, or says otherwise
    """
    notes = _read_notes(path)
    found = notes.get(path) or _read_moved(notes, path) or host_format()
    if found not in (RAW, QCOW2):
        raise exception.InvalidDiskInfo(
            reason=f'{path} is noted as {found}, and containers have {RAW} or '
            f'{QCOW2}'
        )
    return found


def _read_moved(notes: dict[str, str], path: str) -> str | None:
    """Format of a disk that came from a host with another directory.

    The notes come with it, and have its path there.

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
            reason=f'{path} is noted in {_notes(path)} for other hosts as '
            f'{" and ".join(sorted(map(str, found)))}'
        )
    return found.pop() if found else None


def _read_notes(path: str) -> dict[str, str]:
    """Read Nova's notes (nova/virt/libvirt/imagebackend.py, disk_info_path).

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
    """Describe a disk as _get_instance_disk_info_from_config() does.

    :returns: its type, path and sizes in bytes
    :raises DiskNotFound: if there is none
    :raises InvalidDiskInfo: if it is not what it was noted to be
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
    """See that a disk has room in the flavor that its server is to have.

    :param old: the flavor that the server has
    :param new: the other one
    :raises ResizeError: if it has not, with the numbers
    :raises DiskNotFound: if there is none
    :raises InvalidDiskInfo: if it is not what it was noted to be
    """
    if host_format() is None:
        return
    size = describe(path)['virt_disk_size']
    wanted = new.root_gb * units.Gi
    if new.root_gb != old.root_gb and 0 < wanted < size:
        raise exception.ResizeError(
            reason=f'its root disk has {size} bytes, and flavor {new.name} '
            f'gives {wanted}: a disk is not made smaller'
        )


def convert(path: str, from_format: str, to_format: str) -> None:
    """Turn a disk into another format, without a backing file.

    :raises ImageUnacceptable: if it cannot be done; the disk is as it was
    """
    temporary = f'{path}.{to_format}'
    try:
        images.convert_image(path, temporary, from_format, to_format)
        # In between, a disk that is noted as raw and is not can only fail to
        # be mounted. What is raw has whatever its user wrote there, and must
        # never be noted as anything else.
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
    """Look whether a disk is there and complete, without its image.

    :returns: whether it is
    """
    return (
        isinstance(image, imagebackend.Flat)
        and image.driver_format == RAW
        and image.exists()
    )

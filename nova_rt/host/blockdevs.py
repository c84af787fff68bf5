# SPDX-License-Identifier: Apache-2.0
"""The block devices of this host that show a disk image, and their mounts.

Nova notes the loop or NBD device of a container's root disk in its database.
That note is stale after a move or a reboot of the host, when the device of
that name may be another server's. This module therefore asks the kernel for
the image behind a device each time. Nothing here needs privileges.
"""

from collections.abc import Iterator
import os
import pathlib
import time

from nova_rt.host.files import Files

#: The kernel shows a file that was removed so.
_REMOVED = ' (deleted)'

_POLL_S = 0.1


class BlockDevices:
    """The loop and NBD devices of this host."""

    def __init__(self, files: Files | None = None) -> None:
        self._files = files or Files()

    def find(self, image: str) -> list[str]:
        """List the devices that show a disk image now.

        :param image: path of the file
        :returns: such as ``/dev/loop7``, by name
        """
        image = os.path.realpath(image)
        return sorted(
            f'/dev/{name}' for name, path in self._shown() if path == image
        )

    def _shown(self) -> Iterator[tuple[str, str]]:
        block = self._files.sys / 'block'
        for path in block.glob('loop*/loop/backing_file'):
            shown = _read(path).rstrip('\n').removesuffix(_REMOVED)
            if shown:
                yield path.parts[-3], shown
        for path in block.glob('nbd*/pid'):
            # The kernel knows the program alone; qemu-nbd's last argument
            # is the image.
            words = _read(
                self._files.proc / _read(path).strip() / 'cmdline'
            ).split('\0')
            name = path.parts[-2]
            if f'/dev/{name}' in words:
                yield from (
                    (name, os.path.realpath(word))
                    for word in words
                    if word.startswith('/') and word != f'/dev/{name}'
                )

    def is_mounted(self, device: str) -> bool:
        """Tell whether a file system of a device is mounted anywhere.

        Mounts of other namespaces count, too, such as that of a container
        that is ending.

        :param device: such as ``/dev/loop7``
        :returns: whether it is mounted, as ext2 to ext4, xfs or btrfs
        """
        name = os.path.basename(os.path.realpath(device))
        file_systems = self._files.sys / 'fs'
        return any(
            True
            for pattern in (f'*/{name}', f'btrfs/*/devices/{name}')
            for _ in file_systems.glob(pattern)
        )

    def wait_until_unmounted(self, device: str, timeout_s: float) -> bool:
        """Wait until all data written to a device has reached it.

        The kernel writes the remaining data at the last unmount.

        :param device: such as ``/dev/loop7``
        :returns: False if the device is still mounted after the timeout
        """
        deadline = time.monotonic() + timeout_s
        while self.is_mounted(device):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def wait_until_detached(self, image: str, timeout_s: float) -> list[str]:
        """Wait until no device shows a disk image.

        :param image: path of the file
        :returns: the devices that still show it after the timeout
        """
        deadline = time.monotonic() + timeout_s
        while (found := self.find(image)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return found


def shows_file(device: str) -> bool:
    """Tell whether a device is of a kind that Nova attaches to a file.

    :returns: True for a loop or NBD device, by its name
    """
    return os.path.basename(device).startswith(('loop', 'nbd'))


def _read(path: pathlib.Path) -> str:
    """Read a file that may be gone by now, or unreadable for this user.

    :returns: an empty text in either case
    """
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ''

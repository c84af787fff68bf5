# SPDX-License-Identifier: Apache-2.0
"""Privileged: from the UUID of a server to the mount of its root.

The directories are opened one in the other, from the configured directory of
the servers, through no link. Later actions use the descriptor: it is
the directory that was judged, even if the path is another by then.
"""

from collections.abc import Iterator
import contextlib
import errno
import os
import re

#: Nova's mount point for the root file system, in a server's directory.
ROOTFS = 'rootfs'

_UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@contextlib.contextmanager
def opened_server(instances: str, server: str) -> Iterator[int]:
    """Open the directory of a server.

    :param instances: directory of all servers; root's word, so that it may be
        a link
    :param server: UUID
    :returns: its descriptor, for as long as the context lasts
    :raises OSError: EACCES if it is no such directory
    """
    if not isinstance(server, str) or not _UUID.fullmatch(server):
        raise refuse(f'{server!r} is no UUID of a server')
    with (
        _opened(instances, None) as top,
        _opened(server, top) as descriptor,
    ):
        if mount_id(descriptor) != mount_id(top):
            raise refuse(f'something is mounted on {instances}/{server}')
        yield descriptor


@contextlib.contextmanager
def opened_root(directory: int, mounted: bool = True) -> Iterator[int]:
    """Open the top of a server's root file system, or its mount point.

    :param directory: descriptor of the server's directory
    :param mounted: whether a root file system must be mounted there
    :returns: its descriptor, for as long as the context lasts
    :raises OSError: EINVAL if nothing is mounted, EBUSY if something is, and
        must not be; EACCES if it is no directory
    """
    with _opened(ROOTFS, directory) as descriptor:
        if mounted and mount_id(descriptor) == mount_id(directory):
            raise OSError(errno.EINVAL, f'nothing is mounted on {ROOTFS}')
        if not mounted and mount_id(descriptor) != mount_id(directory):
            raise OSError(errno.EBUSY, f'something is mounted on {ROOTFS}')
        yield descriptor


@contextlib.contextmanager
def _opened(path: str, directory: int | None) -> Iterator[int]:
    """Open a directory; in another one, it must not be a link."""
    flags = _DIRECTORY if directory is None else _DIRECTORY | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, dir_fd=directory)
    except OSError as err:
        if err.errno in (errno.ELOOP, errno.ENOTDIR):
            raise refuse(f'{path} is no directory') from err
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def mount_id(descriptor: int) -> int:
    """Read which mount a descriptor was opened on.

    :returns: its number, as in /proc/self/mountinfo
    """
    with open(f'/proc/self/fdinfo/{descriptor}', encoding='ascii') as lines:
        for line in lines:
            key, _, value = line.partition(':')
            if key == 'mnt_id':
                return int(value)
    raise OSError(errno.ENOSYS, 'the kernel does not tell mounts apart')


def refuse(reason: str) -> PermissionError:
    """Make the error for a path that is not for nova_rt.

    :returns: EACCES
    """
    return PermissionError(errno.EACCES, reason)

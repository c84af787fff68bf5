# SPDX-License-Identifier: Apache-2.0
"""Privileged: show a container's root file system with mapped owners.

A container in a user namespace sees its root file system through a mount that
maps owners (``mount_setattr(2)``, MOUNT_ATTR_IDMAP; Linux 5.12): a file of
root on the disk belongs to the container's root, and a file that the
container's root makes belongs to root on the disk. Nothing on the disk is
changed, so snapshots and moves need to know nothing of it, and no time is
spent on large images.

Nothing here trusts its caller: the mount point has the name that Nova gives
it, and no map makes anybody of a container root of the host.
"""

import ctypes
import errno
import os
import re
import subprocess

import nova_rt.privsep

# The numbers of new system calls are the same on every architecture.
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOUNT_ATTR_IDMAP = 0x00100000
_UMOUNT_NOFOLLOW = 0x8

#: Where Nova mounts the root file system of a container.
_ROOTFS = re.compile(r'(/[^/\0]+)+/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
                     r'/rootfs')  # fmt: skip

#: One past the largest ID that there is: the largest 32-bit number is none.
_IDS = (1 << 32) - 1

_Maps = list[tuple[int, int, int]]


class _MountAttributes(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = (
        ('attr_set', ctypes.c_uint64),
        ('attr_clr', ctypes.c_uint64),
        ('propagation', ctypes.c_uint64),
        ('userns_fd', ctypes.c_uint64),
    )


@nova_rt.privsep.mount_pctxt.entrypoint
def map_owners(path: str, uid_maps: _Maps, gid_maps: _Maps) -> None:
    """Replace the mount of a container's root by one with mapped owners.

    The mount that was there is gone then; in case of an error it is as it
    was, or gone.

    :param path: the directory ``rootfs`` of a server, a mount point
    :param uid_maps: (first ID on the disk, first ID on the host, count)
    :param gid_maps: the same for groups
    :raises OSError: with the kernel's errno: EINVAL where the file system
        cannot be mounted so, EBUSY if it is in use; EACCES for any other
        path or for a map onto the host's root
    """
    if not _ROOTFS.fullmatch(path) or os.path.realpath(path) != path:
        raise PermissionError(errno.EACCES, f'not a root file system: {path}')
    if not os.path.ismount(path):
        raise OSError(errno.EINVAL, f'nothing is mounted on {path}')
    texts = {'uid_map': _render(uid_maps), 'gid_map': _render(gid_maps)}
    libc = ctypes.CDLL(None, use_errno=True)
    mount = _call(
        libc.syscall,
        _OPEN_TREE,
        _AT_FDCWD,
        os.fsencode(path),
        _OPEN_TREE_CLONE | os.O_CLOEXEC,
    )
    try:
        namespace = _make_user_namespace(texts)
        try:
            attributes = _MountAttributes(
                attr_set=_MOUNT_ATTR_IDMAP, userns_fd=namespace
            )
            _call(
                libc.syscall,
                _MOUNT_SETATTR,
                mount,
                b'',
                _AT_EMPTY_PATH,
                ctypes.byref(attributes),
                ctypes.c_size_t(ctypes.sizeof(attributes)),
            )
        finally:
            os.close(namespace)
        # One mount in all: whoever unmounts it later knows of one.
        _call(libc.umount2, os.fsencode(path), _UMOUNT_NOFOLLOW)
        _call(
            libc.syscall,
            _MOVE_MOUNT,
            mount,
            b'',
            _AT_FDCWD,
            os.fsencode(path),
            _MOVE_MOUNT_F_EMPTY_PATH,
        )
    finally:
        os.close(mount)


def _call(function: 'ctypes._NamedFuncPointer', *args: object) -> int:
    result: int = function(*args)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _render(maps: _Maps) -> str:
    """Write maps as /proc/<pid>/uid_map takes them.

    :raises OSError: EACCES if one reaches the host's root, EINVAL if one has
        no IDs or leaves their range
    """
    for inside, outside, count in maps:
        if count < 1 or min(inside, outside) < 0:
            raise OSError(errno.EINVAL, f'no map of IDs: {maps}')
        if max(inside, outside) + count > _IDS:
            raise OSError(errno.EINVAL, f'IDs out of range: {maps}')
        if outside == 0:
            raise PermissionError(
                errno.EACCES, f'maps the host\'s root: {maps}'
            )
    return '\n'.join(f'{first} {to} {count}' for first, to, count in maps)


def _make_user_namespace(texts: dict[str, str]) -> int:
    """Make a user namespace with these maps, which nobody lives in.

    :returns: a descriptor that keeps it
    :raises OSError: with the kernel's errno
    """
    # A program of its own: this one has threads, and must not fork.
    with subprocess.Popen(
        ('unshare', '--user', 'sh', '-c', 'echo; read -r _'),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        # The line says that the namespace is there; leaving the block closes
        # the input, and the process ends.
        if not process.stdout.readline():
            said = process.stderr.read().decode(errors='replace').strip()
            raise OSError(errno.EPERM, f'no user namespace: {said}')
        for name, text in texts.items():
            # One unbuffered write: the kernel takes a map once.
            target = os.open(
                f'/proc/{process.pid}/{name}', os.O_WRONLY | os.O_CLOEXEC
            )
            try:
                os.write(target, text.encode())
            finally:
                os.close(target)
        return os.open(
            f'/proc/{process.pid}/ns/user', os.O_RDONLY | os.O_CLOEXEC
        )

# SPDX-License-Identifier: Apache-2.0
"""Privileged: show a container's root file system with mapped owners.

A container in a user namespace sees its root file system through a mount that
maps owners (``mount_setattr(2)``, MOUNT_ATTR_IDMAP; Linux 5.12): a file of
root on the disk belongs to the container's root, and a file that the
container's root makes belongs to root on the disk. Nothing on the disk is
changed, so snapshots and moves need to know nothing of it, and no time is
spent on large images.

Nothing here trusts its caller, which may be a nova-compute that was taken
over: it names a server and one of the ranges of the pool, no path and no map.
The pool and the directory of the servers are those of the configuration that
the helper was started with. So no user of a container becomes a user of the
host, and no group of a container the group of its disks.
"""

import ctypes
import errno
import os
import subprocess

from oslo_config import cfg

from nova_rt import conf, exception, id_pool
from nova_rt.conf import nova as nova_conf
import nova_rt.privsep
from nova_rt.privsep import roots

# The numbers of new system calls are the same on every architecture.
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442

_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOVE_MOUNT_T_EMPTY_PATH = 0x40
_MOUNT_ATTR_NODEV = 0x4
_MOUNT_ATTR_IDMAP = 0x00100000
_UMOUNT_NOFOLLOW = 0x8


class _MountAttributes(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = (
        ('attr_set', ctypes.c_uint64),
        ('attr_clr', ctypes.c_uint64),
        ('propagation', ctypes.c_uint64),
        ('userns_fd', ctypes.c_uint64),
    )


@nova_rt.privsep.mount_pctxt.entrypoint
def check(pool: str, instances_path: str) -> None:
    """Compare the caller's configuration with that of this helper.

    :param pool: ``[nova_rt] id_pool``
    :param instances_path: ``[DEFAULT] instances_path``
    :raises OSError: EINVAL if they differ
    """
    for option, theirs, ours in (
        ('[nova_rt] id_pool', pool, str(_read_pool())),
        ('[DEFAULT] instances_path', instances_path, _read_instances()),
    ):
        if theirs != ours:
            raise OSError(
                errno.EINVAL,
                f'{option} is {theirs} for this service and {ours} for its '
                'privileged helper that mounts: set it in a file that both '
                'are started with',
            )


@nova_rt.privsep.mount_pctxt.entrypoint
def map_owners(server: str, first_id: int) -> None:
    """Replace the mount of a container's root by one with mapped owners.

    The mount that was there is gone then; in case of an error it is as it
    was, or gone. Device files in it mean nothing any more: containers get
    theirs from libvirt, and on the host those of an image would be the host's.

    :param server: its UUID
    :param first_id: first ID of one of the pool's ranges
    :raises OSError: with the kernel's errno: EINVAL where the file system
        cannot be mounted so, or nothing is mounted, EBUSY if it is in use;
        EACCES for anything but a server and a range
    """
    pool = _read_pool()
    # Not a bool, which counts as an integer, nor a float that equals one.
    if type(first_id) is not int or first_id not in pool.ranges:
        raise roots.refuse(
            f'{first_id!r} does not start a range of [nova_rt] id_pool = '
            f'{pool} of this helper'
        )
    libc = ctypes.CDLL(None, use_errno=True)
    with roots.opened_server(_read_instances(), server) as directory:
        with roots.opened_root(directory) as root:
            mount = _call(
                libc.syscall,
                _OPEN_TREE,
                root,
                b'',
                _AT_EMPTY_PATH | _OPEN_TREE_CLONE | os.O_CLOEXEC,
            )
        try:
            _set_attributes(libc, mount, first_id)
            # One mount in all: the program that unmounts it later knows of
            # one. Not by its own descriptor, which would keep it busy.
            path = f'/proc/self/fd/{directory}/{roots.ROOTFS}'
            _call(libc.umount2, os.fsencode(path), _UMOUNT_NOFOLLOW)
            with roots.opened_root(directory, mounted=False) as target:
                _call(
                    libc.syscall,
                    _MOVE_MOUNT,
                    mount,
                    b'',
                    target,
                    b'',
                    _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH,
                )
        finally:
            os.close(mount)


def _read_pool() -> id_pool.IDPool:
    """The pool of this process's configuration.

    :raises OSError: EACCES if there is none
    """
    conf.register_opts(cfg.CONF)
    try:
        return id_pool.IDPool.parse(cfg.CONF.nova_rt.id_pool)
    except exception.HostNotPrepared as err:
        raise roots.refuse(str(err)) from err


def _read_instances() -> str:
    """The directory of the servers, by this process's configuration."""
    return nova_conf.read_instances_path(cfg.CONF)


def _set_attributes(libc: ctypes.CDLL, mount: int, first_id: int) -> None:
    namespace = _make_user_namespace(f'0 {first_id} {id_pool.SIZE}')
    try:
        attributes = _MountAttributes(
            attr_set=_MOUNT_ATTR_IDMAP | _MOUNT_ATTR_NODEV,
            userns_fd=namespace,
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


def _call(function: 'ctypes._NamedFuncPointer', *args: object) -> int:
    result: int = function(*args)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _make_user_namespace(text: str) -> int:
    """Make a user namespace with this map, which nobody lives in.

    :param text: as /proc/<pid>/uid_map takes it, for users and groups

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
        for name in ('uid_map', 'gid_map'):
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

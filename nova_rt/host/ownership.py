# SPDX-License-Identifier: Apache-2.0
"""Ownership of the cgroups that hold a reservation.

They belong to the host's root, and nobody else writes to them. libvirt leaves
them so on cgroup v1. On cgroup v2 it gives the container's group with all its
files to the container's root (src/util/vircgroupv2.c, virCgroupV2SetOwner()),
and the kernel then lets that root change its CPUs, or give up its
reservation.

They are taken back right after each start. A gap of some milliseconds stays:
the controller gives the group away before it lets the container's first
process go on (src/lxc/lxc_controller.c, virLXCControllerRun(): cgroup limits,
user namespace, lxcContainerSendContinue()), and libvirt runs no hook between
the two and cannot start a container paused. A file that this process opens
meanwhile stays open for writing, since kernfs looks at permissions in open()
alone. It is one of its own groups: the roots of other containers are other
users of the host (:mod:`nova_rt.id_pool`), and open nothing at any time.
"""

import os
import pathlib

from nova_rt import exception
from nova_rt.host.cgroup import Container, Hierarchy
from nova_rt.host.files import Files

_OTHERS_WRITE = 0o022


def find_difference(hierarchy: Hierarchy, container: Container) -> str | None:
    """Find a group, or a file in it, that others than root can write to.

    :returns: None if there is none, else a sentence
    :raises OSError: with the kernel's errno
    """
    for group in hierarchy.find_reserving(container):
        differs = _look(hierarchy.files, group)
        if differs is not None:
            return differs
    return None


def take(hierarchy: Hierarchy, container: Container) -> None:
    """Give a container's groups and their files to the host's root.

    :raises OSError: with the kernel's errno
    """
    for group in hierarchy.find_reserving(container):
        if _look(hierarchy.files, group) is not None:
            hierarchy.files.chown_to_root(group)


def check_delegation(files: Files) -> None:
    """Require that libvirt gives away no more than a container's own groups.

    For a container in a user namespace libvirt gives the group in systemd's
    hierarchy of cgroup v1 to the container's root (src/lxc/lxc_process.c,
    virCgroupSetOwner()). If that hierarchy is mounted and nothing makes groups
    in it, this is its root group with ``release_agent``.

    :raises HostNotPrepared: if libvirt would give that root group away
    """
    root = files.cgroup / 'systemd'
    if (root / 'tasks').exists() and not (root / 'system.slice').exists():
        raise exception.HostNotPrepared(
            f'{root} is mounted, but systemd does not run here: libvirt would '
            'give it, for the whole host, to the root of every container. '
            'Unmount it and restart libvirtd; if containers have run, make '
            'sure that it belongs to root before you mount it again'
        )


def _look(files: Files, group: pathlib.Path) -> str | None:
    with os.scandir(group) as found:
        names = [each.name for each in found if not each.is_dir()]
    for path in (group, *(group / name for name in sorted(names))):
        user, mode = files.read_owner(path)
        if user or mode & _OTHERS_WRITE:
            return (
                f'{path}: expected to be writable for root alone, belongs to '
                f'user {user}, with permissions {mode:o}'
            )
    return None

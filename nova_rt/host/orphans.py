# SPDX-License-Identifier: Apache-2.0
"""Orphaned groups: groups in the partition without tasks, left by libvirt.

They keep their reservations, though no server has them.
:mod:`nova_rt.privsep.orphans` decides which of them may be removed, so that no
caller can bypass the rules. This module finds them, and keeps those of
containers that run according to libvirt.
"""

from collections.abc import Callable, Collection, Iterator
import contextlib
import dataclasses
import errno
import pathlib

from nova_rt.host.cgroup import Container, Hierarchy
from nova_rt.host.files import Files
from nova_rt.host.interface import Share
import nova_rt.privsep.orphans

_GONE = (errno.ENOENT, errno.ENODEV)


@dataclasses.dataclass(frozen=True)
class OrphanedGroup:
    """A group in the partition without tasks.

    :ivar name: of the group
    :ivar held: its share, before the removal if it was removed; None if it
        reserves nothing
    :ivar kept: the reason for keeping it; None if it was removed
    """

    name: str
    held: Share | None
    kept: str | None


def reclaim(
    hierarchy: Hierarchy,
    read_share: Callable[[pathlib.Path], Share],
    partition: pathlib.Path,
    running: Collection[int],
) -> list[OrphanedGroup]:
    """Remove the groups of containers that have ended.

    :param read_share: reads the share of a group
    :param running: the libvirt_lxc processes of containers that run
    :returns: all groups without tasks, removed or not
    :raises OSError: with the kernel's errno
    """
    found = []
    for group in _find_unused(hierarchy, partition):
        held = _read_held(hierarchy.files, read_share, group)
        kept = _remove(hierarchy, group, running)
        found.append(OrphanedGroup(group.name, held, kept))
    return found


def sweep_task_limits(files: Files, partition: pathlib.Path) -> None:
    """Remove the task limits of containers that have ended.

    Only cgroup v1 has extra groups for these limits; see
    :mod:`nova_rt.privsep.task_limits`. The helper is called only if there is
    a group to remove: each call would start it.

    :param partition: the group that containers are in, in the hierarchy of
        cpu
    :raises OSError: with the kernel's errno
    """
    names = partition.relative_to(files.cgroup).parts
    limited = files.cgroup.joinpath('pids', *names[1:])
    with contextlib.suppress(FileNotFoundError):
        found = {group.name for group in files.groups(limited)}
        kept = {group.name for group in files.groups(partition)}
        if any(map(nova_rt.privsep.orphans.read_pid, found - kept)):
            files.sweep_task_limits()


def _find_unused(
    hierarchy: Hierarchy, partition: pathlib.Path
) -> Iterator[pathlib.Path]:
    """Find the groups in the partition that have no tasks, by name.

    On cgroup v1 the group of a container may exist as a cpuset only.
    """
    names: set[str] = set()
    for top in _in_all(hierarchy, partition):
        with contextlib.suppress(FileNotFoundError):
            names.update(path.name for path in hierarchy.files.groups(top))
    for name in sorted(names):
        group = partition / name
        if not any(
            _is_used(hierarchy, each) for each in _in_all(hierarchy, group)
        ):
            yield group


def _in_all(
    hierarchy: Hierarchy, group: pathlib.Path
) -> tuple[pathlib.Path, ...]:
    """List the same group in every hierarchy that nova_rt writes to."""
    return hierarchy.find_reserving(Container(0, (group,)))


def _is_used(hierarchy: Hierarchy, group: pathlib.Path) -> bool:
    """Tell whether a group has tasks, or cannot be read."""
    try:
        return bool(hierarchy.read_tasks_inside(group))
    except OSError as err:
        return err.errno not in _GONE


def _remove(
    hierarchy: Hierarchy, group: pathlib.Path, running: Collection[int]
) -> str | None:
    """Remove a group without tasks, if permitted.

    :returns: the reason for keeping it; None if it is gone
    """
    pid = nova_rt.privsep.orphans.read_pid(group.name)
    if pid is None:
        return 'libvirt gives no container such a name'
    if pid in running and not _is_elsewhere(hierarchy, pid, group):
        return 'libvirt says that the container runs'
    try:
        hierarchy.files.reclaim(group)
    except OSError as err:
        # libvirt may have removed it after all.
        if err.errno not in _GONE:
            return err.strerror or str(err)
    return None


def _is_elsewhere(hierarchy: Hierarchy, pid: int, group: pathlib.Path) -> bool:
    """Tell whether a number belongs to another container's process now."""
    try:
        levels = hierarchy.find_container(pid, group.parent).levels
    except OSError:
        return False
    return group not in levels


def _read_held(
    files: Files,
    read_share: Callable[[pathlib.Path], Share],
    group: pathlib.Path,
) -> Share | None:
    """Read the share of a group, or of one in it.

    :returns: None if neither reserves anything
    """
    with contextlib.suppress(OSError):
        for each in (group, *files.groups(group)):
            held = read_share(each)
            if held.cost_ppm:
                return held
    return None

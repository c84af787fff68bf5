# SPDX-License-Identifier: Apache-2.0
"""Privileged: remove the groups of a container that has ended.

libvirt removes them, unless a process of the container has not quite ended by
then (EBUSY); it does not try again. The group has no tasks then, and keeps its
reservation.

A container that is about to start has a group without tasks, too, and must
keep it. Its libvirt_lxc process makes the group, and names it after its own
number, before it moves itself there (libvirt src/lxc/lxc_controller.c,
virLXCControllerSetupCgroupLimits()). So while a start is under way, a
libvirt_lxc with the number in the name is alive, and is in no container's
group. Such a group is kept, and any group that has existed for a few seconds
only: should libvirtd count its processes in another namespace than this
helper, the number says nothing. The kernel itself never removes a group with
tasks.
"""

from collections.abc import Generator
import contextlib
import dataclasses
import errno
import itertools
import os
import re

from nova_rt.privsep import paths, tasks
from nova_rt.privsep.kernel import SystemCalls
from nova_rt.privsep.paths import Group, Place

#: Seconds that a group must have existed: libvirt_lxc needs milliseconds from
#: making it to being in it.
SETTLED_S = 5.0

#: The name that libvirt gives a container: src/hypervisor/domain_driver.c,
#: virDomainDriverGenerateMachineName(). The number is the domain's ID.
_MACHINE = re.compile(
    r'lxc-([1-9][0-9]{0,6})-[0-9A-Za-z]+(?:[-.][0-9A-Za-z]+)*'
)
_LONGEST = 64

#: Its group: src/util/vircgroup.c, virCgroupNewDomainPartition(); with
#: systemd: src/util/virsystemd.c, virSystemdMakeScopeName().
_GROUP_END = '.libvirt-lxc'
_SCOPE_START, _SCOPE_END = 'machine-', '.scope'
_DASH = r'\x2d'

_CONTROLLER = 'libvirt_lxc'

#: States of processes that have ended, proc_pid_stat(5).
_ENDED = ('Z', 'X')

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_pid(name: str) -> int | None:
    """Read the owner of a group from the name that libvirt has given it.

    :param name: of a group in the partition
    :returns: the number of the container's libvirt_lxc process; None if this
        is no name of a container's group
    """
    if name.endswith(_GROUP_END):
        machine = name.removesuffix(_GROUP_END)
    elif name.startswith(_SCOPE_START) and name.endswith(_SCOPE_END):
        escaped = name.removeprefix(_SCOPE_START).removesuffix(_SCOPE_END)
        if '-' in escaped:
            return None
        machine = escaped.replace(_DASH, '-')
    else:
        return None
    if len(machine) > _LONGEST:
        return None
    found = _MACHINE.fullmatch(machine)
    return int(found[1]) if found else None


def is_for_container(group: Group) -> bool:
    """Look whether a group is one that libvirt makes for a container.

    :param group: by its words, in the hierarchy of the cpu controller
    :returns: whether it is directly in the partition and named like one
    """
    return (
        group.hierarchy != 'cpuset'
        and group.place is Place.INSIDE
        and len(group.names) == len(group.partition) + 1
        and read_pid(group.names[-1]) is not None
    )


def remove(kernel: SystemCalls, group: Group) -> None:
    """Remove a container's group and all in it, if the container has ended.

    On cgroup v1 also the group of its CPUs. Nothing is removed unless all of
    them are without tasks, at every depth.

    :param group: as :func:`is_for_container` accepts
    :raises OSError: with the kernel's errno: ENOENT if there is no such
        group, EBUSY if it is in use, or may be soon
    """
    groups = [group]
    if group.hierarchy:
        groups.append(paths.find_counterpart(kernel, group, 'cpuset'))
    name = group.names[-1]
    with contextlib.ExitStack() as stack:
        found = []
        for each in groups:
            above = dataclasses.replace(each, names=each.names[:-1])
            with contextlib.suppress(FileNotFoundError):
                found.append((
                    stack.enter_context(paths.opened(kernel, above)),
                    stack.enter_context(paths.opened(kernel, each)),
                ))  # fmt: skip
        if not found:
            raise FileNotFoundError(errno.ENOENT, f'no group {name}')
        for _, directory in found:
            _check_unused(kernel, directory, name)
        # Last, because the number may go to a new process at any time.
        _check_not_starting(kernel, group)
        for above_it, directory in found:
            with contextlib.closing(_visit(directory)) as inside:
                for _, parent, inner in inside:
                    _remove_one(kernel, parent, inner)
            _remove_one(kernel, above_it, name)


def _check_unused(kernel: SystemCalls, directory: int, name: str) -> None:
    """Require that nothing is in a group, and that it is not new.

    :raises OSError: EBUSY if it is in use, or may be soon
    """
    with contextlib.closing(_visit(directory)) as inside:
        groups = (inner for inner, _, _ in inside)
        for each in itertools.chain([directory], groups):
            if tasks.read_list(each):
                raise OSError(errno.EBUSY, f'{name} has tasks')
    age_s = kernel.read_age_s(directory)
    if age_s < SETTLED_S:
        raise OSError(
            errno.EBUSY,
            f'{name} has existed for {max(0, int(age_s))} s only, and may be '
            'that of a container which starts',
        )


def _check_not_starting(kernel: SystemCalls, group: Group) -> None:
    """Require that no process is about to move into a group.

    :raises OSError: EBUSY if one may be
    """
    pid = read_pid(group.names[-1])
    path = os.path.join(kernel.proc, str(pid))
    try:
        process = os.open(path, _DIRECTORY)
    except FileNotFoundError:
        return
    try:
        name, state = tasks.read_name_and_state(process)
        where = tasks.read_group(process, group.hierarchy)
    except (FileNotFoundError, ProcessLookupError):
        return
    finally:
        os.close(process)
    partition = '/' + '/'.join(group.partition)
    # The number may have gone to the process of another container.
    elsewhere = where != group.below and where.startswith(f'{partition}/')
    if name == _CONTROLLER and state not in _ENDED and not elsewhere:
        raise OSError(
            errno.EBUSY,
            f'process {pid} of {group.names[-1]} is alive and may be starting '
            'a container',
        )


def _visit(top: int) -> Generator[tuple[int, int, str], None, None]:
    """Go through the groups in a group, innermost first.

    Two are open at a time, and none is reached by a path: a container nests
    groups as it likes.

    :param top: descriptor of the group
    :returns: descriptors of a group and of the one above it, its name there
    """
    here = os.dup(top)
    # From the top to here: the group's number and name, and the groups in it
    # that are still to come.
    way: list[tuple[int, str, list[str]]] = [
        (os.fstat(here).st_ino, '', tasks.list_inside(here))
    ]
    try:
        while True:
            _, name, left = way[-1]
            if left:
                try:
                    inner = os.open(left[-1], _DIRECTORY, dir_fd=here)
                except FileNotFoundError:
                    left.pop()
                    continue
                os.close(here)
                here = inner
                inside = tasks.list_inside(here)
                way.append((os.fstat(here).st_ino, left.pop(), inside))
                continue
            way.pop()
            if not way:
                return
            above = os.open('..', _DIRECTORY, dir_fd=here)
            try:
                if os.fstat(above).st_ino != way[-1][0]:
                    raise OSError(errno.EBUSY, f'{name} was moved')
                yield here, above, name
            finally:
                os.close(here)
                here = above
    finally:
        os.close(here)


def _remove_one(kernel: SystemCalls, parent: int, name: str) -> None:
    # libvirt may be doing the same.
    with contextlib.suppress(FileNotFoundError):
        kernel.remove_group(parent, name)

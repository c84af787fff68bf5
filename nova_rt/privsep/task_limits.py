# SPDX-License-Identifier: Apache-2.0
"""Privileged: limit how many tasks a container has.

All containers number their tasks from one space of the host (``pid_max``), so
that one could leave none to the others. libvirt limits the memory of a
container but not its tasks. systemd does, in the group of its scope.

On cgroup v2 the limit is a file of the container's group. On cgroup v1 it is
one of the ``pids`` hierarchy, where libvirt makes no group: without systemd,
one of the same name is made here, and removed once the container's group in
the hierarchy of ``cpu`` is gone.

Source: Linux kernel/cgroup/pids.c.
"""

import contextlib
import dataclasses
import errno
import os
import time

from nova_rt.privsep import orphans, paths
from nova_rt.privsep.kernel import SystemCalls
from nova_rt.privsep.paths import Group
from nova_rt.privsep.tasks import Tasks, read_list

_CONTROLLER = 'pids'
_FILE = 'pids.max'
_ENABLE = 'cgroup.subtree_control'

#: Lists of the tasks of a group are read, and those that are not limited yet
#: moved, until there are none; children of what was moved are limited.
_MAX_PASSES = 100

#: Between passes that find no others: five seconds in all. A task that is
#: ending cannot be moved, and waits for a CPU before it is gone.
_PAUSE_S = 0.05


def limit(kernel: SystemCalls, group: Group, most: int) -> None:
    """Limit how many tasks a container has.

    :param group: the container's, directly in the partition, in the hierarchy
        of cpu
    :param most: number of tasks, of libvirt_lxc too
    :raises OSError: with the kernel's errno: ENOENT if there is no controller
        for it; EIO if the limit is not held
    """
    if group.hierarchy:
        sweep(kernel, group.partition)
        limited = paths.find_counterpart(kernel, group, _CONTROLLER)
        _make(kernel, limited)
    else:
        limited = group
        _enable(kernel, group)
    with paths.opened(kernel, limited) as directory:
        kernel.write(directory, _FILE, str(most))
        found = kernel.read(directory, _FILE)
        if found != str(most):
            raise OSError(
                errno.EIO,
                f'{_FILE} of {limited.names[-1]}: expected {most}, found '
                f'{found}',
            )
        if group.hierarchy:
            with paths.opened(kernel, group) as source:
                _move(Tasks(kernel, group, source), directory)


def sweep(kernel: SystemCalls, partition: tuple[str, ...]) -> None:
    """Remove the groups of containers that have ended.

    libvirt removes those of its own hierarchies only, and systemd its scopes.

    :param partition: its names
    :raises OSError: with the kernel's errno
    """
    running = Group('cpu', f'{kernel.cgroup}/cpu', partition, partition)
    above = paths.find_counterpart(kernel, running, _CONTROLLER)
    with contextlib.suppress(FileNotFoundError):
        with paths.opened(kernel, above) as directory:
            # Before those of cpu: a container that starts has one there
            # before it has one here.
            names = os.listdir(directory)
            with paths.opened(kernel, running) as cpu:
                kept = set(os.listdir(cpu))
            for name in names:
                if orphans.read_pid(name) is not None and name not in kept:
                    _remove(kernel, directory, name)


def _make(kernel: SystemCalls, group: Group) -> None:
    """Make a group of cgroup v1, and those above it."""
    for depth, name in enumerate(group.names):
        above = dataclasses.replace(group, names=group.names[:depth])
        with paths.opened(kernel, above) as directory:
            with contextlib.suppress(FileExistsError):
                kernel.make_group(directory, name)


def _enable(kernel: SystemCalls, group: Group) -> None:
    """Have the groups of the partition limit their tasks, on cgroup v2."""
    with paths.opened(kernel, group) as directory:
        if _FILE in os.listdir(directory):
            return
    for depth in range(len(group.names)):
        above = dataclasses.replace(group, names=group.names[:depth])
        with paths.opened(kernel, above) as directory:
            kernel.write(directory, _ENABLE, f'+{_CONTROLLER}')


def _move(tasks: Tasks, directory: int) -> None:
    """Move the tasks of a container to its group of cgroup v1.

    :param tasks: those of its group in the hierarchy of cpu
    :param directory: descriptor of the other group
    :raises OSError: EAGAIN if it makes tasks faster than they can be moved
    """
    tried: set[int] = set()
    for _ in range(_MAX_PASSES):
        # In this order: a task that is in neither list has a parent that was
        # in the second already.
        found = tasks.all()
        missing = found - read_list(directory)
        if not missing:
            return
        if missing <= tried:
            time.sleep(_PAUSE_S)
        tried |= missing
        tasks.move_to(directory)
    raise OSError(errno.EAGAIN, 'the tasks of a container change too fast')


def _remove(kernel: SystemCalls, directory: int, name: str) -> None:
    # Of a container that has not quite ended, or that is removed meanwhile.
    try:
        kernel.remove_group(directory, name)
    except OSError as err:
        if err.errno not in (errno.EBUSY, errno.ENOENT):
            raise

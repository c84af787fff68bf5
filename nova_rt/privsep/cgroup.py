# SPDX-License-Identifier: Apache-2.0
"""Privileged: actions on control groups and their tasks.

Nothing here trusts its caller, which may be a nova-compute that was taken
over: it can do the same as nova_rt to the containers of the partition, and
nothing to anything else. :mod:`nova_rt.privsep.paths` says which group a path
is; here is the short list of permitted actions.

Errors are OSError with the kernel's errno: oslo.privsep sends the class and
the arguments of an exception, and both survive.
"""

from collections.abc import Callable
import errno
import functools
import os
import re
import stat
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

import nova_rt.privsep
from nova_rt.privsep import orphans, paths, task_limits
from nova_rt.privsep.kernel import SystemCalls
from nova_rt.privsep.paths import Group, Place
from nova_rt.privsep.tasks import Tasks, threads

_Given = ParamSpec('_Given')
_Answer = TypeVar('_Answer')

_V1_BANDWIDTH = re.compile(r'cpu\.rt_(runtime|period)_us')
_V2_BANDWIDTH = 'cpu.rt.max'
_POOL = 'cpu.rt.spare.max'
_POOL_PRIORITY = 'cpu.rt.spare'
_CPUS = 'cpuset.cpus'
_ENABLES = ('cgroup.subtree_control', '+cpu')
_PROBE = re.compile('nova-rt-probe-[0-9]{1,10}')

_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)

#: Times that a write is tried while tasks become real-time.
_MAX_TRIES = 100


class CgroupHelper:
    """The privileged functions, for a machine.

    Every method raises OSError with the kernel's errno; EACCES for an action
    that is not on the list.
    """

    def __init__(self, kernel: SystemCalls | None = None) -> None:
        self._kernel = kernel or SystemCalls()

    def answer(self) -> None:
        """Do nothing: the caller learns that this helper runs."""

    def write(self, path: str, text: str) -> None:
        """Write to a file that sets bandwidth or CPUs, or enable cpu."""
        group, name = paths.split(self._kernel, path)
        if not _may_write(group, name, text):
            self._refuse(path)
        with paths.opened(self._kernel, group) as directory:
            self._kernel.write(directory, name, text)

    def write_aside(self, path: str, text: str) -> None:
        """Write to a container's file that sets bandwidth, RT tasks aside.

        A kernel may refuse to move real-time tasks between reservations:
        those in the group and in all groups in it are ordinary ones while it
        is written. Deadline tasks are no matter of reservations.

        :raises OSError: EAGAIN if tasks become real-time faster than they can
            be changed
        """
        group, name = paths.split(self._kernel, path)
        if group.place is not Place.INSIDE or not _is_bandwidth(group, name):
            self._refuse(path)
        aside: dict[int, tuple[int, int]] = {}
        with paths.opened(self._kernel, group) as directory:
            tasks = Tasks(self._kernel, group, directory)
            try:
                for _ in range(_MAX_TRIES):
                    lowered = tasks.lower(aside)
                    try:
                        self._kernel.write(directory, name, text)
                    except OSError as err:
                        if err.errno != errno.EINVAL or not lowered:
                            raise
                    else:
                        return
            finally:
                tasks.restore(aside)
        raise OSError(errno.EAGAIN, f'tasks of {path} change too fast')

    def make_group(self, path: str) -> None:
        """Make the partition, or a group to try out the kernel in it."""
        parent, name = paths.split(self._kernel, path)
        made = (*parent.names, name)
        if made != parent.partition and not _is_probe(parent, name):
            self._refuse(path)
        with paths.opened(self._kernel, parent) as directory:
            self._kernel.make_group(directory, name)

    def remove_probe(self, path: str) -> None:
        """Remove a group that was made to try out the kernel."""
        parent, name = paths.split(self._kernel, path)
        if not _is_probe(parent, name):
            self._refuse(path)
        with paths.opened(self._kernel, parent) as directory:
            self._kernel.remove_group(directory, name)

    def reclaim(self, path: str) -> None:
        """Remove the groups of a container that has ended.

        :param path: of its group in the partition
        :raises OSError: EBUSY if it is in use, or may be soon
        """
        group = self._inside(path)
        if not orphans.is_for_container(group):
            self._refuse(path)
        orphans.remove(self._kernel, group)

    def chown_to_root(self, path: str) -> None:
        """Make a container's group and all its files the host's root's.

        :param path: of a group
        """
        group = self._inside(path)
        with paths.opened(self._kernel, group) as directory:
            # First, so that nothing is made in it meanwhile.
            self._kernel.take(directory)
            for name in sorted(os.listdir(directory)):
                if _is_file(directory, name):
                    self._kernel.take_file(directory, name)

    def move_tasks_to_cpuset(self, path: str) -> None:
        """Move a container's tasks to its own group of CPUs.

        On cgroup v1 the kernel moves them out of a cpuset when its last CPU
        goes off line.

        :param path: of its group in the hierarchy of cpu
        """
        group = self._inside(path)
        if group.hierarchy != 'cpu':
            self._refuse(path)
        there = paths.find_counterpart(self._kernel, group, 'cpuset')
        with (
            paths.opened(self._kernel, group) as directory,
            paths.opened(self._kernel, there) as to,
        ):
            Tasks(self._kernel, group, directory).move_to(to)

    def limit_tasks(self, path: str, most: int) -> None:
        """Limit how many tasks a container has.

        :param path: of its group in the partition
        :param most: number of tasks; the kernel judges it
        """
        group = self._inside(path)
        if not orphans.is_for_container(group):
            self._refuse(path)
        if most < 1:
            raise OSError(errno.EINVAL, f'at most {most} tasks')
        task_limits.limit(self._kernel, group, int(most))

    def sweep_task_limits(self) -> None:
        """Remove the groups that limited containers which have ended."""
        partition = tuple(self._kernel.partition.strip('/').split('/'))
        task_limits.sweep(self._kernel, partition)

    def set_policy(
        self,
        path: str,
        controller: int,
        policy: int,
        priority: int,
        inside: bool,
    ) -> int:
        """Give the ordinary tasks of a container a real-time policy.

        :param path: of a group
        :param controller: process of the group that keeps its policy
        :param policy: SCHED_FIFO or SCHED_RR
        :param priority: 1 to 99
        :param inside: whether tasks of the groups in the group get it, too;
            where one of those keeps real-time tasks out, that is respected
        :returns: see :meth:`.Tasks.raise_to`
        :raises OSError: EPERM if the group has no bandwidth
        """
        if policy not in _REAL_TIME or not 1 <= priority <= 99:
            raise OSError(
                errno.EINVAL, f'policy {policy}, priority {priority}'
            )
        group = self._inside(path)
        keep = threads(self._kernel, controller)
        with paths.opened(self._kernel, group) as directory:
            return Tasks(self._kernel, group, directory).raise_to(
                policy, priority, keep, inside
            )

    def _inside(self, path: str) -> Group:
        """The group of a path, which must be in the partition."""
        # As if for a file in it.
        group, _ = paths.split(self._kernel, f'{path}/tasks')
        if group.place is not Place.INSIDE:
            self._refuse(path)
        return group

    def _refuse(self, path: str) -> NoReturn:
        raise paths.refuse(path, self._kernel.partition)


def _may_write(group: Group, name: str, text: str) -> bool:
    """Check whether the write is allowed; the kernel judges the numbers."""
    if group.hierarchy:
        return group.place in (Place.PARTITION, Place.INSIDE) and (
            _is_bandwidth(group, name) or _is_cpus(group, name, text)
        )
    if (name, text) == _ENABLES:
        return group.place is not Place.ELSEWHERE
    if group.place is Place.PARTITION:
        return name == _POOL
    return group.place is Place.INSIDE and (
        _is_bandwidth(group, name)
        or _is_cpus(group, name, text)
        or name == _POOL_PRIORITY
    )


def _is_bandwidth(group: Group, name: str) -> bool:
    if group.hierarchy:
        return group.hierarchy == 'cpu' and bool(_V1_BANDWIDTH.fullmatch(name))
    return name == _V2_BANDWIDTH


def _is_cpus(group: Group, name: str, text: str) -> bool:
    return (
        group.hierarchy in ('', 'cpuset')
        and name == _CPUS
        and bool(re.fullmatch('[0-9,-]+', text))
    )


def _is_probe(parent: Group, name: str) -> bool:
    return (
        parent.hierarchy != 'cpuset'
        and parent.place is Place.PARTITION
        and bool(_PROBE.fullmatch(name))
    )


def _is_file(directory: int, name: str) -> bool:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return stat.S_ISREG(found.st_mode)


def _entry_point(
    method: Callable[Concatenate[CgroupHelper, _Given], _Answer],
) -> Callable[_Given, _Answer]:
    """Make a method of the helper a function that oslo.privsep can call.

    It finds such a function by its name in this module.
    """

    @functools.wraps(method)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        return method(CgroupHelper(), *args, **kwargs)

    entry: Callable[_Given, _Answer] = nova_rt.privsep.rt_pctxt.entrypoint(
        call
    )
    return entry


# What the helper is asked for, one by one.
answer = _entry_point(CgroupHelper.answer)
write = _entry_point(CgroupHelper.write)
write_aside = _entry_point(CgroupHelper.write_aside)
make_group = _entry_point(CgroupHelper.make_group)
remove_probe = _entry_point(CgroupHelper.remove_probe)
reclaim = _entry_point(CgroupHelper.reclaim)
chown_to_root = _entry_point(CgroupHelper.chown_to_root)
move_tasks_to_cpuset = _entry_point(CgroupHelper.move_tasks_to_cpuset)
limit_tasks = _entry_point(CgroupHelper.limit_tasks)
sweep_task_limits = _entry_point(CgroupHelper.sweep_task_limits)
set_policy = _entry_point(CgroupHelper.set_policy)

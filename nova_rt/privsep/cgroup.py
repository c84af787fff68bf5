# SPDX-License-Identifier: Apache-2.0
"""Privileged: write RT bandwidth, make groups, give tasks a policy.

Nothing here trusts its caller. A path is resolved first and must then lie
below the mount point of the control groups; what may be written there is a
short list. A control group file system holds no symbolic links, so a path
that was resolved cannot become another one afterwards.

Errors are OSError with the kernel's errno: oslo.privsep sends the class and
the arguments of an exception, and both survive.
"""

import contextlib
import errno
import os
import re

import nova_rt.privsep

ROOT = '/sys/fs/cgroup'
PROC = '/proc'

#: The files that set bandwidth, of all interfaces.
_BANDWIDTH = re.compile(r'cpu\.rt_(runtime|period)_us|cpu\.rt\.max')
_PROBE = re.compile('nova-rt-probe-[0-9]{1,10}')

#: Lists of a group's tasks: cgroup v1, cgroup v2.
_TASKS = ('tasks', 'cgroup.threads')

_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)

#: Passes over a group's tasks before it is taken for one that forks faster
#: than its tasks can be changed.
_MAX_PASSES = 100


def _refuse(path: str) -> PermissionError:
    return PermissionError(errno.EACCES, f'not a path for nova_rt: {path}')


def _group(path: str) -> str:
    """The real path of a group below the mount point.

    :raises OSError: EACCES for any other path, ENOENT for none
    """
    real = os.path.realpath(path, strict=True)
    root = os.path.realpath(ROOT)
    if os.path.commonpath((real, root)) != root:
        raise _refuse(path)
    if not os.path.exists(os.path.join(real, 'cgroup.procs')):
        raise _refuse(path)
    return real


@nova_rt.privsep.rt_pctxt.entrypoint
def write(path: str, text: str) -> None:
    """Write to a file that sets bandwidth, or enable the cpu controller.

    :raises OSError: with the kernel's errno; EACCES for any other file
    """
    directory, name = os.path.split(path)
    enables = (name, text) == ('cgroup.subtree_control', '+cpu')
    if not (enables or _BANDWIDTH.fullmatch(name)):
        raise _refuse(path)
    _write(os.path.join(_group(directory), name), text)


def _write(real: str, text: str) -> None:
    # One unbuffered write: its errno is the kernel's answer.
    descriptor = os.open(real, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


@nova_rt.privsep.rt_pctxt.entrypoint
def write_aside(path: str, text: str) -> None:
    """Write to a container's file that sets bandwidth, real-time tasks aside.

    A kernel may refuse to move real-time tasks between reservations: those in
    the group and in all groups in it are ordinary ones while it is written.

    :param path: of a file in a group as for :func:`set_policy`
    :raises OSError: with the kernel's errno; EACCES for any other file,
        EAGAIN if tasks become real-time faster than they can be changed
    """
    directory, name = os.path.split(path)
    if not _BANDWIDTH.fullmatch(name):
        raise _refuse(path)
    real = _containers_group(directory)
    aside: dict[int, tuple[int, os.sched_param]] = {}
    try:
        for _ in range(_MAX_PASSES):
            lowered = _set_aside(real, aside)
            try:
                _write(os.path.join(real, name), text)
            except OSError as err:
                if err.errno != errno.EINVAL or not lowered:
                    raise
            else:
                return
        raise OSError(errno.EAGAIN, f'tasks of {directory} change too fast')
    finally:
        for tid, (policy, param) in aside.items():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(tid, policy, param)


def _set_aside(
    group: str, aside: dict[int, tuple[int, os.sched_param]]
) -> bool:
    """Make real-time tasks ordinary ones; note what they were.

    :returns: whether there were any
    """
    found = False
    for tid in _tasks_inside(group):
        with contextlib.suppress(ProcessLookupError):
            policy = os.sched_getscheduler(tid)
            if policy & ~os.SCHED_RESET_ON_FORK in _REAL_TIME:
                was = policy, os.sched_getparam(tid)
                os.sched_setscheduler(tid, os.SCHED_OTHER, os.sched_param(0))
                aside[tid] = was
                found = True
    return found


@nova_rt.privsep.rt_pctxt.entrypoint
def make_group(path: str) -> None:
    """Make a group in an existing one.

    :raises OSError: with the kernel's errno; EACCES outside the groups
    """
    parent, name = os.path.split(path)
    if name in ('', '.', '..'):
        raise _refuse(path)
    os.mkdir(os.path.join(_group(parent), name), 0o755)


@nova_rt.privsep.rt_pctxt.entrypoint
def remove_probe(path: str) -> None:
    """Remove a group that was made to try out the kernel.

    :raises OSError: with the kernel's errno; EACCES for any other group
    """
    if not _PROBE.fullmatch(os.path.basename(path)):
        raise _refuse(path)
    os.rmdir(_group(path))


def _tasks(group: str) -> set[int]:
    for name in _TASKS:
        path = os.path.join(group, name)
        if os.path.exists(path):
            with open(path, encoding='ascii') as lines:
                return {int(line) for line in lines}
    raise FileNotFoundError(errno.ENOENT, f'no tasks in {group}')


def _tasks_inside(group: str) -> set[int]:
    """The tasks of a group and of all groups in it."""
    tasks = _tasks(group)
    for directory, names, _ in os.walk(group):
        for name in names:
            try:
                tasks |= _tasks(os.path.join(directory, name))
            except OSError as err:
                # Removed since it was listed.
                if err.errno not in (errno.ENOENT, errno.ENODEV):
                    raise
    return tasks


def _containers_group(path: str) -> str:
    """The real path of a group that may be a container's.

    That is at least two levels below the mount point of its hierarchy: a
    partition and the host's own group are nobody's container.

    :raises OSError: EACCES for any other path, ENOENT for none
    """
    real = _group(path)
    above = os.path.dirname(os.path.dirname(real))
    if not os.path.exists(os.path.join(above, 'cgroup.procs')):
        raise _refuse(path)
    return real


def _threads(pid: int) -> set[int]:
    return {
        int(name) for name in os.listdir(os.path.join(PROC, str(pid), 'task'))
    }


def _raise_task(tid: int, policy: int, priority: int) -> None:
    try:
        if os.sched_getscheduler(tid) not in _REAL_TIME:
            os.sched_setscheduler(tid, policy, os.sched_param(priority))
    except ProcessLookupError:
        return  # It has ended: nothing is left to change.


@nova_rt.privsep.rt_pctxt.entrypoint
def set_policy(
    group: str, controller: int, policy: int, priority: int, inside: bool
) -> None:
    """Give the tasks of a group a real-time policy.

    Tasks that have one keep it. A task may fork while the others are changed;
    the list is read again until it names no task that was not seen.

    :param group: at least two levels below the mount point of its hierarchy:
        a partition and the host's own group are nobody's container
    :param controller: process of the group that keeps its policy
    :param policy: SCHED_FIFO or SCHED_RR
    :param priority: 1 to 99
    :param inside: whether tasks of the groups in the group get it, too; where
        one of those keeps real-time tasks out, that is respected
    :raises OSError: with the kernel's errno: EPERM if the group has no
        bandwidth; EACCES for any other group, EAGAIN if it forks too fast
    """
    if policy not in _REAL_TIME or not 1 <= priority <= 99:
        raise OSError(errno.EINVAL, f'policy {policy}, priority {priority}')
    real = _containers_group(group)
    listed = _tasks_inside if inside else _tasks
    seen = _threads(controller)
    for _ in range(_MAX_PASSES):
        new = listed(real) - seen
        if not new:
            return
        for tid in new:
            try:
                _raise_task(tid, policy, priority)
            except PermissionError:
                if tid in _tasks(real):
                    raise
        seen |= new
    raise OSError(errno.EAGAIN, f'tasks of {group} fork too fast')

# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies of a container's tasks."""

from collections.abc import Callable, Iterable
import logging
import os

from nova_rt.host.cgroup import Container, restate
from nova_rt.host.files import Files
from nova_rt.reservation.extra_specs import TaskPolicy
from nova_rt.reservation.request import Request

LOG = logging.getLogger(__name__)

#: The kernel's numbers; ``other`` is not here: tasks start with it.
NUMBERS = {TaskPolicy.RR: os.SCHED_RR, TaskPolicy.FIFO: os.SCHED_FIFO}

#: The kernel's number (linux/sched.h); Python has no name for it.
_SCHED_DEADLINE = 6

#: A task with one of these keeps it.
_REAL_TIME = frozenset({*NUMBERS.values(), _SCHED_DEADLINE})

#: Field ``policy`` of /proc/<pid>/stat, counted from the first one after the
#: command's name: see proc_pid_stat(5), (41).
_POLICY_FIELD = 41 - 3


def read_policy(files: Files, tid: int) -> int:
    """Read the scheduling policy of a task.

    :returns: the kernel's number, without SCHED_RESET_ON_FORK, which the
        kernel keeps apart (fs/proc/array.c, do_task_stat())
    :raises OSError: ENOENT or ESRCH if it has ended
    """
    text = files.read(files.proc / str(tid) / 'stat')
    # The name may hold anything, parentheses included.
    return int(text.rpartition(')')[2].split()[_POLICY_FIELD])


def any_real_time(files: Files, tids: Iterable[int]) -> bool:
    """Tell whether one of these tasks has a real-time or deadline policy.

    :returns: False if all of them are ordinary or have ended
    """
    for tid in tids:
        try:
            if read_policy(files, tid) in _REAL_TIME:
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended since it was listed.
    return False


def find_missing_policy(
    files: Files,
    container: Container,
    request: Request,
    read_tasks: Callable[[Container], set[int]],
) -> str | None:
    """Find a container with tasks that were never given their policy.

    A program may choose another policy for its tasks, so one task that has a
    real-time policy is enough.

    :param request: the request, with the policy
    :param read_tasks: lists the tasks of the container, libvirt_lxc included
    :returns: None if they have it, else a sentence
    :raises OSError: with the kernel's errno
    """
    if request.policy is TaskPolicy.OTHER:
        return None
    mine = read_tasks(container) - read_threads(files, container.pid)
    if not mine:
        return None
    if any_real_time(files, mine):
        return None
    return (
        f'tasks of {container.group.name} were to have the policy '
        f'{request.policy} {request.priority} and none of {len(mine)} is '
        'real-time'
    )


def give_policy(
    files: Files, container: Container, request: Request, inside: bool
) -> None:
    """Give a container's tasks, except libvirt_lxc, the requested policy.

    :param inside: whether tasks of the groups in its group get it, too
    :raises OSError: with the kernel's errno
    """
    if request.policy is TaskPolicy.OTHER:
        return
    try:
        given_up = files.set_policy(
            container.group, container.pid, NUMBERS[request.policy],
            request.priority, inside,
        )  # fmt: skip
    except OSError as err:
        what = f'cannot give the tasks of {container.group} the policy '
        what += f'{request.policy} {request.priority}'
        raise restate(err, what) from err
    if given_up:
        LOG.warning(
            '%s tasks of %s kept forking while they were given their policy: '
            'some of their children may be ordinary tasks, which run outside '
            'the reservation',
            given_up, container.group,
        )  # fmt: skip


def read_threads(files: Files, pid: int) -> set[int]:
    """List the threads of a process.

    :returns: their numbers
    :raises OSError: ENOENT if it has ended
    """
    path = files.proc / str(pid) / 'task'
    return {int(task.name) for task in path.iterdir()}

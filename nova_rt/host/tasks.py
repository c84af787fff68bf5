# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies of a container's tasks."""

from collections.abc import Iterable
import os

from nova_rt.extra_specs import TaskPolicy
from nova_rt.host.files import Files

#: The kernel's numbers; ``other`` is not here: tasks start with it.
NUMBERS = {TaskPolicy.RR: os.SCHED_RR, TaskPolicy.FIFO: os.SCHED_FIFO}

_REAL_TIME = frozenset(NUMBERS.values())

#: Field ``policy`` of /proc/<pid>/stat, counted from the first one after the
#: command's name: see proc_pid_stat(5), (41).
_POLICY_FIELD = 41 - 3


def read_policy(files: Files, tid: int) -> int:
    """Read the scheduling policy of a task.

    :returns: the kernel's number
    :raises OSError: ENOENT or ESRCH if it has ended
    """
    text = files.read(files.proc / str(tid) / 'stat')
    # The name may hold anything, parentheses included.
    return int(text.rpartition(')')[2].split()[_POLICY_FIELD])


def any_real_time(files: Files, tids: Iterable[int]) -> bool:
    """Tell whether one of these tasks has a real-time policy.

    :returns: False if all of them are ordinary or have ended
    """
    for tid in tids:
        try:
            if read_policy(files, tid) in _REAL_TIME:
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended since it was listed.
    return False


def read_threads(files: Files, pid: int) -> set[int]:
    """Read which threads a process has.

    :returns: their numbers
    :raises OSError: ENOENT if it has ended
    """
    path = files.proc / str(pid) / 'task'
    return {int(task.name) for task in path.iterdir()}

# SPDX-License-Identifier: Apache-2.0
"""Privileged: let the programs of a container raise their own priority.

In a user namespace they have no CAP_SYS_NICE that counts, and RLIMIT_RTPRIO
decides up to which real-time priority a task may go (Linux
kernel/sched/syscalls.c, user_check_sched_setscheduler()). Priorities are those
in the container's own reservation.

Nothing here trusts its caller: only descendants of a process in the partition,
which are in the partition themselves, are changed. Each is held by its
directory in proc; should its number have gone to another process meanwhile,
that one gets the limit of any other.
"""

import contextlib
import errno
import os

import nova_rt.privsep
from nova_rt.privsep import limits
from nova_rt.privsep.kernel import SystemCalls
from nova_rt.reservation.extra_specs import MAX_PRIORITY

#: Passes over processes that fork meanwhile; their children inherit the limit.
_MAX_PASSES = 100

_ENDED = (FileNotFoundError, ProcessLookupError)


@nova_rt.privsep.mount_pctxt.entrypoint
def allow(controller: int, most: int) -> None:
    """Let the processes of a container set real-time priorities.

    :param controller: its libvirt_lxc, whose own limit stays
    :param most: the highest priority
    :raises OSError: EACCES if it is not in the partition; EPERM if this
        helper has no CAP_SYS_RESOURCE; EAGAIN if the processes fork faster
        than they can be changed
    """
    _allow(SystemCalls(), int(controller), int(most))


def _allow(kernel: SystemCalls, controller: int, most: int) -> None:
    if not 1 <= most <= MAX_PRIORITY:
        raise OSError(errno.EINVAL, f'priority {most}')
    with _held(kernel, controller):
        done: set[int] = set()
        for _ in range(_MAX_PASSES):
            missing = _list_descendants(kernel, controller) - done
            for pid in missing:
                with contextlib.suppress(*_ENDED):
                    _raise_limit(kernel, pid, most)
            if not missing:
                return
            done |= missing
    raise OSError(
        errno.EAGAIN, f'the processes below {controller} fork too fast'
    )


def _held(
    kernel: SystemCalls, pid: int
) -> contextlib.AbstractContextManager[int]:
    """Hold a process of the partition by its directory in proc."""
    return limits.opened(kernel, limits.open_process(kernel, pid))


def _raise_limit(kernel: SystemCalls, pid: int, most: int) -> None:
    with _held(kernel, pid) as directory:
        kernel.limit_priority(pid, most)
        try:
            os.stat('stat', dir_fd=directory)
        except _ENDED:
            kernel.limit_priority(pid, 0)
            raise


def _list_descendants(kernel: SystemCalls, controller: int) -> set[int]:
    """List the processes that a process has started, directly or not."""
    found: set[int] = set()
    parents = [controller]
    while parents:
        parent = parents.pop()
        with contextlib.suppress(*_ENDED):
            for tid in os.listdir(f'{kernel.proc}/{parent}/task'):
                path = f'{kernel.proc}/{parent}/task/{tid}/children'
                with open(path, encoding='ascii') as file:
                    children = {int(word) for word in file.read().split()}
                parents += children - found
                found |= children
    return found

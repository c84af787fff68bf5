# SPDX-License-Identifier: Apache-2.0
"""Privileged: change the tasks of a group, and no others.

A group lists its tasks by number, and a number is another task's as soon as
the first one has ended. So a task is held by its directory in proc, which
stays the same task's: it says whether the task is in the group before it is
changed, and that it was there still afterwards. Should the number have gone to
another in between, that one is made an ordinary task again.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import errno
import os
import time
from typing import NamedTuple

from nova_rt.privsep.kernel import SystemCalls
from nova_rt.privsep.paths import Group

#: Lists of a group's tasks: cgroup v1, cgroup v2.
_LISTS = ('tasks', 'cgroup.threads')

#: Number of a policy that Python has no name for (linux/sched.h).
_SCHED_DEADLINE = 6

_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)

#: Passes over a group's tasks before they are left as they are.
_MAX_PASSES = 100

#: Between passes that only wait for tasks.
_PAUSE_S = 0.01

#: CPU time, in clock ticks of 10 ms, after which a task has left the fork that
#: it may have been in: a fork copies the page tables of some GB in that time.
_FORK_TICKS = 2

#: Seconds to wait for tasks none of which runs: more than the longest period,
#: for the rest of which a group does not run. And for all tasks, however many
#: are to share however little.
_STALLED_S = 10.0
_PATIENCE_S = 60.0

#: States of tasks, proc_pid_stat(5), that may be in the middle of a fork:
#: running or waiting for a CPU, waiting for a lock of the kernel.
_MAY_FORK = ('R', 'D')

_ENDED = (FileNotFoundError, ProcessLookupError)

#: A group that was removed since it was listed; one that is nested so deep
#: that it has no path.
_NO_GROUP = (errno.ENOENT, errno.ENODEV, errno.ENAMETOOLONG)


@dataclasses.dataclass(frozen=True)
class _Held:
    """A task.

    :ivar directory: descriptor of its directory in proc
    :ivar where: path of its group
    """

    tid: int
    directory: int
    where: str


class _Forking(NamedTuple):
    """CPU time of a task, in clock ticks: when it was changed, and now."""

    since: int
    ran: int


class Tasks:
    """The tasks of an opened group.

    :param directory: descriptor of the group's directory
    """

    def __init__(
        self, kernel: SystemCalls, group: Group, directory: int
    ) -> None:
        self._kernel = kernel
        self._group = group
        self._directory = directory

    def own(self) -> set[int]:
        """List the tasks of the group itself.

        :returns: their numbers
        :raises OSError: with the kernel's errno
        """
        return read_list(self._directory)

    def all(self) -> set[int]:
        """List the tasks of the group and of all groups in it.

        :returns: their numbers
        :raises OSError: with the kernel's errno
        """
        tasks = self.own()
        paths = list_inside(self._directory)
        # Not by recursion, and with one descriptor: a container may nest
        # groups as deep as it likes.
        while paths:
            path = paths.pop()
            try:
                inner = os.open(
                    path,
                    os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW,
                    dir_fd=self._directory,
                )
            except OSError as err:
                if err.errno not in _NO_GROUP:
                    raise
                continue
            try:
                tasks |= read_list(inner)
                paths += [f'{path}/{name}' for name in list_inside(inner)]
            except OSError as err:
                if err.errno not in _NO_GROUP:
                    raise
            finally:
                os.close(inner)
        return tasks

    def raise_to(
        self, policy: int, priority: int, keep: set[int], inside: bool
    ) -> int:
        """Give ordinary tasks a real-time policy.

        Children inherit it. So it is done when a pass has found nothing to
        change, however many tasks have come meanwhile. But a child has the
        policy that its parent had when it was copied, and is in no list until
        the fork is done (kernel/fork.c, copy_process()): so each task that was
        changed must have been seen asleep before that pass, or have run for
        longer than a fork takes. By the clock that may take its time, where
        many tasks share a small reservation.

        A program that has its real-time tasks make ordinary ones
        (SCHED_RESET_ON_FORK) can go on with that for ever: when the tasks of
        the first pass are done, the passes that find more are counted.

        :param keep: tasks that are left alone
        :param inside: whether tasks of the groups in the group get it, too
        :returns: number of tasks that were given up, and may have made
            ordinary ones
        :raises OSError: EPERM if the group has no bandwidth
        """
        waiting: dict[int, _Forking] = {}
        first: set[int] | None = None
        passes = 0
        begun_s = moved_s = time.monotonic()
        while True:
            before, waiting = waiting, self._look_again(waiting)
            found = (self.all() if inside else self.own()) - keep
            more = {
                tid for tid in found if self._raise_one(tid, policy, priority)
            }
            if not more and not waiting:
                return 0
            now_s = time.monotonic()
            if more or waiting != before:
                moved_s = now_s
            if first is None:
                first = more
            elif more and first.isdisjoint(waiting):
                passes += 1
            for tid in more:
                ran = self._read_forking(tid)
                if ran is not None:
                    waiting[tid] = _Forking(ran, ran)
            if (
                passes >= _MAX_PASSES
                or now_s - moved_s > _STALLED_S
                or now_s - begun_s > _PATIENCE_S
            ):
                return len(waiting)
            if not more:
                time.sleep(_PAUSE_S)

    def _raise_one(self, tid: int, policy: int, priority: int) -> bool:
        """Whether the task was changed."""
        with self._held(tid) as held:
            if held is None:
                return False
            kind = self._kernel.get_policy(tid)[0] & ~os.SCHED_RESET_ON_FORK
            if kind in (*_REAL_TIME, _SCHED_DEADLINE):
                return False
            try:
                self._set(held, policy, priority)
            except PermissionError:
                if held.where == self._group.below:
                    raise
                # A group inside that keeps real-time tasks out.
                return False
            return True
        return False

    def _look_again(self, waiting: dict[int, _Forking]) -> dict[int, _Forking]:
        """Find those that may still be in the same fork."""
        still = {}
        for tid, known in waiting.items():
            ran = self._read_forking(tid)
            if ran is not None and ran - known.since < _FORK_TICKS:
                still[tid] = _Forking(known.since, ran)
        return still

    def _read_forking(self, tid: int) -> int | None:
        """Read for how long a task has run that may be in a fork.

        :returns: clock ticks; None if it is in none
        """
        with self._held(tid) as held:
            if held is None:
                return None
            _, state, ran = _read_stat(held.directory)
            return ran if state in _MAY_FORK else None
        return None

    def lower(self, aside: dict[int, tuple[int, int]]) -> bool:
        """Make real-time tasks ordinary ones; those of a deadline stay.

        :param aside: gets their old state: task -> policy, priority
        :returns: whether there were any
        """
        found = False
        for _ in range(_MAX_PASSES):
            # Children inherit: when a pass finds none, there is none.
            lowered = [self._lower_one(tid, aside) for tid in self.all()]
            if not any(lowered):
                break
            found = True
        return found

    def _lower_one(self, tid: int, aside: dict[int, tuple[int, int]]) -> bool:
        with self._held(tid) as held:
            if held is None:
                return False
            was = self._kernel.get_policy(tid)
            if was[0] & ~os.SCHED_RESET_ON_FORK not in _REAL_TIME:
                return False
            self._set(held, os.SCHED_OTHER, 0)
            aside[tid] = was
            return True
        return False

    def restore(self, aside: dict[int, tuple[int, int]]) -> None:
        """Give tasks the policies that they had."""
        for tid, (policy, priority) in aside.items():
            with self._held(tid) as held:
                if held is not None:
                    self._set(held, policy, priority)

    def move_to(self, directory: int) -> None:
        """Move the tasks to a group of another hierarchy.

        :param directory: descriptor of its directory
        :raises OSError: with the kernel's errno
        """
        for tid in self.all():
            with self._held(tid) as held:
                if held is not None:
                    self._kernel.write(directory, _LISTS[0], str(tid))

    @contextlib.contextmanager
    def _held(self, tid: int) -> Iterator[_Held | None]:
        """Hold a task of the group, or of a group in it.

        A task that ends meanwhile is no error.

        :returns: None if it has ended or is in another group
        """
        with contextlib.ExitStack() as stack:
            held = None
            # It may end before its directory is opened, before its group is
            # read, and while it is held.
            with contextlib.suppress(*_ENDED):
                task = self._open(tid)
                stack.callback(os.close, task)
                where = self._where(task)
                if _is_in(where, self._group.below):
                    held = _Held(tid, task, where)
            with contextlib.suppress(*_ENDED):
                yield held

    def _open(self, tid: int) -> int:
        path = os.path.join(self._kernel.proc, str(tid))
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def _set(self, held: _Held, policy: int, priority: int) -> None:
        """Change a task, and check that it was the right one."""
        self._kernel.set_policy(held.tid, policy, priority)
        with contextlib.suppress(*_ENDED):
            self._where(held.directory)
            return
        # It has ended, before or after: who has its number now?
        with contextlib.suppress(*_ENDED):
            task = self._open(held.tid)
            try:
                ours = _is_in(self._where(task), self._group.below)
            finally:
                os.close(task)
            has = self._kernel.get_policy(held.tid)
            if not ours and has == (policy, priority):
                self._kernel.set_policy(held.tid, os.SCHED_OTHER, 0)

    def _where(self, task: int) -> str:
        """The path of a task's group."""
        return read_group(task, self._group.hierarchy)


def read_group(task: int, hierarchy: str) -> str:
    """Read which group a task is in.

    :param task: descriptor of its directory in proc
    :param hierarchy: of cgroup v1; empty for cgroup v2
    :returns: the group's path below the root of the hierarchy
    :raises OSError: ENOENT or ESRCH if the task has ended
    """
    descriptor = os.open('cgroup', os.O_RDONLY, dir_fd=task)
    # As in paths, to which it is compared. Only \n ends a line: the kernel
    # has no other character that a group's name cannot hold.
    with open(
        descriptor, encoding='utf-8', errors='surrogateescape', newline='\n'
    ) as lines:
        for line in lines:
            number, controllers, path = line.rstrip('\n').split(':', 2)
            found = hierarchy in controllers.split(',')
            if found if hierarchy else number == '0':
                return path
    return ''


def read_name_and_state(task: int) -> tuple[str, str]:
    """Read the name and the state of a task, proc_pid_stat(5).

    :param task: descriptor of its directory in proc
    :returns: the name, and the letter of the state
    :raises OSError: ENOENT or ESRCH if the task has ended
    """
    return _read_stat(task)[:2]


def _read_stat(task: int) -> tuple[str, str, int]:
    """Name and state of a task, and its CPU time in clock ticks."""
    descriptor = os.open('stat', os.O_RDONLY, dir_fd=task)
    with open(descriptor, encoding='utf-8', errors='replace') as text:
        # The name may hold anything, parentheses included.
        head, _, rest = text.read().rpartition(')')
    fields = rest.split()
    # (14) and (15), counted from the state, which is (3).
    ran = sum(map(int, fields[11:13]))
    return head.partition('(')[2], fields[0], ran


def threads(kernel: SystemCalls, pid: int) -> set[int]:
    """List the threads of a process.

    :returns: their numbers
    :raises OSError: ENOENT if there is no such process
    """
    path = os.path.join(kernel.proc, str(int(pid)), 'task')
    return {int(name) for name in os.listdir(path)}


def _is_in(path: str, group: str) -> bool:
    return path == group or path.startswith(f'{group}/')


def read_list(directory: int) -> set[int]:
    """Read which tasks are in a group, without the groups in it.

    :param directory: descriptor of the group's directory
    :returns: their numbers
    :raises OSError: with the kernel's errno
    """
    for name in _LISTS:
        try:
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory
            )
        except FileNotFoundError:
            continue
        with open(descriptor, encoding='ascii') as lines:
            return {int(line) for line in lines}
    raise FileNotFoundError(errno.ENOENT, 'the group has no list of tasks')


def list_inside(directory: int) -> list[str]:
    """List the groups in a group.

    :param directory: descriptor of the group's directory
    :returns: their names
    :raises OSError: with the kernel's errno
    """
    with os.scandir(directory) as found:
        return [
            each.name for each in found if each.is_dir(follow_symlinks=False)
        ]

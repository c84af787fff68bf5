# SPDX-License-Identifier: Apache-2.0
"""Control groups of containers, and their tasks and CPUs.

Errors are OSError with the kernel's errno and a text that names the file and
the text to write. Only the caller knows the meaning of the errno there.
"""

import abc
from collections.abc import Callable, Iterable, Iterator
import contextlib
import dataclasses
import errno
import itertools
import operator
import os
import pathlib
import time
from typing import TypeVar

from nova_rt.host.capability import Refusal
from nova_rt.host.files import Files
from nova_rt.reservation import cpulist

_Found = TypeVar('_Found')

#: The file that says which CPUs a group may use.
CPUS_FILE = 'cpuset.cpus'

#: The kernel gives the bandwidth of a removed group back after a grace period
#: of RCU (kernel/sched/core.c, sched_unregister_group_rcu()), and holds used
#: bandwidth until the end of its period, of at most 4.2 s: a write that is
#: refused now may be accepted then. Seconds.
PATIENCE_S = 5.0
PAUSE_S = 0.05

#: A group without the file; one that is nested so deep that it has no path.
_NO_GROUP = (errno.ENOENT, errno.ENODEV, errno.ENAMETOOLONG)

#: Answers that bandwidth on its way back can explain.
_MAY_PASS = (errno.EINVAL, errno.EBUSY)

#: Answers to a write that judge the written value: not free, promised to
#: others, not on these CPUs. Any other answer is about the writer: the
#: privileged helper lacks a capability, memory or descriptors.
VERDICTS = (errno.EINVAL, errno.EBUSY, errno.ERANGE, errno.ENOSPC)


def restate(err: OSError, what: str) -> OSError:
    """Make an error that names the attempted operation.

    The text of the original error is quoted if it has no errno, or says more
    than its errno. Names of groups may be any bytes; the result is safe for
    logs, messages and a database.

    :param what: the operation, such as ``cannot read PATH``
    :returns: an error with the same errno
    """
    said = err.strerror or str(err)
    if not err.errno or said != os.strerror(err.errno):
        what = f'{what}: {said}'
    return OSError(err.errno, what.encode(errors='backslashreplace').decode())


@dataclasses.dataclass(frozen=True)
class Container:
    """A running container as its host sees it.

    :ivar pid: of its libvirt_lxc process, which is the domain's ID
    :ivar levels: its groups, each in the one before it: the first is in the
        partition, the last has its tasks
    """

    pid: int
    levels: tuple[pathlib.Path, ...]

    @property
    def group(self) -> pathlib.Path:
        """The group of its tasks."""
        return self.levels[-1]


@contextlib.contextmanager
def leaving_out() -> Iterator[None]:
    """Ignore the error of a group that is gone, or never had a path."""
    try:
        yield
    except OSError as err:
        if err.errno not in _NO_GROUP:
            raise


class Hierarchy(abc.ABC):
    """The control groups of the cpu controller.

    :ivar root: the host's own group
    """

    #: File with the tasks of a group.
    _TASKS: str

    def __init__(self, files: Files, root: pathlib.Path) -> None:
        self.files = files
        self.root = root

    # Containers

    @abc.abstractmethod
    def find_group(self, pid: int) -> pathlib.Path:
        """Find the group that a process is in.

        :returns: the group's directory
        :raises OSError: ENOENT if there is no such process or group
        """

    @abc.abstractmethod
    def read_cpus(self, container: Container) -> tuple[int, ...]:
        """Read the CPUs that a container may use.

        :returns: CPU numbers, ascending
        :raises OSError: ENOENT if there is no such process or group
        """

    @abc.abstractmethod
    def find_cpusets(
        self, container: Container, partition: pathlib.Path
    ) -> tuple[pathlib.Path, ...]:
        """List the groups that confine a container to its CPUs.

        :returns: the writable ones, each in the one before it; the last one
            is the container's own
        """

    @abc.abstractmethod
    def confines(self, cpus: tuple[int, ...]) -> bool:
        """Tell whether a group with this list of CPUs is confined to it."""

    @abc.abstractmethod
    def move_tasks_to_cpuset(self, container: Container) -> None:
        """Move the tasks into the last of these groups, if they are not.

        :raises OSError: with the kernel's errno
        """

    @abc.abstractmethod
    def find_reserving(self, container: Container) -> tuple[pathlib.Path, ...]:
        """List the groups with the files of a container's reservation.

        :returns: in every hierarchy
        """

    def find_container(self, pid: int, partition: pathlib.Path) -> Container:
        """Find the groups of a container.

        :param pid: its libvirt_lxc process
        :returns: the container
        :raises OSError: ENOENT if there is no such process, or if it is in
            no group below the partition
        """
        group = self.find_group(pid)
        names: tuple[str, ...] = ()
        if group.is_relative_to(partition):
            names = group.relative_to(partition).parts
        if not names:
            raise OSError(
                errno.ENOENT, f'{group} is not below the partition {partition}'
            )
        levels = itertools.accumulate(
            names, operator.truediv, initial=partition
        )
        return Container(pid, tuple(levels)[1:])

    def _read_group(self, pid: int, controller: str) -> str:
        """Read the path of a process's group below the hierarchy's root.

        :param controller: of a hierarchy of cgroup v1; empty for cgroup v2
        """
        path = self.files.proc / str(pid) / 'cgroup'
        # Names of groups hold any character but \n; other programs of the host
        # make groups as well.
        for line in filter(None, self.read(path).split('\n')):
            _, controllers, group = line.split(':', 2)
            # That of cgroup v2 is listed without any.
            if controller in controllers.split(','):
                return group.lstrip('/')
        raise OSError(
            errno.ENOENT, f'no {controller or "cpu"} group in {path}'
        )

    def resolve_partition(self, name: str) -> pathlib.Path | None:
        """Find the directory of a partition.

        :param name: of a group below the root, as the operator writes it
        :returns: None if the name is invalid
        """
        parts = name.strip('/').split('/')
        if any(part in ('', '.', '..') for part in parts):
            return None
        return self.root.joinpath(*parts)

    # Groups and their files

    def read(self, path: pathlib.Path) -> str:
        """Read a file.

        :returns: its text
        :raises OSError: with the kernel's errno
        """
        try:
            return self.files.read(path)
        except OSError as err:
            raise restate(err, f'cannot read {path}') from err

    def read_cpu_list(self, path: pathlib.Path) -> tuple[int, ...]:
        """Read a file that lists CPUs.

        :returns: CPU numbers, ascending
        :raises OSError: with the kernel's errno
        """
        return cpulist.parse(self.read(path))

    def read_tasks(self, group: pathlib.Path) -> set[int]:
        """List the tasks of a group, without the groups in it.

        :returns: their numbers
        :raises OSError: with the kernel's errno
        """
        lines = self.read(group / self._TASKS).splitlines()
        # On cgroup v2, a task that is just going is listed as 0.
        return {int(line) for line in lines} - {0}

    def read_tasks_inside(self, group: pathlib.Path) -> set[int]:
        """List the tasks of a group and of all groups in it.

        :returns: their numbers
        :raises OSError: with the kernel's errno
        """
        # From the outermost inwards: a task that moves inwards meanwhile is
        # seen. Not by recursion: a container nests groups as it likes.
        tasks = self.read_tasks(group)
        groups = [group]
        while groups:
            inside = self.read_inside(groups.pop(), self.read_tasks)
            tasks.update(*inside.values())
            groups += inside
        return tasks

    def read_inside(
        self, group: pathlib.Path, read: Callable[[pathlib.Path], _Found]
    ) -> dict[pathlib.Path, _Found]:
        """Read a file or value of each group in a group.

        A group without the file is left out: it is being removed, or, on
        cgroup v2, the cpu controller is not enabled for it. A group that is
        gone has no groups in it.

        :param read: reads the value of one group
        :returns: group -> value
        :raises OSError: with the kernel's errno
        """
        found = {}
        with leaving_out():
            for path in self.files.groups(group):
                with leaving_out():
                    found[path] = read(path)
        return found

    def write(
        self,
        group: pathlib.Path,
        writes: Iterable[tuple[str, str]],
        aside: bool = False,
    ) -> None:
        """Write to files of a group, in order.

        :param writes: name of a file and text
        :param aside: whether its real-time tasks are set aside
        :raises Refusal: if the kernel refuses one; see :class:`Patience`
        :raises OSError: if one was not done for any other reason
        """
        put = self.files.write_aside if aside else self.files.write
        for name, text in writes:
            try:
                put(group / name, text)
            except OSError as err:
                what = f'cannot write {text!r} to {group / name}'
                said = restate(err, what)
                if err.errno in VERDICTS:
                    said = Refusal(*said.args)
                raise said from err


class Patience:
    """A time budget of ``PATIENCE_S`` to wait for returning bandwidth.

    Where many writes are refused, the first ones use it up. No caller waits
    while it holds a lock.
    """

    def __init__(self, left_s: float | None = None) -> None:
        self._left_s = PATIENCE_S if left_s is None else left_s

    def repeat(self, write: Callable[[], _Found]) -> _Found:
        """Repeat a write while the kernel refuses it for want of bandwidth.

        :param write: may be called again after a part of it was done
        :returns: its result
        :raises Refusal: if the kernel still refuses it at the end
        :raises OSError: if it failed for any other reason
        """
        while True:
            try:
                return write()
            except OSError as err:
                if err.errno not in _MAY_PASS or not self.pause():
                    raise

    def pause(self) -> bool:
        """Wait for a moment, if there is time left.

        :returns: whether there was
        """
        if self._left_s <= 0:
            return False
        time.sleep(PAUSE_S)
        self._left_s -= PAUSE_S
        return True


def describe_other_cpus(
    group: pathlib.Path, wanted: Iterable[int], found: Iterable[int]
) -> str:
    """Describe a container that runs on other CPUs than its server's.

    :returns: a sentence
    """
    return (
        f'{group.name}: expected CPUs {cpulist.render(wanted)}, '
        f'found {cpulist.render(found)}'
    )

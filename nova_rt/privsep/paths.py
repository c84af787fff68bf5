# SPDX-License-Identifier: Apache-2.0
"""Privileged: from a path that a caller names to a group that it may have.

The path is only words: they are compared with the configured partition, and
the directories are then opened one in the other, from the mount point of the
hierarchy, through no link and onto no other file system. Later actions
use the descriptor: it is the directory that was judged, even if the path is
another by then.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import enum
import errno
import os

from nova_rt.privsep.kernel import SystemCalls

#: Of a component of a path; the kernel's NAME_MAX.
_LONGEST = 255

#: The hierarchies of cgroup v1 that are needed, by their mount points; the
#: first may be a link to cpu,cpuacct.
_V1 = ('cpu', 'cpuset')

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Place(enum.Enum):
    """The place of a group, seen from the partition."""

    #: The group right above it.
    PARENT = enum.auto()
    PARTITION = enum.auto()
    #: In it, at any depth.
    INSIDE = enum.auto()
    ELSEWHERE = enum.auto()


@dataclasses.dataclass(frozen=True)
class Group:
    """A group by its words.

    :ivar hierarchy: of cgroup v1; empty for cgroup v2
    :ivar mount: the mount point of the hierarchy
    :ivar names: from there, one in the other
    :ivar partition: names of the partition
    """

    hierarchy: str
    mount: str
    names: tuple[str, ...]
    partition: tuple[str, ...]

    @property
    def place(self) -> Place:
        """The place of the group, seen from the partition."""
        depth = len(self.partition)
        if self.names[:depth] == self.partition:
            return Place.INSIDE if self.names[depth:] else Place.PARTITION
        if self.names == self.partition[:-1]:
            return Place.PARENT
        return Place.ELSEWHERE

    @property
    def below(self) -> str:
        """The path as /proc/<pid>/cgroup has it."""
        return '/' + '/'.join(self.names)


def find_counterpart(
    kernel: SystemCalls, group: Group, hierarchy: str
) -> Group:
    """Return the group of the same names in another hierarchy of cgroup v1.

    :param hierarchy: name of its mount point
    :returns: that group, by its words
    """
    mount = f'{kernel.cgroup}/{hierarchy}'
    return dataclasses.replace(group, hierarchy=hierarchy, mount=mount)


def refuse(path: object, partition: str) -> PermissionError:
    """Make the error for a path that is not for nova_rt.

    :returns: EACCES, with the bounds of the helper
    """
    return PermissionError(
        errno.EACCES,
        f'not a path for nova_rt: {path}; the privileged helper works in '
        f'{partition!r} alone, the partition of the configuration that it '
        'was started with',
    )


def split(kernel: SystemCalls, path: str) -> tuple[Group, str]:
    """Read a path as a group and the name of something in it.

    :param path: below the mount point of the control groups
    :returns: the group, and the name
    :raises OSError: EACCES for any other path
    """
    partition = kernel.partition
    names = _words(partition.strip('/'))
    start = f'{kernel.cgroup}/'
    if names is None or not isinstance(path, str):
        raise refuse(path, partition)
    words = _words(path.removeprefix(start))
    if not path.startswith(start) or words is None:
        raise refuse(path, partition)
    hierarchy = ''
    mount = kernel.cgroup
    if not _is_unified(kernel):
        hierarchy, *rest = words
        words = tuple(rest)
        mount = start + hierarchy
        if hierarchy not in _V1 or not words:
            raise refuse(path, partition)
    return Group(hierarchy, mount, words[:-1], names), words[-1]


def _words(path: str) -> tuple[str, ...] | None:
    """The components of a path; None if one is no plain name."""
    words = tuple(path.split('/'))
    for word in words:
        plain = word not in ('', '.', '..') and word.isprintable()
        if not plain or len(os.fsencode(word)) > _LONGEST:
            return None
    return words


def _is_unified(kernel: SystemCalls) -> bool:
    """Whether the control groups are cgroup v2: one hierarchy."""
    descriptor = os.open(kernel.cgroup, _DIRECTORY)
    try:
        return kernel.holds_groups(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened(kernel: SystemCalls, group: Group) -> Iterator[int]:
    """Open the directory of a group.

    :returns: its descriptor, for as long as the context lasts
    :raises OSError: with the kernel's errno; EACCES if there is a link, or
        something else is mounted, on the way
    """
    wrong = refuse(f'{group.mount}{group.below}', '/'.join(group.partition))
    descriptor = os.open(group.mount, _DIRECTORY)
    try:
        if not kernel.holds_groups(descriptor):
            raise wrong
        device = os.fstat(descriptor).st_dev
        for name in group.names:
            try:
                inner = os.open(
                    name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor
                )
            except OSError as err:
                if err.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise wrong from err
                raise
            os.close(descriptor)
            descriptor = inner
            if os.fstat(descriptor).st_dev != device:
                raise wrong
        yield descriptor
    finally:
        os.close(descriptor)

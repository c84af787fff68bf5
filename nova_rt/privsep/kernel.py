# SPDX-License-Identifier: Apache-2.0
"""The machine as the privileged functions use it: they decide, this acts.

Everything is reached by the descriptor of a directory that was opened before.
Tests put another machine behind it.
"""

import os
import resource
import stat
import time

from oslo_config import cfg

from nova_rt import conf

#: The file systems of control groups, as /proc/self/mountinfo calls them.
_GROUPS = ('cgroup', 'cgroup2')


class SystemCalls:
    """The machine that this process runs on.

    Every method raises OSError with the kernel's errno.

    :ivar cgroup: where the control groups are mounted
    :ivar proc: mount point of proc
    :ivar run: directory of run-time files
    """

    cgroup = '/sys/fs/cgroup'
    proc = '/proc'
    run = '/run'

    @property
    def partition(self) -> str:
        """The group that containers are in, by this process's configuration.

        The helper has one of its own, from the files that it was started
        with: the caller cannot choose another.
        """
        conf.register_opts(cfg.CONF)
        return cfg.CONF.nova_rt.partition or default_partition(self.cgroup)

    def holds_groups(self, directory: int) -> bool:
        """Tell whether a directory is in a control group file system.

        By its device, which statfs() would say as well: Python has no word
        for the type of a file system.

        :param directory: a descriptor
        :returns: whether the device is mounted as one
        """
        device = os.fstat(directory).st_dev
        wanted = f'{os.major(device)}:{os.minor(device)}'
        path = os.path.join(self.proc, 'self', 'mountinfo')
        with open(
            path, encoding='utf-8', errors='replace', newline='\n'
        ) as lines:
            for line in lines:
                mount, _, source = line.partition(' - ')
                if mount.split()[2] == wanted:
                    return source.split()[0] in _GROUPS
        return False

    def read(self, directory: int, name: str) -> str:
        """Read a file of plain text.

        :returns: its text without the white space around it
        """
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
        )
        with open(descriptor, encoding='ascii') as file:
            return file.read().strip()

    def write(self, directory: int, name: str, text: str) -> None:
        """Write to a file that is there, at once: the errno is the answer."""
        descriptor = os.open(
            name,
            os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC,
            dir_fd=directory,
        )
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def make_group(self, directory: int, name: str) -> None:
        """Make a group."""
        os.mkdir(name, 0o755, dir_fd=directory)

    def remove_group(self, directory: int, name: str) -> None:
        """Remove a group without tasks."""
        os.rmdir(name, dir_fd=directory)

    def read_age_s(self, directory: int) -> float:
        """Read for how long a group has existed, at least.

        By the time of the last change, which nobody can set, unlike the other
        times. In a file system of control groups it is when the directory was
        made, changed, or read again after it had been forgotten
        (fs/kernfs/inode.c): never before it was made.

        :param directory: a descriptor
        :returns: seconds; negative if the clock was set back
        """
        return time.time() - os.fstat(directory).st_ctime

    def take_file(self, directory: int, name: str) -> None:
        """Make a file root's, and writable for no other."""
        descriptor = os.open(
            name,
            os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC,
            dir_fd=directory,
        )
        try:
            self.take(descriptor)
        finally:
            os.close(descriptor)

    def take(self, descriptor: int) -> None:
        """Make an open file root's, and writable for no other."""
        os.fchown(descriptor, 0, 0)
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & 0o022:
            os.fchmod(descriptor, mode & ~0o022)

    def get_policy(self, tid: int) -> tuple[int, int]:
        """Read a task's policy, SCHED_RESET_ON_FORK included, and priority.

        :returns: both
        """
        return os.sched_getscheduler(tid), os.sched_getparam(
            tid
        ).sched_priority

    def limit_priority(self, pid: int, most: int) -> None:
        """Set the real-time priorities that a process may take itself."""
        resource.prlimit(pid, resource.RLIMIT_RTPRIO, (most, most))

    def set_policy(self, tid: int, policy: int, priority: int) -> None:
        """Give a task a policy."""
        os.sched_setscheduler(tid, policy, os.sched_param(priority))


def default_partition(cgroup: str) -> str:
    """Find out where libvirt puts containers on this host.

    Source: libvirt src/util/vircgroup.c, virCgroupNewMachine(): systemd is
    asked for a scope in ``machine.slice`` where it runs.

    :param cgroup: where the control groups are mounted
    :returns: name of a group below the root of the hierarchy
    """
    systemd = os.path.join(cgroup, 'systemd', 'system.slice')
    unified = os.path.join(cgroup, 'system.slice')
    if os.path.isdir(systemd) or os.path.isdir(unified):
        return 'machine.slice'
    return 'machine'

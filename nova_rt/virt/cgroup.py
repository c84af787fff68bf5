# SPDX-License-Identifier: Apache-2.0
"""Control groups: where a container is, what it holds, and how to change it.

Errors are OSError with the kernel's errno and a text that names the file and
what was to be written: whoever calls knows what the errno means there.
"""

from collections.abc import Sequence
import errno
import itertools
import os
import pathlib
import time

from nova_rt import cpulist
from nova_rt.virt.files import Files
from nova_rt.virt.interfaces import Held, Interface

#: The kernel gives the bandwidth of a removed group back after a grace period
#: of RCU (kernel/sched/core.c, sched_unregister_group_rcu()): what is refused
#: now may be accepted a little later. Seconds.
PATIENCE_S = 2.0
_PAUSE_S = 0.05

#: Answers that bandwidth on its way back can explain.
_MAY_PASS = (errno.EINVAL, errno.EBUSY)

#: What the errno of a refused write means.
ADVICE = {
    errno.EINVAL: 'the kernel refuses the numbers: more bandwidth than is '
    'free in the group above, or a runtime above the period',
    errno.EBUSY: 'the kernel has promised the bandwidth already, or '
    'real-time tasks run in the group',
    errno.EPERM: 'the group has no bandwidth, or the privileged helper '
    'does not run or lacks CAP_SYS_NICE: look at [nova_rt_privileged]',
    errno.EACCES: 'the privileged helper may not write there: look at '
    '[nova_rt_privileged]',
    errno.ENOENT: 'the group or its file is gone: the container has ended, '
    'or the kernel lost the interface',
    errno.ENODEV: 'the group was removed: the container has ended',
    errno.ESRCH: 'the process is gone: the container has ended',
    errno.EROFS: 'the control groups are mounted read-only',
    errno.EAGAIN: 'the tasks of the container fork too fast',
}


def told(err: OSError, what: str) -> OSError:
    """The same errno, with what was tried as its text.

    What has no errno of the kernel, or more to say than it, is quoted.
    """
    said = err.strerror or str(err)
    if err.errno and said == os.strerror(err.errno):
        return OSError(err.errno, what)
    return OSError(err.errno, f'{what}: {said}')


class Tree:
    """The hierarchy of groups in which an interface has its files.

    :ivar root: the host's own group
    """

    def __init__(self, files: Files, interface: Interface) -> None:
        self.files = files
        self.interface = interface
        self.root = root_of(files, interface.version)

    def of_process(self, pid: int) -> pathlib.Path:
        """The group of a process.

        :raises OSError: ENOENT if there is no such process or group
        """
        return self.root / self._below_root(pid, 'cpu')

    def cpus_of(self, pid: int) -> tuple[int, ...]:
        """The CPUs that the group of a process may use.

        :raises OSError: ENOENT if there is no such process or group
        """
        if self.interface.version == 1:
            group = self.files.cgroup / 'cpuset'
            path = group / self._below_root(pid, 'cpuset') / 'cpuset.cpus'
        else:
            path = self.of_process(pid) / 'cpuset.cpus.effective'
        try:
            return cpulist.parse(self.files.read(path))
        except OSError as err:
            raise told(err, f'cannot read {path}') from err

    def _below_root(self, pid: int, controller: str) -> str:
        path = self.files.proc / str(pid) / 'cgroup'
        try:
            lines = self.files.read(path).splitlines()
        except OSError as err:
            raise told(err, f'cannot read {path}') from err
        for line in lines:
            number, controllers, group = line.split(':', 2)
            if self.interface.version == 1:
                found = controller in controllers.split(',')
            else:
                found = number == '0'
            if found:
                return group.lstrip('/')
        raise OSError(errno.ENOENT, f'no {controller} group in {path}')

    def levels(
        self, group: pathlib.Path, partition: pathlib.Path
    ) -> list[pathlib.Path]:
        """The groups from below the partition down to a group.

        :raises OSError: ENOENT if the group is not below the partition
        """
        if partition not in group.parents:
            raise OSError(
                errno.ENOENT, f'{group} is not below the partition {partition}'
            )
        above = [path for path in group.parents if partition in path.parents]
        return [*reversed(above), group]

    def read(self, group: pathlib.Path) -> Held:
        """What a group holds.

        :raises OSError: with the kernel's errno; EIO for a text that is not
            of this interface
        """
        texts = {}
        for name in self.interface.files:
            try:
                texts[name] = self.files.read(group / name)
            except OSError as err:
                raise told(err, f'cannot read {group / name}') from err
        try:
            return self.interface.parse(texts)
        except ValueError as err:
            raise OSError(errno.EIO, f'{group} reads {texts}') from err

    def held_inside(self, group: pathlib.Path) -> dict[str, Held]:
        """What the groups in a group hold, by name.

        A group without the files holds nothing: it is being removed, or, on
        cgroup v2, the cpu controller is not enabled for it.

        :raises OSError: with the kernel's errno
        """
        inside = {}
        for path in self.files.groups(group):
            try:
                inside[path.name] = self.read(path)
            except OSError as err:
                if err.errno not in (errno.ENOENT, errno.ENODEV):
                    raise
        return inside

    def tasks(self, group: pathlib.Path) -> set[int]:
        """The tasks of a group, without those of the groups in it.

        :raises OSError: with the kernel's errno
        """
        v1 = self.interface.version == 1
        path = group / ('tasks' if v1 else 'cgroup.threads')
        try:
            return {int(line) for line in self.files.read(path).splitlines()}
        except OSError as err:
            raise told(err, f'cannot read {path}') from err

    def hold(self, groups: Sequence[pathlib.Path], wish: Held) -> None:
        """Make nested groups hold the same share.

        Bandwidth goes back from the innermost group outwards and is taken
        from the outermost inwards, as the sums in the kernel need it. If all
        hold the share already, nothing is written.

        :param groups: each in the one before it
        :raises OSError: with the errno of the write that was refused
        """
        held = [self.read(group) for group in groups]
        same = list(itertools.takewhile(lambda each: each == wish, held))
        change = list(zip(groups, held, strict=True))[len(same) :]
        for group, old in reversed(change):
            self.write(group, self.interface.lower(old, wish))
        for group, _ in change:
            self.write(group, self.interface.raise_to(wish))

    def write(
        self, group: pathlib.Path, writes: Sequence[tuple[str, str]]
    ) -> None:
        """Write to files of a group, in order.

        What the kernel refuses for want of bandwidth is repeated for
        ``PATIENCE_S``.

        :raises OSError: with the errno of the write that was refused
        """
        deadline = time.monotonic() + PATIENCE_S
        for name, text in writes:
            while True:
                try:
                    self.files.write(group / name, text)
                    break
                except OSError as err:
                    late = time.monotonic() >= deadline
                    if err.errno not in _MAY_PASS or late:
                        what = f'cannot write {text!r} to {group / name}'
                        raise told(err, what) from err
                time.sleep(_PAUSE_S)


def root_of(files: Files, version: int) -> pathlib.Path:
    """Mount point of the hierarchy that has the cpu controller."""
    return files.cgroup / 'cpu' if version == 1 else files.cgroup


def default_partition(files: Files) -> str:
    """Where libvirt puts containers on this host.

    Source: libvirt src/util/vircgroup.c, virCgroupNewMachine(): systemd is
    asked for a scope in ``machine.slice`` where it runs.
    """
    systemd = files.cgroup / 'systemd' / 'system.slice'
    unified = files.cgroup / 'system.slice'
    if systemd.is_dir() or unified.is_dir():
        return 'machine.slice'
    return 'machine'

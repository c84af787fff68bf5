# SPDX-License-Identifier: Apache-2.0
"""Control groups: where a container is, what it holds, and how to change it.

Errors are OSError with the kernel's errno and a text that names the file and
what was to be written: whoever calls knows what the errno means there.
"""

from collections.abc import Callable, Iterator, Sequence
import errno
import itertools
import os
import pathlib
import time
from typing import TypeVar

from nova_rt import cpulist
from nova_rt.host import interfaces, policy
from nova_rt.host.files import Files
from nova_rt.host.interfaces import Held, Interface

_Report = TypeVar('_Report')

#: The kernel gives the bandwidth of a removed group back after a grace period
#: of RCU (kernel/sched/core.c, sched_unregister_group_rcu()): what is refused
#: now may be accepted a little later. Seconds.
PATIENCE_S = 2.0
PAUSE_S = 0.05

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
            return self.cpus_in(self.of_process(pid))
        try:
            return cpulist.parse(self.files.read(path))
        except OSError as err:
            raise told(err, f'cannot read {path}') from err

    def cpus_in(self, group: pathlib.Path) -> tuple[int, ...]:
        """The CPUs that a group of cgroup v2 may use.

        Without a cpuset of its own, those of the group above.

        :raises OSError: ENOENT if there is no such group
        """
        path = group / 'cpuset.cpus.effective'
        try:
            return cpulist.parse(self.files.read(path))
        except FileNotFoundError as err:
            if group == self.root or not group.is_dir():
                raise told(err, f'cannot read {path}') from err
        except OSError as err:
            raise told(err, f'cannot read {path}') from err
        return self.cpus_in(group.parent)

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

    # What a kernel reports, where it does (Interface.reports)

    def _report(
        self,
        group: pathlib.Path,
        name: str | None,
        parse: Callable[[str], dict[int, _Report]],
    ) -> dict[int, _Report]:
        assert name is not None
        try:
            text = self.files.read(group / name)
        except OSError as err:
            raise told(err, f'cannot read {group / name}') from err
        try:
            return parse(text)
        except ValueError as err:
            raise OSError(errno.EIO, f'{group / name} reads {text!r}') from err

    def supply(self) -> dict[int, interfaces.Supply]:
        """CPU -> what the kernel has for reservations on it.

        :raises OSError: with the kernel's errno
        """
        return self._report(
            self.root,
            self.interface.effective_file,
            interfaces.parse_supply,
        )

    def servers(self, group: pathlib.Path) -> dict[int, interfaces.Server]:
        """CPU -> what the kernel gives the tasks of a group on it.

        That is without what groups in the group have reserved of it.

        :raises OSError: with the kernel's errno
        """
        return self._report(
            group, self.interface.effective_file, interfaces.parse_servers
        )

    def differs(
        self, group: pathlib.Path, wish: Held, cpus: Sequence[int]
    ) -> str | None:
        """Whether a group has a share on these CPUs and on no other.

        What groups in the group have reserved of it counts: it is theirs to
        divide.

        :returns: None if so, else what differs, as a sentence
        :raises OSError: with the kernel's errno
        """
        assert wish.every is not None and wish.every.runtime_us is not None
        share = interfaces.Server(
            wish.every.runtime_us * 1000, wish.every.period_us * 1000
        )
        found = self.servers(group)
        if found == dict.fromkeys(cpus, share):
            return None
        inside: dict[int, int] = {}
        levels = 1
        for path, held in self.reservations(group):
            levels += 1
            assert held.every is not None
            for cpu in self.cpus_in(path):
                bw = inside.get(cpu, 0) + held.every.kernel_bw
                inside[cpu] = bw
        for cpu in sorted({*cpus, *found}):
            server = found.get(cpu)
            if cpu not in cpus:
                return f'{group} has {server} on CPU {cpu}, to have none there'
            if server == share:
                continue
            own = server.kernel_bw if server else 0
            # Each of them is rounded down.
            if own + inside.get(cpu, 0) + levels < wish.every.kernel_bw:
                return (
                    f'{group} was to have {share} on CPU {cpu} and has '
                    f'{server or "nothing"}'
                )
        return None

    def usage(self, group: pathlib.Path) -> dict[int, interfaces.Usage]:
        """CPU -> what a group did with its reservation on it.

        :raises OSError: with the kernel's errno
        """
        return self._report(
            group, self.interface.stat_file, interfaces.parse_usage
        )

    def reservations(
        self, group: pathlib.Path, but: pathlib.Path | None = None
    ) -> Iterator[tuple[pathlib.Path, Held]]:
        """The groups below a group that reserve, and what.

        Groups without a reservation are looked through; what is in one with a
        reservation is part of it. A group without the files is being removed,
        or nothing in it can have them.

        :param but: leave out this one and what is in it
        :raises OSError: with the kernel's errno
        """
        try:
            inside = self.held_inside(group)
        except FileNotFoundError:
            return
        for name, held in inside.items():
            path = group / name
            if path == but:
                continue
            if held.without_bound:
                yield from self.reservations(path, but)
            elif held.cost_ppm:
                yield path, held

    def tasks_inside(self, group: pathlib.Path) -> set[int]:
        """The tasks of a group and of all groups in it.

        :raises OSError: with the kernel's errno
        """
        tasks = self.tasks(group)
        for path in self.files.groups(group):
            try:
                tasks |= self.tasks_inside(path)
            except OSError as err:
                # Removed since it was listed.
                if err.errno not in (errno.ENOENT, errno.ENODEV):
                    raise
        return tasks

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

    def hold_in(
        self, groups: Sequence[pathlib.Path], one: pathlib.Path, wish: Held
    ) -> None:
        """Make one of nested groups hold a share and all others none.

        For kernels on which a group without a reservation lives on that of
        the group above. They refuse to move real-time tasks from one
        reservation to another, so such tasks are set aside for the moment: a
        program may have made itself real-time before it had a reservation.

        :param groups: each in the one before it
        :raises OSError: with the errno of the write that was refused
        """
        for group in groups:
            self.enable(group)
        held = {group: self.read(group) for group in groups}
        for group in groups:
            if group != one and not held[group].without_bound:
                self._move(group, self.interface.unbound(held[group]))
        if held[one] == wish:
            return
        writes = self.interface.raise_to(wish)
        if held[one].without_bound:
            self._move(one, writes)
        else:
            self.write(one, writes)

    def enable(self, group: pathlib.Path) -> None:
        """See that a group of cgroup v2 has the files of the interface.

        :raises OSError: with the kernel's errno
        """
        control = group.parent / 'cgroup.subtree_control'
        if 'cpu' not in self.files.read(control).split():
            self.files.write(control, '+cpu')

    def _move(
        self, group: pathlib.Path, writes: Sequence[tuple[str, str]]
    ) -> None:
        self.write(group, writes, moves=True)

    def write(
        self,
        group: pathlib.Path,
        writes: Sequence[tuple[str, str]],
        moves: bool = False,
    ) -> None:
        """Write to files of a group, in order.

        What the kernel refuses for want of bandwidth is repeated for
        ``PATIENCE_S``.

        :param moves: whether it takes the tasks in it to another reservation
        :raises OSError: with the errno of the write that was refused
        """
        deadline = time.monotonic() + PATIENCE_S
        for name, text in writes:
            while True:
                try:
                    if moves and policy.any_real_time(
                        self.files, self.tasks_inside(group)
                    ):
                        self.files.write_aside(group / name, text)
                    else:
                        self.files.write(group / name, text)
                    break
                except OSError as err:
                    late = time.monotonic() >= deadline
                    if err.errno not in _MAY_PASS or late:
                        what = f'cannot write {text!r} to {group / name}'
                        raise told(err, what) from err
                time.sleep(PAUSE_S)


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

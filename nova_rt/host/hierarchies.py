# SPDX-License-Identifier: Apache-2.0
"""The two ways in which a kernel arranges control groups."""

import errno
import functools
import pathlib

from nova_rt import exception
from nova_rt.host.cgroup import CPUS_FILE, Container, Hierarchy
from nova_rt.host.cpus import read_possible
from nova_rt.host.files import Files
from nova_rt.host.interface import Usage


class V1(Hierarchy):
    """Cgroup v1: the cpu controller and the cpusets are apart."""

    _TASKS = 'tasks'

    def __init__(self, files: Files) -> None:
        super().__init__(files, files.cgroup / 'cpu')

    def check_cpusets(self) -> None:
        """See that containers can be kept on their CPUs.

        :raises HostNotPrepared: if there are no cpusets beside the cpu
            controller
        :raises OSError: with the kernel's errno
        """
        path = self._cpusets / CPUS_FILE
        try:
            self.read(path)
        except (FileNotFoundError, NotADirectoryError) as err:
            raise exception.HostNotPrepared(
                'cgroup v1 has no cpuset controller beside its cpu '
                f'controller ({path} is missing), so that no server could be '
                f'kept on its CPUs: make the directory {self._cpusets} and '
                f'run mount -t cgroup -o cpuset cpuset {self._cpusets}; if '
                'the kernel refuses, boot it without cgroup_no_v1, or boot '
                'one with CONFIG_CPUSETS_V1=y'
            ) from err

    def find_group(self, pid: int) -> pathlib.Path:
        """See :meth:`Hierarchy.find_group`."""
        return self.root / self._read_group(
            pid, 'cpu', lambda _, controllers: 'cpu' in controllers
        )

    def read_cpus(self, container: Container) -> tuple[int, ...]:
        """See :meth:`Hierarchy.read_cpus`."""
        group = self._cpusets / self._read_cpuset(container)
        return self.read_cpu_list(group / CPUS_FILE)

    def find_cpusets(
        self, container: Container, partition: pathlib.Path
    ) -> tuple[pathlib.Path, ...]:
        """The partition's as well, which the kernel shrinks like all."""
        return self._in_cpuset(partition, *container.levels)

    def confines(self, cpus: tuple[int, ...]) -> bool:
        """An empty list is that of a group without any CPU."""
        return True

    def gather(self, container: Container) -> None:
        """Out of an empty cpuset the kernel has moved them outwards."""
        (own,) = self._in_cpuset(container.group)
        if self._cpusets / self._read_cpuset(container) != own:
            self.files.gather(container.group)

    def find_reserving(self, container: Container) -> tuple[pathlib.Path, ...]:
        """The levels, in both hierarchies."""
        return container.levels + tuple(
            path
            for path in self._in_cpuset(*container.levels)
            if path.is_dir()
        )

    def read_usage(self, container: Container) -> dict[int, Usage] | None:
        """Read the CPU time of a container's tasks, ordinary ones included.

        Nobody counts its budgets. The scheduler adds up this time itself:
        cpuacct.usage_all would guess it from the ticks that met a task, and
        a task that is throttled at each tick always meets it. Source:
        kernel/sched/cpuacct.c, __cpuacct_percpu_seq_show().

        A process that enters a container from outside may run on any CPU for
        a moment, between the control group that counts and the cpuset. Where
        a CPU goes off line, the container may no longer use it.

        :returns: CPU that it may use, or on which it has run -> since the
            container was started; None where cpuacct is not mounted
        :raises OSError: with the kernel's errno; EIO for what is no such list
        """
        below = container.levels[0].relative_to(self.root)
        path = self.files.cgroup / 'cpuacct' / below / 'cpuacct.usage_percpu'
        try:
            text = self.read(path)
        except FileNotFoundError:
            return None
        try:
            times = zip(self._possible, map(int, text.split()), strict=True)
            used_ns = dict(times)
        except ValueError as err:
            raise OSError(
                errno.EIO, f'{path} has not one time of each CPU: {err}'
            ) from err
        may_use = self.read_cpus(container)
        return {
            cpu: Usage(None, None, each // 1000)
            for cpu, each in used_ns.items()
            if each or cpu in may_use
        }

    @functools.cached_property
    def _possible(self) -> tuple[int, ...]:
        """The CPUs of which the kernel tells; they stay until it ends."""
        return read_possible(self.files)

    @property
    def _cpusets(self) -> pathlib.Path:
        return self.files.cgroup / 'cpuset'

    def _in_cpuset(self, *groups: pathlib.Path) -> tuple[pathlib.Path, ...]:
        """The same groups in the hierarchy of the cpusets."""
        return tuple(
            self._cpusets / group.relative_to(self.root) for group in groups
        )

    def _read_cpuset(self, container: Container) -> str:
        return self._read_group(
            container.pid,
            'cpuset',
            lambda _, controllers: 'cpuset' in controllers,
        )


class V2(Hierarchy):
    """Cgroup v2: one hierarchy for all controllers."""

    _TASKS = 'cgroup.threads'
    _CONTROL = 'cgroup.subtree_control'

    def __init__(self, files: Files) -> None:
        super().__init__(files, files.cgroup)

    def find_group(self, pid: int) -> pathlib.Path:
        """See :meth:`Hierarchy.find_group`."""
        return self.root / self._read_group(
            pid, 'cpu', lambda number, _: number == '0'
        )

    def read_cpus(self, container: Container) -> tuple[int, ...]:
        """See :meth:`Hierarchy.read_cpus`."""
        return self.read_cpus_in(container.group)

    def find_cpusets(
        self, container: Container, partition: pathlib.Path
    ) -> tuple[pathlib.Path, ...]:
        """The levels. The partition is as the operator wants it.

        A CPU that goes off line stays in all of them.
        """
        return container.levels

    def confines(self, cpus: tuple[int, ...]) -> bool:
        """An empty list is none."""
        return bool(cpus)

    def gather(self, container: Container) -> None:
        """They are where they are: this is the only hierarchy."""

    def find_reserving(self, container: Container) -> tuple[pathlib.Path, ...]:
        """The levels."""
        return container.levels

    def read_cpus_in(self, group: pathlib.Path) -> tuple[int, ...]:
        """Read which CPUs the tasks of a group may use.

        :returns: CPU numbers, ascending; for a group without a cpuset of its
            own, those of the group above
        :raises OSError: ENOENT if there is no such group
        """
        path = group / 'cpuset.cpus.effective'
        try:
            return self.read_cpu_list(path)
        except FileNotFoundError:
            if group == self.root or not group.is_dir():
                raise
        return self.read_cpus_in(group.parent)

    def enables_cpu(self, group: pathlib.Path) -> bool:
        """Tell whether the groups in a group have the files of cpu.

        :returns: whether the cpu controller is enabled for them
        :raises OSError: with the kernel's errno
        """
        return 'cpu' in self.files.read(group / self._CONTROL).split()

    def enable_cpu(self, group: pathlib.Path) -> None:
        """See that the groups in a group have the files of cpu.

        :raises OSError: with the kernel's errno
        """
        if not self.enables_cpu(group):
            self.files.write(group / self._CONTROL, '+cpu')

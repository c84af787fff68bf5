# SPDX-License-Identifier: Apache-2.0
"""The control group hierarchies of cgroup v1 and cgroup v2."""

import errno
import functools
import pathlib

from nova_rt import exception
from nova_rt.host.cgroup import CPUS_FILE, Container, Hierarchy
from nova_rt.host.cpus import read_possible
from nova_rt.host.files import Files
from nova_rt.host.interface import Usage, UsageSource


class V1(Hierarchy):
    """Cgroup v1: the cpu controller and the cpusets are apart."""

    _TASKS = 'tasks'

    def __init__(self, files: Files) -> None:
        super().__init__(files, files.cgroup / 'cpu')

    def check_cpusets(self) -> None:
        """Require a cpuset controller to confine containers to their CPUs.

        :raises HostNotPrepared: if none is mounted with the cpu controller
        :raises OSError: with the kernel's errno
        """
        path = self._cpusets / CPUS_FILE
        try:
            self.read(path)
        except (FileNotFoundError, NotADirectoryError) as err:
            raise exception.HostNotPrepared(
                'cgroup v1 has no cpuset controller for its cpu '
                f'controller ({path} is missing), so that no server could be '
                f'kept on its CPUs: make the directory {self._cpusets} and '
                f'run mount -t cgroup -o cpuset cpuset {self._cpusets}; if '
                'the kernel refuses, boot it without cgroup_no_v1, or boot '
                'one with CONFIG_CPUSETS_V1=y'
            ) from err

    def find_group(self, pid: int) -> pathlib.Path:
        """See :meth:`Hierarchy.find_group`."""
        return self.root / self._read_group(pid, 'cpu')

    def read_cpus(self, container: Container) -> tuple[int, ...]:
        """See :meth:`Hierarchy.read_cpus`."""
        group = self._cpusets / self._read_cpuset(container)
        return self.read_cpu_list(group / CPUS_FILE)

    def find_cpusets(
        self, container: Container, partition: pathlib.Path
    ) -> tuple[pathlib.Path, ...]:
        """List the cpusets, the partition's included.

        The kernel shrinks that one, too, when a CPU goes off line.
        """
        return self._in_cpuset(partition, *container.levels)

    def confines(self, cpus: tuple[int, ...]) -> bool:
        """Return True: a group with an empty list has no CPU."""
        return True

    def move_tasks_to_cpuset(self, container: Container) -> None:
        """Move the tasks back that the kernel moved out of an empty cpuset."""
        (own,) = self._in_cpuset(container.group)
        if self._cpusets / self._read_cpuset(container) != own:
            self.files.move_tasks_to_cpuset(container.group)

    def find_reserving(self, container: Container) -> tuple[pathlib.Path, ...]:
        """List the levels in both hierarchies."""
        return container.levels + tuple(
            path
            for path in self._in_cpuset(*container.levels)
            if path.is_dir()
        )

    def read_usage(self, container: Container) -> dict[int, Usage] | None:
        """Read the CPU time of a container's tasks, ordinary ones included.

        This kernel counts no budgets. The scheduler adds up this time itself:
        cpuacct.usage_all would guess it from the ticks that met a task, and
        a task that is throttled at each tick always meets it. Source:
        kernel/sched/cpuacct.c, __cpuacct_percpu_seq_show().

        A process that enters a container from outside may run on any CPU for
        a moment, between its moves to the cpuacct group and to the cpuset.
        Where a CPU goes off line, the container may no longer use it.

        :returns: CPU that the container may use, or has used -> usage since
            its start; None where cpuacct is not mounted
        :raises OSError: with the kernel's errno; EIO for an unexpected format
        """
        try:
            used = self.find_usage(container).read()
        except FileNotFoundError:
            return None
        may_use = self.read_cpus(container)
        return {
            cpu: each
            for cpu, each in used.items()
            if each.used_us or cpu in may_use
        }

    def find_usage(self, container: Container) -> UsageSource:
        """Find the file with the CPU time of a container's tasks.

        :returns: the file, which is missing where cpuacct is not mounted
        """
        below = container.levels[0].relative_to(self.root)
        file = self.files.cgroup / 'cpuacct' / below / 'cpuacct.usage_percpu'
        return UsageSource(file, lambda: self._read_usage(file))

    def _read_usage(self, file: pathlib.Path) -> dict[int, Usage]:
        text = self.read(file)
        try:
            times = zip(self._possible, map(int, text.split()), strict=True)
            return {cpu: Usage(None, None, ns // 1000) for cpu, ns in times}
        except ValueError as err:
            raise OSError(
                errno.EIO, f'{file} has not one time of each CPU: {err}'
            ) from err

    @functools.cached_property
    def _possible(self) -> tuple[int, ...]:
        """The CPUs in the kernel's lists, the same until it reboots."""
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
        return self._read_group(container.pid, 'cpuset')


class V2(Hierarchy):
    """Cgroup v2: one hierarchy for all controllers."""

    _TASKS = 'cgroup.threads'
    _CONTROL = 'cgroup.subtree_control'

    def __init__(self, files: Files) -> None:
        super().__init__(files, files.cgroup)

    def find_group(self, pid: int) -> pathlib.Path:
        """See :meth:`Hierarchy.find_group`."""
        return self.root / self._read_group(pid, '')

    def read_cpus(self, container: Container) -> tuple[int, ...]:
        """See :meth:`Hierarchy.read_cpus`."""
        return self.read_cpus_in(container.group)

    def find_cpusets(
        self, container: Container, partition: pathlib.Path
    ) -> tuple[pathlib.Path, ...]:
        """List the levels; the cpuset of the partition is the operator's.

        A CPU that goes off line stays in all of them.
        """
        return container.levels

    def confines(self, cpus: tuple[int, ...]) -> bool:
        """Tell whether the list is not empty: else nothing is confined."""
        return bool(cpus)

    def move_tasks_to_cpuset(self, container: Container) -> None:
        """Do nothing: the only hierarchy has all tasks in their groups."""

    def find_reserving(self, container: Container) -> tuple[pathlib.Path, ...]:
        """List the levels."""
        return container.levels

    def read_cpus_in(self, group: pathlib.Path) -> tuple[int, ...]:
        """Read the CPUs that the tasks of a group may use.

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

    def read_cpus_for(self, partition: pathlib.Path) -> tuple[int, ...]:
        """Read the CPUs of a partition that may not be made yet.

        :returns: those that it has, or will have from the group above
        :raises OSError: with the kernel's errno
        """
        while not partition.is_dir() and partition != self.root:
            partition = partition.parent
        return self.read_cpus_in(partition)

    def is_prepared(self, partition: pathlib.Path) -> bool:
        """Tell whether groups in a partition have the cpu controller.

        :returns: False if a container could not be given a reservation

        :raises OSError: with the kernel's errno
        """
        return partition.is_dir() and all(
            map(self.enables_cpu, (partition.parent, partition))
        )

    def prepare(self, partition: pathlib.Path) -> None:
        """Make a partition, and enable the cpu controller in it.

        :raises OSError: with the kernel's errno
        """
        if not partition.is_dir():
            self.files.make_group(partition)
        self.enable_cpu(partition.parent)
        self.enable_cpu(partition)

    def enables_cpu(self, group: pathlib.Path) -> bool:
        """Tell whether a group enables the cpu controller for groups in it.

        :returns: whether those groups have the controller's files
        :raises OSError: with the kernel's errno
        """
        return 'cpu' in self.files.read(group / self._CONTROL).split()

    def enable_cpu(self, group: pathlib.Path) -> None:
        """Enable the cpu controller for the groups in a group.

        :raises OSError: with the kernel's errno
        """
        if not self.enables_cpu(group):
            self.files.write(group / self._CONTROL, '+cpu')

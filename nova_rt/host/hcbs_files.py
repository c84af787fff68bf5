# SPDX-License-Identifier: Apache-2.0
"""Bandwidth of each CPU and of its holders, as the kernel reports it.

For :mod:`nova_rt.host.hcbs`. Nothing is assumed and nothing is cached: other
programs reserve, CPUs go off line, deadline tasks start and end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import dataclasses
import errno
import pathlib
from typing import TypeVar

from nova_rt.host import cgroup, interface
from nova_rt.host.hierarchies import V2
from nova_rt.host.interface import Share, Usage

_Row = TypeVar('_Row')

# kernel/patches of this project, Documentation/scheduler/sched-rt-group.rst.
MAX_FILE = 'cpu.rt.max'
EFFECTIVE_FILE = 'cpu.rt.effective'
STAT_FILE = 'cpu.rt.stat'

#: Name for the pool of spare bandwidth that the partition has.
POOL = '(spare pool)'

#: Name for bandwidth reserved for a group that is gone, or on CPUs that its
#: cpuset has left.
ELSEWHERE = '(no group)'


@dataclasses.dataclass(frozen=True)
class CPUReport:
    """The kernel's report on a CPU.

    :ivar ceiling_ppm: the total bandwidth for groups
    :ivar reserved_ppm: the bandwidth that all groups of the host hold now
    """

    ceiling_ppm: int
    reserved_ppm: int


@dataclasses.dataclass(frozen=True)
class EffectiveShare:
    """The share of a group's own tasks on a CPU, as the kernel reports it."""

    runtime_ns: int
    period_ns: int

    @property
    def kernel_bw(self) -> int:
        """Bandwidth as the kernel counts it."""
        return interface.to_ratio(self.runtime_ns, self.period_ns)

    def __str__(self) -> str:
        return f'{self.runtime_ns}/{self.period_ns} ns'


@dataclasses.dataclass(frozen=True)
class Supply:
    """Bandwidth of each CPU that is online, in ppm.

    :ivar source: the group that supplies it: the nearest one, from the
        partition upwards, that has a reservation, else the host's own
    :ivar total: CPU -> ceiling of all groups below the source; 0 on CPUs that
        are not in the cpuset of the partition
    :ivar inside: CPU -> bandwidth held by groups in the partition
    :ivar others: group below the source, not in the partition, or the pool
        of the partition -> CPU -> bandwidth
    :ivar pool: CPU -> the pool of spare bandwidth that the partition has
    """

    source: pathlib.Path
    total: Mapping[int, int]
    inside: Mapping[int, int]
    others: Mapping[str, Mapping[int, int]]
    pool: Mapping[int, EffectiveShare]

    @property
    def ceiling(self) -> dict[int, int]:
        """CPU -> the total bandwidth for groups in the partition."""
        return {
            cpu: max(0, ppm - self.sum_of_others(cpu))
            for cpu, ppm in self.total.items()
        }

    @property
    def unowned(self) -> Mapping[int, int]:
        """CPU -> bandwidth reserved for groups that are gone."""
        return self.others.get(ELSEWHERE, {})

    @property
    def left(self) -> dict[int, int]:
        """CPU -> free bandwidth for groups in the partition."""
        return {
            cpu: max(0, ppm - self.inside[cpu])
            for cpu, ppm in self.ceiling.items()
        }

    def sum_of_others(self, cpu: int) -> int:
        """Add up the bandwidth of groups outside the partition on a CPU.

        :returns: ppm
        """
        return sum(held.get(cpu, 0) for held in self.others.values())


class HCBSReader:
    """Reads the files of the interface.

    Every method raises OSError with the kernel's errno; EIO for a text that
    is not of this interface.
    """

    def __init__(self, hierarchy: V2) -> None:
        self._hierarchy = hierarchy

    # One group

    def read_share(self, group: pathlib.Path) -> Share:
        """Read the share of a group.

        :returns: the share; the reservation is on the CPUs of the group
        """
        return self.parse(group / MAX_FILE, _parse_share)

    def read_cpu_reports(self) -> dict[int, CPUReport]:
        """Read the kernel's ceiling and reservations of each CPU.

        :returns: CPU -> report
        """
        path = self._hierarchy.root / EFFECTIVE_FILE
        return self.parse(path, parse_cpu_reports)

    def read_effective(self, group: pathlib.Path) -> dict[int, EffectiveShare]:
        """Read the effective share of a group's own tasks.

        :returns: CPU -> its share there, less the reservations of groups in
            the group
        """
        return self.parse(group / EFFECTIVE_FILE, parse_effective)

    def read_pool(self, group: pathlib.Path) -> dict[int, EffectiveShare]:
        """Read the pool of spare bandwidth that a group has.

        :returns: CPU -> its pool; empty for a group that is not made yet
        """
        try:
            return self.parse(group / EFFECTIVE_FILE, parse_pool)
        except FileNotFoundError:
            return {}

    def read_usage(self, group: pathlib.Path) -> dict[int, Usage]:
        """Read the use of a group's reservation.

        :returns: CPU -> usage
        """
        return self.parse(group / STAT_FILE, parse_usage)

    def parse(self, path: pathlib.Path, parse: Callable[[str], _Row]) -> _Row:
        """Read a file in one of the formats below.

        :param parse: raises ValueError for anything else
        :returns: its result
        """
        text = self._hierarchy.read(path)
        try:
            return parse(text)
        except ValueError as err:
            raise OSError(errno.EIO, f'{path} reads {text!r}') from err

    # All groups

    def find_reservations(
        self, group: pathlib.Path, exclude: pathlib.Path | None = None
    ) -> Iterator[tuple[pathlib.Path, Share]]:
        """Find the groups with a reservation below a group.

        The search descends into groups without a reservation only: one with
        a reservation includes those of the groups in it. A group without the
        files is being removed, or nothing in it can have them.

        :param exclude: a group to leave out with all groups in it
        :returns: each group and its share
        """
        groups = [group]
        while groups:
            inside = self._hierarchy.read_inside(groups.pop(), self.read_share)
            for path, held in inside.items():
                if path == exclude:
                    continue
                if held.unbounded:
                    # Not by recursion: a container may nest groups as deep
                    # as it likes.
                    groups.append(path)
                elif held.cost_ppm:
                    yield path, held

    def read_supply(self, partition: pathlib.Path) -> Supply:
        """Read the present bandwidth of all groups, once.

        A removed group may still hold its bandwidth: for a moment, or as long
        as a zombie is in it. Such bandwidth is listed under ``others`` by the
        name ``ELSEWHERE``.

        :returns: the bandwidth of each CPU
        """
        host = self.read_cpu_reports()
        source = self._find_source(partition)
        allowed = self._hierarchy.read_cpus_for(partition)
        inside = self._add_up(self.find_reservations(partition))
        pool = self.read_pool(partition)
        pools = {POOL: {cpu: each.kernel_bw for cpu, each in pool.items()}}
        if source != self._hierarchy.root:
            # What is in the source was admitted against it, on its CPUs.
            held = self.read_share(source)
            total = {cpu: held.ppm if cpu in allowed else 0 for cpu in host}
            others = pools | self._read_others(source, partition)
        else:
            total = {
                cpu: each.ceiling_ppm if cpu in allowed else 0
                for cpu, each in host.items()
            }
            reserved = {cpu: each.reserved_ppm for cpu, each in host.items()}
            others = pools
            if any(
                reserved[cpu]
                > interface.to_ppm(
                    inside.get(cpu, 0) + pools[POOL].get(cpu, 0)
                )
                for cpu in host
            ):
                others = pools | self._read_others(source, partition)
                known = [inside, *others.values()]
                others[ELSEWHERE] = _find_rest(reserved, known)
        return Supply(
            source,
            total,
            {cpu: interface.to_cost_ppm(inside.get(cpu, 0)) for cpu in host},
            {
                name: {
                    cpu: interface.to_cost_ppm(bw) for cpu, bw in sums.items()
                }
                for name, sums in others.items()
                if sums
            },
            pool,
        )

    def _find_source(self, partition: pathlib.Path) -> pathlib.Path:
        """Find the nearest group with a reservation, or the host's own."""
        root = self._hierarchy.root
        for group in (partition, *partition.parents):
            if group == root:
                break
            held = None
            with cgroup.leaving_out():
                held = self.read_share(group)
            if held is not None and not held.unbounded:
                return group
        return root

    def _read_others(
        self, source: pathlib.Path, partition: pathlib.Path
    ) -> dict[str, dict[int, int]]:
        if source == partition:
            return {}
        return {
            str(group.relative_to(source)): self._add_up([(group, held)])
            for group, held in self.find_reservations(
                source, exclude=partition
            )
        }

    def _add_up(
        self, reservations: Iterable[tuple[pathlib.Path, Share]]
    ) -> dict[int, int]:
        """Add up the reservations on each CPU, as the kernel counts them."""
        sums: dict[int, int] = {}
        for group, held in reservations:
            cpus: tuple[int, ...] = ()
            # It may be removed since it was read, or while it is.
            with cgroup.leaving_out():
                cpus = self._hierarchy.read_cpus_in(group)
            for cpu in cpus:
                sums[cpu] = sums.get(cpu, 0) + held.kernel_bw
        return sums


def _find_rest(
    reserved: Mapping[int, int], found: Iterable[Mapping[int, int]]
) -> dict[int, int]:
    """Compute the reserved bandwidth without a group, CPU by CPU.

    :returns: CPU -> bandwidth as the kernel counts it, rounded up
    """
    found = list(found)
    rest = {}
    for cpu, ppm in reserved.items():
        known = sum(sums.get(cpu, 0) for sums in found)
        if ppm > interface.to_ppm(known):
            rest[cpu] = interface.to_kernel_bw(ppm + 1) - known
    return rest


# The texts of the files


def _parse_share(text: str) -> Share:
    runtime, period = text.split()
    return Share.parse(runtime, period)


def parse_cpu_reports(text: str) -> dict[int, CPUReport]:
    """Read the effective file of the host's own group.

    :returns: CPU -> report
    :raises ValueError: if it is anything else
    """
    rows = _parse_rows(text, 'ceiling_ppm', 'reserved_ppm')
    if not rows:
        raise ValueError('no CPU')
    return {cpu: CPUReport(*numbers) for cpu, numbers in rows.items()}


def parse_effective(text: str) -> dict[int, EffectiveShare]:
    """Read the effective file of any other group.

    :returns: CPU -> share
    :raises ValueError: if it is anything else
    """
    rows = parse_some(text, 'runtime_ns', 'period_ns')
    for line in text.splitlines():
        # A group may have a pool alone.
        if ' runtime_ns=' not in line and ' spare_runtime_ns=' not in line:
            raise ValueError(f'no runtime_ns in {line!r}')
    return {cpu: EffectiveShare(*numbers) for cpu, numbers in rows.items()}


def parse_pool(text: str) -> dict[int, EffectiveShare]:
    """Read the pool of spare bandwidth in the effective file of a group.

    :returns: CPU -> runtime and period of the pool
    :raises ValueError: if it is anything else
    """
    rows = parse_some(text, 'spare_runtime_ns', 'spare_period_ns')
    return {cpu: EffectiveShare(*numbers) for cpu, numbers in rows.items()}


def parse_usage(text: str) -> dict[int, Usage]:
    """Read the statistics of a group.

    :returns: CPU -> usage
    :raises ValueError: if it is anything else
    """
    rows = _parse_rows(text, 'periods', 'throttled', 'used_usec')
    spare = parse_some(text, 'spare_usec', 'spare_waits')
    return {
        cpu: Usage(*numbers, *spare.get(cpu, ()))
        for cpu, numbers in rows.items()
    }


def _parse_rows(text: str, *keys: str) -> dict[int, list[int]]:
    """Read the numbers of lines ``<cpu> <key>=<number> ...``.

    A later kernel may print more keys; these must be present.

    :raises ValueError: if one is missing
    """
    rows = parse_some(text, *keys)
    for line in text.splitlines():
        if int(line.split()[0]) not in rows:
            raise ValueError(f'no {", ".join(keys)} in {line!r}')
    return rows


def parse_some(text: str, *keys: str) -> dict[int, list[int]]:
    """Read the same numbers of the lines that have them.

    :returns: CPU -> the numbers, in the order of the keys
    :raises ValueError: if a line is none of these, or has a part of them
    """
    rows = {}
    for line in text.splitlines():
        cpu, *pairs = line.split()
        numbers = dict(pair.split('=', 1) for pair in pairs)
        found = [int(numbers[key]) for key in keys if key in numbers]
        if len(found) == len(keys):
            rows[int(cpu)] = found
        elif found or not pairs:
            raise ValueError(f'not all of {", ".join(keys)} in {line!r}')
    return rows

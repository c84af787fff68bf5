# SPDX-License-Identifier: Apache-2.0
"""The pool of spare bandwidth of the partition, and its subscribers.

For :mod:`nova_rt.host.hcbs`. The pool is one more reservation in the
partition, on each of its CPUs; the kernel admits it once for all subscribers.
Source: kernel/patches, Documentation/scheduler/sched-rt-group.rst, 5.
"""

from collections.abc import Collection, Mapping
import pathlib

from nova_rt import exception
from nova_rt.host import capability
from nova_rt.host.capability import Capability, Refusal
from nova_rt.host.cgroup import Patience
from nova_rt.host.hcbs_files import (
    EFFECTIVE_FILE,
    STAT_FILE,
    EffectiveShare,
    HCBSReader,
    parse_some,
)
from nova_rt.host.hierarchies import V2
from nova_rt.host.interface import Usage
from nova_rt.reservation import cpulist
from nova_rt.reservation.reservation import Reservation

#: Of the partition, and of the group with a container's reservation.
POOL_FILE = 'cpu.rt.spare.max'
PRIORITY_FILE = 'cpu.rt.spare'


class Pools:
    """Reads and writes the pool and the subscriptions of one host.

    Methods raise OSError with the kernel's errno.
    """

    def __init__(self, hierarchy: V2, reader: HCBSReader) -> None:
        self._hierarchy = hierarchy
        self._reader = reader

    def set_pool(self, found: Capability, wish: Reservation | None) -> None:
        """Give the partition its pool, or take it away, and read it back.

        :raises HostNotPrepared: with the numbers, if the kernel has no pools
            or no room, or does not hold what was written
        """
        partition = found.partition
        path = partition / POOL_FILE
        if not path.exists():
            if wish is None:
                return
            raise exception.HostNotPrepared(
                f'[nova_rt] spare_pool = {wish} needs a kernel with '
                f'{POOL_FILE}, and {path} is missing: boot the kernel of this '
                'release, or remove the option'
            )
        try:
            Patience().repeat(lambda: self.write(partition, wish))
        except Refusal as err:
            raise exception.HostNotPrepared(
                f'the kernel refuses [nova_rt] spare_pool = {wish}, '
                f'{0 if wish is None else wish.ppm} ppm of each CPU: '
                f'{err.strerror}. Free are '
                f'{_render_free(found.left or {})}; other groups hold '
                f'{capability.render_others(found.others)}'
            ) from err
        held = self._reader.parse(path, _parse_pool)
        reason = self.find_unlike(partition, wish)
        if held != wish and reason is None:
            reason = f'expected {wish} in {path}, found {held}'
        if reason is not None:
            raise exception.HostNotPrepared(f'[nova_rt] spare_pool: {reason}')

    def find_unlike(
        self, partition: pathlib.Path, wish: Reservation | None
    ) -> str | None:
        """Compare the pools of all CPUs of the partition with a wish.

        :returns: None if they agree, else the CPUs that differ, and the pool
            of the first of them
        """
        cpus = self._hierarchy.read_cpus_in(partition)
        has = self._reader.read_pool(partition)
        wanted = None
        if wish is not None:
            wanted = EffectiveShare(
                wish.runtime_us * 1000, wish.period_us * 1000
            )
        unlike = sorted(cpu for cpu in {*cpus, *has} if has.get(cpu) != wanted)
        if not unlike:
            return None
        return (
            f'expected {wish or "none"} on CPUs {cpulist.render(cpus)}, and '
            f'it differs on CPUs {cpulist.render(unlike)}: CPU {unlike[0]} '
            f'has {has.get(unlike[0]) or "none"}, see '
            f'{partition / EFFECTIVE_FILE}'
        )

    def write(self, partition: pathlib.Path, wish: Reservation | None) -> None:
        """Write the pool if the partition has another one."""
        if self._reader.parse(partition / POOL_FILE, _parse_pool) != wish:
            text = '0'
            if wish is not None:
                text = f'{wish.runtime_us} {wish.period_us}'
            self._hierarchy.write(partition, [(POOL_FILE, text)])

    def read_usage(self, partition: pathlib.Path) -> dict[int, Usage]:
        """Read the use of the pool.

        :returns: CPU -> usage, by all subscribers; empty without a partition
        """
        try:
            rows = self._reader.parse(
                partition / STAT_FILE,
                lambda text: parse_some(
                    text, 'spare_periods', 'spare_throttled', 'spare_used_usec'
                ),
            )
        except FileNotFoundError:
            return {}
        return {cpu: Usage(*numbers) for cpu, numbers in rows.items()}

    def subscribe(
        self,
        levels: Collection[pathlib.Path],
        one: pathlib.Path,
        priority: int | None,
    ) -> None:
        """Let urgent tasks of a container use the pool.

        :param levels: its groups
        :param one: the group with its reservation
        :param priority: the least of such tasks; None if none may use it
        """
        for level in levels:
            wanted = (priority or 0) if level == one else 0
            if self._read_priority(level) != wanted:
                self._hierarchy.write(level, [(PRIORITY_FILE, str(wanted))])

    def find_difference(
        self,
        levels: Collection[pathlib.Path],
        one: pathlib.Path,
        priority: int | None,
        cpus: Collection[int],
    ) -> str | None:
        """Compare what the kernel holds with :meth:`subscribe`.

        :param cpus: those on which a pool has to serve the container
        :returns: None if they agree, else the difference as a sentence
        """
        for level in levels:
            wanted = (priority or 0) if level == one else 0
            held = self._read_priority(level)
            if held != wanted:
                return (
                    f'{level / PRIORITY_FILE}: expected {wanted}, found {held}'
                )
        if priority is None:
            return None
        served = self._reader.parse(
            one / EFFECTIVE_FILE, lambda text: parse_some(text, 'spare')
        )
        missing = {cpu for cpu in cpus if served.get(cpu) != [1]}
        if missing:
            return (
                f'{one}: no pool of spare bandwidth serves it on CPUs '
                f'{cpulist.render(missing)}, see {EFFECTIVE_FILE}'
            )
        return None

    def _read_priority(self, group: pathlib.Path) -> int:
        """Read the least priority of tasks that use a pool.

        :returns: 0 if none do, or the kernel has no pools
        """
        try:
            return self._reader.parse(group / PRIORITY_FILE, int)
        except FileNotFoundError:
            return 0


def choose_pool(
    pools: Mapping[int, EffectiveShare], cpus: Collection[int]
) -> Reservation | None:
    """Describe the pools of all CPUs as one.

    :param pools: CPU -> its pool
    :param cpus: those that the partition has
    :returns: None unless all of these CPUs have the same
    """
    found = {pools.get(cpu) for cpu in cpus}
    each = found.pop() if len(found) == 1 else None
    if each is None:
        return None
    return Reservation(each.runtime_ns // 1000, each.period_ns // 1000)


def _parse_pool(text: str) -> Reservation | None:
    runtime, period, _ = map(int, text.split())
    try:
        return Reservation(runtime, period) if runtime else None
    except exception.InvalidReservation as err:
        raise ValueError(str(err)) from err


def _render_free(left: Mapping[int, int]) -> str:
    return ', '.join(f'{ppm} on CPU {cpu}' for cpu, ppm in left.items())

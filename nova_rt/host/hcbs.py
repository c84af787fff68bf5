# SPDX-License-Identifier: Apache-2.0
"""The back end for kernels with hierarchical constant bandwidth servers.

That is the kernel of this project, on cgroup v2 (kernel/patches,
``cpu.rt.max``). It guarantees bandwidth, sums it on each CPU, and reports both
its capacity and the effective reservations CPU by CPU. A group reserves on the
CPUs of its cpuset; a group without a reservation uses that of the group above.
So the partition needs no share, and one level of a container holds the
reservation.
"""

from collections.abc import Mapping
import errno
import pathlib
from typing import Self

from oslo_log import log as logging

from nova_rt import exception, once
from nova_rt.host import capability, cgroup, cpusets, tasks
from nova_rt.host import cpus as host_cpus
from nova_rt.host.capability import Capability
from nova_rt.host.cgroup import Container
from nova_rt.host.files import Files
from nova_rt.host.hcbs_files import (
    EFFECTIVE_FILE,
    MAX_FILE,
    EffectiveShare,
    HCBSReader,
    Supply,
)  # fmt: skip
from nova_rt.host.hcbs_spare import POOL_FILE, Pools, choose_pool
from nova_rt.host.interface import (
    SMALLEST_US,
    Interface,
    Share,
    Usage,
)
from nova_rt.host.v2_backend import V2Backend
from nova_rt.reservation.admission import Capacity, Scope
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import PPM

LOG = logging.getLogger(__name__)

INTERFACE = Interface(
    'v2-rt-max-cpu',
    'cgroup v2',
    Enforcement.GUARANTEE,
    Scope.CPU,
)

#: The smallest share; its bandwidth is exact.
_SMALLEST = Share(SMALLEST_US, PPM)


class HCBS(V2Backend):
    """The back end for HCBS: groups in a group use its share."""

    interface = INTERFACE
    FILES = (MAX_FILE,)

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._reader = HCBSReader(self.hierarchy)
        self._pools = Pools(self.hierarchy, self._reader)
        #: Faults that each look would report again.
        self._reported = once.Once()

    @classmethod
    def detect(cls, files: Files) -> Self | None:
        """Look for the files in the host's own group, in a known format."""
        found = cls(files)
        root = found.hierarchy.root
        try:
            try:
                files.read(root / MAX_FILE)
            except (FileNotFoundError, NotADirectoryError):
                return None
            found._reader.read_cpu_reports()
        except FileNotFoundError as err:
            raise exception.NoRTInterface(
                f'{root} has {MAX_FILE} and no {EFFECTIVE_FILE}: the kernel '
                f'has another HCBS series, on which nova_rt was never tested; '
                f'boot the kernel of this project'
            ) from err
        except OSError as err:
            if err.errno == errno.EIO:
                raise exception.NoRTInterface(
                    f'{root / EFFECTIVE_FILE} is not understood: '
                    f'{err.strerror}'
                ) from err
            raise exception.NoRTInterface(
                f'cannot read {err.filename or root}: {err.strerror}'
            ) from err
        return found

    # The host

    def look_at(self, partition: pathlib.Path) -> Capability:
        """Read the supply that the kernel reports."""
        try:
            if host_cpus.read_limit(self._files) is None:
                raise exception.HostNotPrepared(
                    'kernel.sched_rt_runtime_us is -1: this kernel admits '
                    'every reservation, and guarantees none; set it '
                    'to kernel.sched_rt_period_us'
                )
            now = self._reader.read_supply(partition)
            prepared = self.hierarchy.is_prepared(partition)
        except OSError as err:
            raise capability.make_error(err) from err
        found = _capability(partition, now, prepared)
        if not found.ceiling.total_ppm:
            raise exception.HostNotPrepared(
                f'nothing is left for the partition {partition}: {now.source} '
                f'has {max(now.total.values(), default=0)} ppm of a CPU, '
                f'other groups hold {capability.render_others(found.others)}; '
                f'look at {self.hierarchy.root / EFFECTIVE_FILE}'
            )
        return found

    def set_pool(self, found: Capability) -> None:
        """Write the pool to the partition if it has another one."""
        try:
            self._pools.set_pool(found, self.pool)
        except OSError as err:
            raise capability.make_error(err, found) from err

    def keep_pool(self, found: Capability) -> Capability:
        """Write the pool again, in a partition that may be a new one.

        systemd removes the group of a slice with its last container.
        """
        wish = self.pool
        if wish is None:
            return found
        partition, reason = found.partition, None
        gone = found.ceiling.spare != wish
        if gone:
            try:
                self.hierarchy.prepare(partition)
                self._pools.write(partition, wish)
                found = self.refresh(found)
                if found.ceiling.spare != wish:
                    reason = self._pools.find_unlike(partition, wish)
                    reason = reason or f'no bandwidth is left for {partition}'
            except OSError as err:
                reason = err.strerror or repr(err)
        if reason is None:
            if self._reported.forget(POOL_FILE) or gone:
                LOG.info('Pool of spare bandwidth was gone, and is back')
            return found
        if self._reported.is_new(POOL_FILE, reason):
            LOG.warning(
                'Pool of spare bandwidth is gone, and cannot be had now, so '
                'servers with rt:spare do not start: %s', reason,
            )  # fmt: skip
        return found.without_pool(wish.ppm)

    def has_room(self, found: Capability) -> bool:
        """Whether the kernel has the smallest share left on every CPU.

        A group without a cpuset of its own reserves on all of them.
        """
        left = self._reader.read_supply(found.partition).left
        cpus = self.hierarchy.read_cpus_in(found.partition)
        return all(left.get(cpu, 0) >= _SMALLEST.cost_ppm for cpu in cpus)

    def self_test_in(self, group: pathlib.Path) -> str | None:
        """Write the smallest share, verify it, and take it away."""
        cpus = self.hierarchy.read_cpus_in(group)
        self.hierarchy.write(group, _raise_to(_SMALLEST))
        held = self._reader.read_share(group)
        differs = self._find_missing(group, _SMALLEST, cpus)
        nothing = Share(0, held.period_us)
        self.hierarchy.write(group, _raise_to(nothing))
        if differs is None and held != _SMALLEST:
            return f'{_SMALLEST} became {held} in {group}'
        return differs

    def refresh(self, found: Capability) -> Capability:
        """Read the supply again: others reserve bandwidth, too."""
        now = self._reader.read_supply(found.partition)
        return _capability(found.partition, now, found.prepared)

    def read_pool_usage(self, found: Capability) -> Mapping[int, Usage]:
        """Read the counts of the partition's pool."""
        return self._pools.read_usage(found.partition)

    def describe(self, found: Capability, cpus: tuple[int, ...]) -> str:
        """Describe the kernel's report on these CPUs."""
        now = self._reader.read_supply(found.partition)
        return '; '.join(
            f'CPU {cpu} has {now.total.get(cpu, 0)} ppm, groups in '
            f'{found.partition} hold {now.inside.get(cpu, 0)}, others '
            f'{now.sum_of_others(cpu)}'
            for cpu in cpus
        )

    # Containers

    def reserve(
        self,
        found: Capability,
        container: Container,
        rec: Record,
    ) -> None:
        """Make one level hold the share and all others none.

        The kernel refuses to move real-time tasks from one reservation to
        another, so such tasks are set aside during the write: a program may
        have made itself real-time before it had a reservation.
        """
        self.hierarchy.enable_cpu(found.partition.parent)
        cpusets.repair(self.hierarchy, container, found.partition, rec.cpus)
        for level in container.levels:
            self.hierarchy.enable_cpu(level.parent)
        one = self._choose_level(container, rec.cpus)
        wish = Share.from_reservation(rec.request.reservation)
        held = {
            level: self._reader.read_share(level) for level in container.levels
        }
        for level, share in held.items():
            if level != one and not share.unbounded:
                self._move(level, Share(None, share.period_us))
        if held[one].unbounded:
            self._move(one, wish)
        elif held[one] != wish or self._find_missing(one, wish, rec.cpus):
            # The same again, if it could not follow its cpuset: then it does.
            self.hierarchy.write(one, _raise_to(wish))
        self._subscribe(found, container, one, rec)

    def _subscribe(
        self,
        found: Capability,
        container: Container,
        one: pathlib.Path,
        rec: Record,
    ) -> None:
        """Let urgent tasks use the pool, which is repaired if it is gone."""
        priority = rec.request.spare_priority
        if priority is not None and self.pool is not None:
            self._pools.write(found.partition, self.pool)
        self._pools.subscribe(container.levels, one, priority)

    def find_unserved(self, container: Container, rec: Record) -> str | None:
        """Compare the subscription to the pool, and look where it serves.

        A pool that the operator has taken away is a matter of
        :meth:`.Host.check_promise`.

        :returns: None if they agree, else a sentence
        """
        one = self.find_reserving(container)
        if one is None:
            return None
        cpus = rec.cpus if self.pool is not None else ()
        return self._pools.find_difference(
            container.levels, one, rec.request.spare_priority, cpus
        )

    def _choose_level(
        self, container: Container, cpus: tuple[int, ...]
    ) -> pathlib.Path:
        return cpusets.choose_level(
            self.hierarchy,
            container,
            cpus,
            lambda level: not self._reader.read_share(level).unbounded,
        )

    def _move(self, group: pathlib.Path, share: Share) -> None:
        """Change the share of a group that may have real-time tasks."""
        inside = self.hierarchy.read_tasks_inside(group)
        aside = tasks.any_real_time(self._files, inside)
        self.hierarchy.write(group, _raise_to(share), aside)

    def find_difference(
        self,
        container: Container,
        rec: Record,
    ) -> str | None:
        """Check that one level holds the share, and has it on the CPUs."""
        wish = Share.from_reservation(rec.request.reservation)
        try:
            one = self._choose_level(container, rec.cpus)
        except exception.ReservationNotApplied as err:
            return str(err)
        for level in container.levels:
            held = self._reader.read_share(level)
            if level == one and held != wish:
                return f'{level}: expected {wish}, found {held}'
            if level != one and not held.unbounded:
                return f'{level}: expected nothing, found {held}'
        return self._find_missing(one, wish, rec.cpus)

    def _find_missing(
        self, group: pathlib.Path, wish: Share, cpus: tuple[int, ...]
    ) -> str | None:
        """Check that a group has a share on these CPUs and on no other.

        Reservations of groups in the group count as part of its share: they
        may divide it.

        :returns: None if so, else the difference as a sentence
        """
        assert wish.runtime_us is not None
        served = EffectiveShare(wish.runtime_us * 1000, wish.period_us * 1000)
        found = self._reader.read_effective(group)
        if found == dict.fromkeys(cpus, served):
            return None
        inside: dict[int, int] = {}
        levels = 1
        for path, held in self._reader.find_reservations(group):
            levels += 1
            for cpu in self.hierarchy.read_cpus_in(path):
                inside[cpu] = inside.get(cpu, 0) + held.kernel_bw
        for cpu in sorted({*cpus, *found}):
            has = found.get(cpu)
            if cpu not in cpus:
                return f'{group} has {has} on CPU {cpu}, to have none there'
            if has == served:
                continue
            own = has.kernel_bw if has else 0
            # Each of them is rounded down.
            if own + inside.get(cpu, 0) + levels < wish.kernel_bw:
                return (
                    f'{group}: expected {served} on CPU {cpu}, found '
                    f'{has or "nothing"}'
                )
        return None

    def read_share(self, group: pathlib.Path) -> Share:
        """Read the share of a group, which may be unbounded."""
        return self._reader.read_share(group)

    # Usage

    def read_group_usage(self, group: pathlib.Path) -> dict[int, Usage]:
        """Read the counts of a group's file."""
        return self._reader.read_usage(group)

    def find_reserving(self, container: Container) -> pathlib.Path | None:
        """Find the outermost level with a bound."""
        for level in container.levels:
            if not self._reader.read_share(level).unbounded:
                return level
        return None

    def read_usages(
        self, found: Capability
    ) -> list[tuple[str, Share, Mapping[int, Usage]]]:
        """Read the usage of each group with a reservation."""
        usages: list[tuple[str, Share, Mapping[int, Usage]]] = []
        for group, held in self._reader.find_reservations(found.partition):
            name = str(group.relative_to(found.partition))
            with cgroup.leaving_out():
                usages.append((name, held, self._reader.read_usage(group)))
        return usages


def _raise_to(share: Share) -> list[tuple[str, str]]:
    """Make the write that sets a share, with both numbers at once."""
    runtime = 'max' if share.unbounded else share.runtime_us
    return [(MAX_FILE, f'{runtime} {share.period_us}')]


def _capability(
    partition: pathlib.Path, now: Supply, prepared: bool
) -> Capability:
    others = {name: max(held.values()) for name, held in now.others.items()}
    cpus = [cpu for cpu, ppm in now.total.items() if ppm]
    return Capability(
        INTERFACE,
        Capacity(now.ceiling, spare=choose_pool(now.pool, cpus)),
        partition,
        others,
        prepared,
        now.left,
        now.unowned,
    )

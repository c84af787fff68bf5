# SPDX-License-Identifier: Apache-2.0
"""The back end for real-time throttling of the mainline kernel.

That is a kernel with ``CONFIG_RT_GROUP_SCHED`` and the cpu controller on
cgroup v1. It limits the runtime of a group in every period, and sums over the
whole host, regardless of the CPUs of a group (kernel/sched/rt.c,
tg_rt_schedulable()). The share of a group cannot exceed that of the group
above, so the partition is given the whole capacity of the host, and every
level of a container its reservation.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import errno
import logging
import pathlib
from typing import Self

from nova_rt import exception
from nova_rt.host import capability, cgroup, cpusets
from nova_rt.host import cpus as host_cpus
from nova_rt.host.capability import Capability
from nova_rt.host.cgroup import Container, Patience
from nova_rt.host.files import Files
from nova_rt.host.group_backend import GroupBackend
from nova_rt.host.hierarchies import V1
from nova_rt.host.interface import (
    SMALLEST_US,
    Interface,
    Share,
    Usage,
    UsageSource,
)
from nova_rt.reservation.admission import Capacity, Scope
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import MAX_PERIOD_US, PPM

LOG = logging.getLogger(__name__)

# Linux kernel/sched/core.c, cpu_legacy_files[].
_RUNTIME = 'cpu.rt_runtime_us'
_PERIOD = 'cpu.rt_period_us'

INTERFACE = Interface(
    'v1-throttle', 'cgroup v1', Enforcement.LIMIT, Scope.HOST
)  # fmt: skip

#: Period of the partition's share, microseconds: the bandwidth is exact then.
_PERIOD_US = PPM


class V1Throttling(GroupBackend):
    """The back end for throttling: each group uses its own share."""

    interface = INTERFACE
    FILES = (_RUNTIME, _PERIOD)
    INSIDE = False
    hierarchy: V1

    def __init__(self, files: Files) -> None:
        super().__init__(files, V1(files))

    @classmethod
    def detect(cls, files: Files) -> Self | None:
        """Look for the files in the host's own group."""
        found = cls(files)
        try:
            for name in cls.FILES:
                files.read(found.hierarchy.root / name)
        except OSError as err:
            if err.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise exception.NoRTInterface(
                f'cannot read {err.filename}: {err.strerror}'
            ) from err
        return found

    # The host

    def look_at(self, partition: pathlib.Path) -> Capability:
        """Read the bandwidth for the partition in the group above."""
        try:
            self.hierarchy.check_cpusets()
            online = host_cpus.read_online(self._files)
            above = self.read_share(partition.parent)
            others = self._read_inside(partition.parent)
            limit = host_cpus.read_limit(self._files)
        except OSError as err:
            raise capability.make_error(err) from err
        if limit is None:
            raise exception.HostNotPrepared(
                'kernel.sched_rt_runtime_us is -1: this kernel enforces no '
                'reservation; set it to 950000'
            )
        held = others.pop(partition.name, None)
        taken = {
            name: other.cost_ppm
            for name, other in others.items()
            if other.cost_ppm
        }
        used = sum(taken.values())
        free = min(limit, above.ppm) - used
        if free <= 0:
            raise exception.HostNotPrepared(
                f'nothing is left for the partition {partition}: the group '
                f'above holds {above}, the kernel\'s limit is {limit} ppm '
                f'of a CPU, other groups hold '
                f'{capability.render_others(taken)}: give the group above '
                f'bandwidth by {partition.parent / _RUNTIME} and '
                f'{partition.parent / _PERIOD}, or take it from the others'
            )
        # The reserve of the host is for these others.
        free += min(used, self.reserved_ppm)
        found = Capability(
            INTERFACE, _capacity(online, free), partition, taken, False
        )
        if held is None or held != self._choose_share(found, held):
            return found
        return self._as_held(found, held)

    def prepare(self, found: Capability) -> Capability:
        """Give the partition the capacity for servers."""
        try:
            return self._prepare(found, Patience())
        except OSError as err:
            raise capability.make_error(err, found) from err

    def _prepare(self, found: Capability, patience: Patience) -> Capability:
        partition = found.partition
        if not partition.is_dir():
            self._files.make_group(partition)
        held = self.read_share(partition)
        wish = self._choose_share(found, held)
        if held != wish:
            found, wish = self._give(found, held, wish, patience)
            held = self.read_share(partition)
        if held != wish:
            raise exception.HostNotPrepared(
                f'{partition}: expected {wish}, found {held}: '
                'something else writes to it'
            )
        if held.ppm > self._offered_ppm(found):
            LOG.warning(
                'Partition %s keeps %s, more than [nova_rt] reserved_ppm '
                'leaves, since running servers hold it: restart this service '
                'when fewer servers run', partition, held,
            )  # fmt: skip
        return self._as_held(found, held)

    def _offered_ppm(self, found: Capability) -> int:
        """Compute the capacity for servers: the ceiling less the reserve."""
        return max(0, found.ceiling.total_ppm - self.reserved_ppm)

    def _choose_share(self, found: Capability, held: Share) -> Share:
        """Choose the share of the partition.

        It stays as it is if the wanted share were less than the sum in the
        partition: running servers keep theirs. Its period stays, too: the
        period of a group in use cannot be changed alone without a moment in
        which its bandwidth is too small or too large.
        """
        period = _PERIOD_US
        if held.runtime_us and held.period_us:
            period = held.period_us
        wish = Share(self._offered_ppm(found) * period // PPM, period)
        if wish.ppm < held.ppm <= found.ceiling.total_ppm:
            inside = self._read_inside(found.partition).values()
            if sum(each.cost_ppm for each in inside) > wish.ppm:
                return held
        return wish

    def _as_held(self, found: Capability, held: Share) -> Capability:
        """Limit the capability to the share that the partition holds."""
        total = min(found.ceiling.total_ppm, held.ppm + self.reserved_ppm)
        ceiling = _capacity(found.ceiling.cpus, total)
        return dataclasses.replace(found, ceiling=ceiling, prepared=True)

    def _give(
        self, found: Capability, held: Share, wish: Share, patience: Patience
    ) -> tuple[Capability, Share]:
        """Write the partition's share.

        With the kernel of this project on cgroup v1 there are deadline
        servers behind these files. Nothing shows this, except that the
        kernel takes the fair server into account. Such a host is reported
        as one that limits, which understates it.

        :returns: the capability with the share that was accepted, and that
            share
        """
        try:
            patience.repeat(lambda: self._raise_to(found.partition, wish))
        except OSError as err:
            if err.errno != errno.EBUSY:
                raise
            fair = max(
                host_cpus.read_fair_server(self._files, cpu)
                for cpu in found.ceiling.cpus
            )
            ceiling = _capacity(
                found.ceiling.cpus, found.ceiling.total_ppm - fair
            )
            found = dataclasses.replace(found, ceiling=ceiling)
            wish = self._choose_share(found, held)
            patience.repeat(lambda: self._raise_to(found.partition, wish))
        return found, wish

    def has_room(self, found: Capability) -> bool:
        """Tell whether the partition has the smallest share free."""
        inside = self._read_inside(found.partition).values()
        used = sum(held.cost_ppm for held in inside)
        smallest = Share(SMALLEST_US, _PERIOD_US)
        return used + smallest.cost_ppm <= self._offered_ppm(found)

    def self_test_in(self, group: pathlib.Path) -> str | None:
        """Write the smallest share, read it back and take it away."""
        wish = Share(SMALLEST_US, _PERIOD_US)
        self._raise_to(group, wish)
        held = self.read_share(group)
        self.hierarchy.write(group, [(_RUNTIME, '0')])
        return None if held == wish else f'{wish} became {held} in {group}'

    def refresh(self, found: Capability) -> Capability:
        """Keep the share of the partition, on the CPUs that are online."""
        online = host_cpus.read_online(self._files)
        ceiling = _capacity(online, found.ceiling.total_ppm)
        return dataclasses.replace(found, ceiling=ceiling)

    def describe(self, found: Capability, cpus: tuple[int, ...]) -> str:
        """Describe the shares of the partition and the groups in it."""
        held = self.read_share(found.partition)
        inside = self._read_inside(found.partition).values()
        used = sum(each.cost_ppm for each in inside)
        return f'{found.partition} holds {held}, the groups in it {used} ppm'

    # Containers

    def reserve(
        self,
        found: Capability,
        container: Container,
        rec: Record,
    ) -> None:
        """Make every level hold the same share."""
        self._keep_prepared(found)
        cpusets.repair(self.hierarchy, container, found.partition, rec.cpus)
        wish = Share.from_reservation(rec.request.reservation)
        self.share_out(container.levels, wish)

    def _keep_prepared(self, found: Capability) -> None:
        """Restore the bandwidth of a partition that has lost it."""
        held = self.read_share(found.partition)
        if held.ppm >= self._offered_ppm(found):
            return
        lost = 'the partition lost its bandwidth'
        try:
            # A lock is held here: only the caller may wait.
            self._prepare(found, Patience(0))
        except OSError as err:
            # No verdict on the container.
            raise OSError(err.errno, f'{lost}: {err.strerror}') from err
        except exception.HostError as err:
            raise exception.ReservationNotApplied(f'{lost}: {err}') from err
        LOG.warning(
            'Partition %s held %s, less than the %s ppm it was given; '
            'restoring its share. Something else writes to it.',
            found.partition, held, self._offered_ppm(found),
        )  # fmt: skip

    def share_out(self, groups: Iterable[pathlib.Path], wish: Share) -> None:
        """Make nested groups hold the same share.

        Shares are lowered from the innermost group outwards and raised from
        the outermost inwards, as the sums in the kernel need it. Nothing is
        written to a group that holds the share already. Where the period
        stays, one write changes a group; another period takes the smallest
        share in between.

        :param groups: each in the one before it
        :raises OSError: with the errno of the write that was refused
        """
        held = [(group, self.read_share(group)) for group in groups]
        for group, old in reversed(held):
            self._lower(group, old, wish)
        for group, old in held:
            self._raise_to(group, wish, old)

    def find_difference(
        self,
        container: Container,
        rec: Record,
    ) -> str | None:
        """Check that every level holds the share, on the right CPUs."""
        wish = Share.from_reservation(rec.request.reservation)
        for level in container.levels:
            held = self.read_share(level)
            if held != wish:
                return f'{level}: expected {wish}, found {held}'
        may_use = self.hierarchy.read_cpus(container)
        if may_use != rec.cpus:
            return cgroup.describe_other_cpus(
                container.group, rec.cpus, may_use
            )
        return None

    # Usage

    def read_usage(self, container: Container) -> Mapping[int, Usage] | None:
        """See :meth:`V1.read_usage`."""
        return self.hierarchy.read_usage(container)

    def find_usage(self, container: Container) -> UsageSource | None:
        """See :meth:`V1.find_usage`."""
        return self.hierarchy.find_usage(container)

    def read_held(self, container: Container) -> Share:
        """Read the share of the group of its tasks."""
        return self.read_share(container.group)

    # Shares

    def read_share(self, group: pathlib.Path) -> Share:
        """Read the share of a group.

        :returns: the share
        :raises OSError: with the kernel's errno; EIO for an unknown format
        """
        texts = {
            name: self.hierarchy.read(group / name) for name in self.FILES
        }
        try:
            return Share.parse(texts[_RUNTIME], texts[_PERIOD])
        except ValueError as err:
            raise OSError(errno.EIO, f'{group} reads {texts}') from err

    def _read_inside(self, group: pathlib.Path) -> dict[str, Share]:
        """Read the shares of the groups in a group, by name."""
        inside = self.hierarchy.read_inside(group, self.read_share)
        return {path.name: held for path, held in inside.items()}

    def _lower(self, group: pathlib.Path, held: Share, wish: Share) -> None:
        """Give a group no more than its new share.

        With the same period, the kernel takes the new runtime at once. Else it
        is the least share that may have real-time tasks: not 0, which the
        kernel refuses then (kernel/sched/rt.c, tg_rt_schedulable(): EBUSY).
        With the longest period it is less than
        any share of a group around, so that the period of that one can be
        changed by itself. A group without a share stays as it is.
        """
        if _same_period(held, wish):
            assert held.runtime_us and wish.runtime_us
            if held.runtime_us > wish.runtime_us:
                self.hierarchy.write(group, [(_RUNTIME, str(wish.runtime_us))])
        elif held.runtime_us:
            self.hierarchy.write(
                group,
                [(_RUNTIME, str(SMALLEST_US)), (_PERIOD, str(MAX_PERIOD_US))],
            )

    def _raise_to(
        self, group: pathlib.Path, wish: Share, held: Share | None = None
    ) -> None:
        """Give a group its share, the period first.

        While the runtime is small, the kernel takes any period; and then any
        runtime that is not above the period.

        :param held: its share before :meth:`_lower`, if it was called
        """
        if held is not None and _same_period(held, wish):
            assert held.runtime_us and wish.runtime_us
            if held.runtime_us < wish.runtime_us:
                self.hierarchy.write(group, [(_RUNTIME, str(wish.runtime_us))])
            return
        self.hierarchy.write(
            group,
            [(_PERIOD, str(wish.period_us)), (_RUNTIME, str(wish.runtime_us))],
        )


def _same_period(held: Share, wish: Share) -> bool:
    """Tell whether one write of the runtime leads from one to the other."""
    return bool(held.runtime_us) and held.period_us == wish.period_us


def _capacity(online: Iterable[int], ppm: int) -> Capacity:
    """Make a capacity that is the same on each CPU and in all."""
    ppm = max(0, ppm)
    return Capacity(dict.fromkeys(online, ppm), ppm)

# SPDX-License-Identifier: Apache-2.0
"""Bandwidth of each CPU as the kernel reports it: who holds how much.

For interfaces whose kernel says what there is and what is reserved
(``Interface.reports``). Nothing is assumed and nothing remembered: other
programs reserve, CPUs go off, deadline tasks come and go.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import pathlib
from time import monotonic, sleep

from nova_rt.host import cgroup, interfaces
from nova_rt.host.interfaces import Held
from nova_rt.reservation import PPM

#: What the kernel has reserved for a group that is not there any more, or on
#: CPUs that its cpuset has left.
ELSEWHERE = '(no group)'


@dataclasses.dataclass(frozen=True)
class Supply:
    """Bandwidth of each CPU that is online, in ppm.

    :ivar source: the group that it is taken from: the nearest one, from the
        partition upwards, that has a reservation, else the host's own
    :ivar total: CPU -> what groups below the source can hold in all
    :ivar inside: CPU -> what groups in the partition hold
    :ivar others: group below the source, not in the partition -> CPU -> what
        it holds
    """

    source: pathlib.Path
    total: Mapping[int, int]
    inside: Mapping[int, int]
    others: Mapping[str, Mapping[int, int]]

    @property
    def ceiling(self) -> dict[int, int]:
        """CPU -> what groups in the partition can hold in all."""
        return {
            cpu: max(0, ppm - self.of_others(cpu))
            for cpu, ppm in self.total.items()
        }

    @property
    def left(self) -> dict[int, int]:
        """CPU -> what the kernel has left for them."""
        return {
            cpu: max(0, ppm - self.inside[cpu])
            for cpu, ppm in self.ceiling.items()
        }

    def of_others(self, cpu: int) -> int:
        """What groups that are not in the partition hold on a CPU."""
        return sum(held.get(cpu, 0) for held in self.others.values())


def read(tree: cgroup.Tree, partition: pathlib.Path) -> Supply:
    """Read who holds what.

    A group that has just been removed may hold its bandwidth for a moment: if
    the kernel has reserved more than is found, it is read again for
    ``cgroup.PATIENCE_S``.

    :raises OSError: with the kernel's errno; EIO for a text that is not of
        this interface
    """
    deadline = monotonic() + cgroup.PATIENCE_S
    while True:
        found = _read(tree, partition)
        if ELSEWHERE not in found.others or monotonic() >= deadline:
            return found
        sleep(cgroup.PAUSE_S)


def _read(tree: cgroup.Tree, partition: pathlib.Path) -> Supply:
    host = tree.supply()
    source = _source(tree, partition)
    inside = _sums(tree, tree.reservations(partition))
    if source != tree.root:
        # What is in the source was admitted against it, on its CPUs.
        held = tree.read(source)
        cpus = tree.cpus_in(source)
        total = {cpu: held.on(cpu) if cpu in cpus else 0 for cpu in host}
        others = _others(tree, source, partition)
    else:
        total = {cpu: each.ceiling_ppm for cpu, each in host.items()}
        reserved = {cpu: each.reserved_ppm for cpu, each in host.items()}
        others = {}
        if any(
            reserved[cpu] > interfaces.to_ppm(inside.get(cpu, 0))
            for cpu in host
        ):
            others = _others(tree, source, partition)
            others[ELSEWHERE] = _rest(reserved, [inside, *others.values()])
    return Supply(
        source,
        total,
        {cpu: _up(inside.get(cpu, 0)) for cpu in host},
        {
            name: {cpu: _up(bw) for cpu, bw in sums.items()}
            for name, sums in others.items()
            if sums
        },
    )


def _source(tree: cgroup.Tree, partition: pathlib.Path) -> pathlib.Path:
    for group in (partition, *partition.parents):
        if group == tree.root:
            break
        try:
            held = tree.read(group)
        except FileNotFoundError:
            continue  # Not made yet, or without the files: no reservation.
        if not held.without_bound:
            return group
    return tree.root


def _others(
    tree: cgroup.Tree, source: pathlib.Path, partition: pathlib.Path
) -> dict[str, dict[int, int]]:
    if source == partition:
        return {}
    return {
        str(group.relative_to(source)): _sums(tree, [(group, held)])
        for group, held in tree.reservations(source, but=partition)
    }


def _sums(
    tree: cgroup.Tree, reservations: Iterable[tuple[pathlib.Path, Held]]
) -> dict[int, int]:
    """CPU -> sum of reservations on it, as the kernel counts bandwidth."""
    sums: dict[int, int] = {}
    for group, held in reservations:
        assert held.every is not None
        try:
            cpus = tree.cpus_in(group)
        except FileNotFoundError:
            continue  # Removed since it was read.
        for cpu in cpus:
            sums[cpu] = sums.get(cpu, 0) + held.every.kernel_bw
    return sums


def _rest(
    reserved: Mapping[int, int], found: Iterable[Mapping[int, int]]
) -> dict[int, int]:
    """CPU -> what is reserved on it and was not found, rounded up."""
    found = list(found)
    rest = {}
    for cpu, ppm in reserved.items():
        known = sum(sums.get(cpu, 0) for sums in found)
        if ppm > interfaces.to_ppm(known):
            rest[cpu] = interfaces.to_kernel_bw(ppm + 1) - known
    return rest


def _up(kernel_bw: int) -> int:
    """In ppm, rounded up: it is taken from others."""
    return -(-kernel_bw * PPM >> interfaces.BW_SHIFT)

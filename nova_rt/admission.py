# SPDX-License-Identifier: Apache-2.0
"""Does a request fit, and on which CPUs: the arithmetic of admission.

All bandwidths are integers in ppm of a CPU: what is asked for is rounded up,
what can be promised is rounded down. Sources: one CPU's sum is the EDF bound
of constant bandwidth servers, sum(Q/P) <= 1 less what the kernel keeps back
(Linux kernel/sched/deadline.c, __dl_overflow()); the sum over a whole host is
the rule of RT group throttling, which ignores cpusets (kernel/sched/rt.c,
tg_rt_schedulable()).
"""

from collections.abc import Iterable, Mapping
import dataclasses
import enum
import functools

from nova_rt import exception


class Scope(enum.StrEnum):
    """Over what the kernel of a host sums reservations."""

    #: Each CPU has a sum of its own.
    CPU = 'cpu'
    #: One sum for the whole host, whatever the CPUs.
    HOST = 'host'


@dataclasses.dataclass(frozen=True)
class Capacity:
    """What a host can promise.

    :ivar cpus: CPU number -> ppm that can be promised on it
    :ivar host_ppm: ppm that can be promised in all; None where the kernel
        sums per CPU and the host's sum is therefore the CPUs' sum
    """

    cpus: Mapping[int, int]
    host_ppm: int | None = None

    @functools.cached_property
    def total_ppm(self) -> int:
        """The inventory: bandwidth of the host, in ppm."""
        total = sum(self.cpus.values())
        return total if self.host_ppm is None else min(total, self.host_ppm)

    @functools.cached_property
    def emptiest_first(self) -> tuple[int, ...]:
        """The CPUs, those with the most left first, then by number."""
        # A stable sort by C code: the scheduler does it for every host.
        return tuple(
            sorted(sorted(self.cpus), key=self.cpus.__getitem__, reverse=True)
        )

    def free(self, claims: 'Iterable[Claim]') -> 'Capacity':
        """What is left beside these claims; never below 0.

        A claim on a CPU that is not offered (any more) counts towards the
        host's sum only: it holds bandwidth, though none that we can offer.
        """
        cpus = dict(self.cpus)
        used = 0
        for claim in claims:
            used += claim.total_ppm
            for cpu in claim.cpus:
                if cpu in cpus:
                    cpus[cpu] = max(0, cpus[cpu] - claim.ppm)
        host = self.host_ppm
        return Capacity(cpus, None if host is None else max(0, host - used))


@dataclasses.dataclass(frozen=True)
class Claim:
    """Bandwidth that one server holds.

    :ivar cpus: the CPUs, distinct
    :ivar ppm: on each of them
    """

    cpus: tuple[int, ...]
    ppm: int

    @property
    def total_ppm(self) -> int:
        """On all of them together."""
        return len(self.cpus) * self.ppm


def place(free: Capacity, vcpus: int, ppm: int) -> tuple[int, ...]:
    """Choose distinct CPUs for a request: worst fit.

    The emptiest CPUs are taken, the lowest number first among equals: this
    levels the load, so that each server keeps the most slack beside it.

    :param free: what is free now
    :param vcpus: how many CPUs, at least 1
    :param ppm: bandwidth on each of them
    :returns: CPU numbers in ascending order
    :raises InsufficientBandwidth: if it does not fit
    """
    order = free.emptiest_first
    chosen = order[:vcpus]
    if len(chosen) < vcpus or free.cpus[chosen[-1]] < ppm:
        raise exception.InsufficientBandwidth(
            ppm,
            vcpus,
            tuple(free.cpus[cpu] for cpu in chosen),
            f'each vCPU needs a CPU of its own ({len(order)} offered) with '
            'that much free',
        )
    if free.host_ppm is not None and free.host_ppm < vcpus * ppm:
        raise exception.InsufficientBandwidth(
            ppm,
            vcpus,
            (free.host_ppm,),
            'this kernel sums over the whole host, and all vCPUs together '
            f'need {vcpus * ppm} ppm',
        )
    return tuple(sorted(chosen))


def place_many(free: Capacity, vcpus: int, ppm: int, count: int) -> Capacity:
    """Place ``count`` requests of one size, one after the other.

    :returns: what is left then
    :raises InsufficientBandwidth: at the first that does not fit
    """
    for _ in range(count):
        free = free.free([Claim(place(free, vcpus, ppm), ppm)])
    return free

# SPDX-License-Identifier: Apache-2.0
"""The common part of all kernels that reserve CPU time for containers.

The names and formats of the files of one kernel are in its back end:
:mod:`nova_rt.host.v1_throttling`, :mod:`nova_rt.host.hcbs`.
"""

from collections.abc import Callable, Mapping
import dataclasses
import pathlib
from typing import Self

from nova_rt.reservation.admission import Scope
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.reservation.reservation import MIN_RUNTIME_US, PPM, Reservation

#: The smallest runtime that every kernel takes, in microseconds.
SMALLEST_US = MIN_RUNTIME_US

#: Bandwidth in the kernel is a fraction of 2^20 (kernel/sched/sched.h).
BW_SHIFT = 20


@dataclasses.dataclass(frozen=True)
class Interface:
    """The properties of one kind of kernel, as data.

    :ivar name: as it is published in the statistics of the compute node
    :ivar cgroup: the version of control groups, for people to read
    :ivar enforcement: whether the kernel guarantees bandwidth or limits it
    :ivar scope: the range of the kernel's sum: each CPU or the whole host
    """

    name: str
    cgroup: str
    enforcement: Enforcement
    scope: Scope


@dataclasses.dataclass(frozen=True)
class Share:
    """The share of a group: runtime in every period, on each of its CPUs.

    :ivar runtime_us: microseconds; None where the group has no bound of its
        own
    :ivar period_us: microseconds
    """

    runtime_us: int | None
    period_us: int

    @classmethod
    def from_reservation(cls, reservation: Reservation) -> Self:
        """Make the share of a container from its server's reservation.

        :returns: the share
        """
        return cls(reservation.runtime_us, reservation.period_us)

    @classmethod
    def parse(cls, runtime: str, period: str) -> Self:
        """Read a share as the kernel prints it.

        :returns: the share
        :raises ValueError: if it is none
        """
        return cls(parse_us(runtime), int(period))

    @property
    def unbounded(self) -> bool:
        """Whether the group uses the share of the group above."""
        return self.runtime_us is None

    @property
    def ppm(self) -> int:
        """Bandwidth in ppm of a CPU, rounded down; no bound is a whole CPU."""
        if self.runtime_us is None:
            return PPM
        # The kernel's word for "no bandwidth" may be 0/0.
        return self.runtime_us * PPM // max(1, self.period_us)

    @property
    def cost_ppm(self) -> int:
        """Cost to others in ppm of a CPU, rounded up."""
        if self.runtime_us is None:
            return 0  # Its tasks use the share of the group above.
        return -(-self.runtime_us * PPM // max(1, self.period_us))

    @property
    def kernel_bw(self) -> int:
        """Bandwidth as the kernel counts it; 0 without a bound of its own."""
        return to_ratio(self.runtime_us or 0, self.period_us)

    def __str__(self) -> str:
        runtime = 'max' if self.runtime_us is None else self.runtime_us
        return f'{runtime}/{self.period_us} us'


@dataclasses.dataclass(frozen=True)
class Usage:
    """The use of a group's reservation on a CPU, since the group was made.

    :ivar periods: budgets given to the group; None where the kernel does not
        count them
    :ivar throttled: budgets used up; None likewise
    :ivar used_us: microseconds of run time of its real-time tasks; of all its
        tasks where the kernel does not tell them apart
    :ivar spare_us: the part of it that a pool of spare bandwidth gave; None
        for a group that has never subscribed to one
    :ivar spare_waits: times that it began to wait for the pool; None likewise
    """

    periods: int | None
    throttled: int | None
    used_us: int
    spare_us: int | None = None
    spare_waits: int | None = None


@dataclasses.dataclass(frozen=True)
class UsageSource:
    """The use of a container, for those who read it often.

    Reading it takes no privileges.

    :ivar path: of what is read, until the container ends
    :ivar read: returns CPU -> usage, of any CPUs; raises OSError, EIO for
        another format
    """

    path: pathlib.Path
    read: Callable[[], Mapping[int, Usage]]


def to_ratio(runtime: int, period: int) -> int:
    """Compute bandwidth as the kernel counts it.

    Only a sum of these fractions can be compared with a sum that the kernel
    reports. Source: kernel/sched/core.c, to_ratio().

    :param runtime: in the unit of the period
    :returns: a fraction of 2^20, rounded down
    """
    return (runtime << BW_SHIFT) // max(1, period)


def to_ppm(kernel_bw: int) -> int:
    """Convert the kernel's bandwidth to ppm as the kernel prints it.

    :returns: ppm of a CPU, rounded down
    """
    return kernel_bw * PPM >> BW_SHIFT


def to_cost_ppm(kernel_bw: int) -> int:
    """Convert the kernel's bandwidth to its cost for others.

    :returns: ppm of a CPU, rounded up
    """
    return -(-kernel_bw * PPM >> BW_SHIFT)


def to_kernel_bw(ppm: int) -> int:
    """Convert ppm of a CPU to the kernel's bandwidth.

    :returns: a fraction of 2^20, rounded up
    """
    return -(-(ppm << BW_SHIFT) // PPM)


def parse_us(word: str) -> int | None:
    """Read a runtime as the kernel prints it.

    :returns: microseconds; None for ``max``, which cgroup v1 calls -1
    :raises ValueError: if it is neither
    """
    return None if word in ('max', '-1') else int(word)

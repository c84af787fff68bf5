# SPDX-License-Identifier: Apache-2.0
"""The reservations a host can hold, and the errors of one that cannot."""

from collections.abc import Callable, Mapping
import dataclasses
import errno
import pathlib
from typing import Self

from nova_rt import exception
from nova_rt.host.interface import Interface
from nova_rt.reservation import cpulist, record
from nova_rt.reservation.admission import Capacity, Scope
from nova_rt.reservation.extra_specs import Enforcement

#: Explanations of a refused write, by its errno.
ADVICE = {
    errno.EINVAL: 'the kernel refuses the numbers: more bandwidth than is '
    'free in the group above, a runtime above the period, or a period below '
    'kernel.sched_deadline_period_min_us',
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


class Refusal(OSError):
    """A refusal by the kernel itself, with no other obstacle."""


@dataclasses.dataclass(frozen=True)
class Capability:
    """The reservations that this host can hold.

    :ivar ceiling: the total bandwidth for reservations: on each CPU that is
        online, and of the host where the kernel sums over it
    :ivar partition: the group that libvirt puts all containers in
    :ivar others: ppm that groups outside the partition hold, by name; not
        part of the ceiling
    :ivar prepared: whether containers can be given reservations as it is
    :ivar left: CPU -> ppm that is free in the partition; None where the
        kernel does not report it
    :ivar unowned: CPU -> ppm that the kernel holds for groups that are gone,
        part of ``others``; the kernel may release it later
    """

    interface: Interface
    ceiling: Capacity
    partition: pathlib.Path
    others: Mapping[str, int]
    prepared: bool
    left: Mapping[int, int] | None = dataclasses.field(
        default=None, compare=False
    )
    unowned: Mapping[int, int] = dataclasses.field(
        default_factory=dict, compare=False
    )

    @property
    def name(self) -> str:
        """The interface's name, as published in the stats."""
        return self.interface.name

    @property
    def enforcement(self) -> Enforcement:
        """Whether the kernel guarantees bandwidth or only limits it."""
        return self.interface.enforcement

    @property
    def scope(self) -> Scope:
        """The range of the kernel's sum: each CPU or the whole host."""
        return self.interface.scope

    def with_unowned(self) -> Self:
        """Compute the capability after a release of unowned bandwidth.

        :returns: the capability then
        """
        cpus = _add(self.ceiling.cpus, self.unowned)
        return dataclasses.replace(
            self,
            ceiling=dataclasses.replace(self.ceiling, cpus=cpus),
            left=None if self.left is None else _add(self.left, self.unowned),
            unowned={},
        )

    def after(self, returned: Mapping[int, int]) -> Self:
        """Compute the capability after groups have returned bandwidth.

        :param returned: CPU -> ppm
        :returns: the capability then
        """
        if self.left is None or not returned:
            return self
        return dataclasses.replace(self, left=_add(self.left, returned))

    def without_pool(self, ppm: int) -> Self:
        """Compute the capability while its pool is missing.

        :param ppm: bandwidth of the pool on each CPU, kept for it
        :returns: the capability then
        """

        def lower(cpus: Mapping[int, int]) -> dict[int, int]:
            return {cpu: max(0, each - ppm) for cpu, each in cpus.items()}

        return dataclasses.replace(
            self,
            ceiling=dataclasses.replace(
                self.ceiling, cpus=lower(self.ceiling.cpus), spare=None
            ),
            left=None if self.left is None else lower(self.left),
        )


def _add(cpus: Mapping[int, int], more: Mapping[int, int]) -> dict[int, int]:
    return {cpu: ppm + more.get(cpu, 0) for cpu, ppm in cpus.items()}


def render_others(others: Mapping[str, int]) -> str:
    """Render the bandwidth of other groups.

    :param others: ppm by name
    :returns: a list for a message
    """
    held = [f'{name} {ppm} ppm' for name, ppm in others.items()]
    return ', '.join(held) or 'nothing'


def make_error(
    err: OSError, found: Capability | None = None
) -> exception.HostError:
    """Turn the kernel's answer into the error of a host.

    :param found: the capability to prepare, for its numbers
    :returns: NoRTInterface where the kernel has no such file, else
        HostNotPrepared
    """
    text = f'{err.strerror} ({errno.errorcode.get(err.errno or 0, "?")})'
    if err.errno in ADVICE:
        text += f': {ADVICE[err.errno]}'
    if found is not None:
        text += (
            f'. Wanted for {found.partition}: '
            f'{max(found.ceiling.cpus.values())} ppm of a CPU; other groups '
            f'hold {render_others(found.others)}'
        )
    if err.errno == errno.ENOENT:
        return exception.NoRTInterface(text)
    return exception.HostNotPrepared(text)


def make_refusal(
    err: OSError,
    found: Capability,
    rec: record.Record,
    describe: Callable[[], str],
) -> exception.ReservationNotApplied:
    """Turn the kernel's answer into the error of a reservation.

    :param rec: the reservation that was refused
    :param describe: returns the bandwidth held now, as text
    :returns: the error
    """
    what = (
        f'reservation {rec.request.reservation} us on CPUs '
        f'{cpulist.render(rec.cpus)} is not held: {err.strerror}'
    )
    try:
        numbers = describe()
    except OSError as failed:
        numbers = f'{found.partition} cannot be read ({failed.strerror})'
    advice = ADVICE.get(err.errno or 0)
    advice = f'{advice}; {numbers}' if advice else numbers
    return exception.ReservationNotApplied(
        what, err.errno or 0, advice, isinstance(err, Refusal)
    )

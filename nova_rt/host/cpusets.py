# SPDX-License-Identifier: Apache-2.0
"""The cpuset of a container, and its repair.

libvirt confines a container at its start. The cpuset may change later: on
cgroup v1 the kernel removes a CPU that goes off line from every cpuset, and
does not add it again when it is back on line.
"""

from collections.abc import Callable
import errno
import pathlib

from nova_rt import exception
from nova_rt.host import cgroup
from nova_rt.host.cgroup import CPUS_FILE, Container, Hierarchy
from nova_rt.host.hierarchies import V2
from nova_rt.reservation import cpulist

#: Errors of the kernel for CPUs that a group cannot have: they are off line,
#: not in the group above, another's alone, or their bandwidth is promised.
_CANNOT = (
    errno.EINVAL, errno.ERANGE, errno.EBUSY, errno.EACCES, errno.ENOSPC
)  # fmt: skip


def repair(
    hierarchy: Hierarchy,
    container: Container,
    partition: pathlib.Path,
    cpus: tuple[int, ...],
) -> None:
    """Confine a container to exactly these CPUs.

    Groups around it are widened where necessary, up to the partition at most.
    Nothing is written if the container has these CPUs already.

    :raises OSError: with the kernel's errno
    :raises ReservationNotApplied: if the kernel refuses the CPUs
    """
    found = hierarchy.read_cpus(container)
    if found == cpus:
        return
    *above, own = hierarchy.find_cpusets(container, partition)
    if not (own / CPUS_FILE).exists():
        return  # Nothing confines it here; the next check reports that.
    try:
        for group in above:
            _widen(hierarchy, group, cpus)
        if hierarchy.read_cpu_list(own / CPUS_FILE) != cpus:
            hierarchy.files.write(own / CPUS_FILE, cpulist.render(cpus))
        hierarchy.move_tasks_to_cpuset(container)
    except OSError as err:
        if err.errno not in _CANNOT:
            raise
        differs = cgroup.describe_other_cpus(container.group, cpus, found)
        raise exception.ReservationNotApplied(
            f'{differs}; the kernel refuses to change that '
            f'({err.strerror}): they are off line, or something else has them',
            err.errno,
            verdict=err.errno in cgroup.VERDICTS,
        ) from err


def choose_level(
    hierarchy: V2,
    container: Container,
    cpus: tuple[int, ...],
    reserves: Callable[[pathlib.Path], bool],
) -> pathlib.Path:
    """Choose the group that holds a container's reservation.

    It is the outermost group that is confined to the server's CPUs; groups in
    it use its reservation. Below systemd libvirt confines a group in the
    scope, not the scope itself. One that holds a reservation keeps it: a scope
    is confined, too, while the operator confines all.

    :param reserves: tells whether a group holds a reservation
    :returns: one of its levels
    :raises ReservationNotApplied: if no group is confined to these CPUs
    """
    confined = [
        level
        for level in container.levels
        if hierarchy.read_cpus_in(level) == cpus
    ]
    for level in confined:
        if reserves(level):
            return level
    if confined:
        return confined[0]
    raise exception.ReservationNotApplied(
        cgroup.describe_other_cpus(
            container.group, cpus, hierarchy.read_cpus(container)
        ),
        verdict=True,
    )


def _widen(
    hierarchy: Hierarchy, group: pathlib.Path, cpus: tuple[int, ...]
) -> None:
    """Add these CPUs to a group for the groups in it."""
    path = group / CPUS_FILE
    try:
        has = hierarchy.read_cpu_list(path)
    except FileNotFoundError:
        return  # It has no cpuset of its own.
    if hierarchy.confines(has) and not set(cpus) <= set(has):
        union = sorted({*has, *cpus})
        hierarchy.files.write(path, cpulist.render(union))

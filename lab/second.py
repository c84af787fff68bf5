# SPDX-License-Identifier: Apache-2.0
"""The machine of the second compute: namespaces and a control group.

It has a network, mounts, a host name and control groups of its own, made
inside the lab's. It shares this machine's kernel with the first and,
like any compute, the services of the cloud, which it reaches by
:mod:`lab.programs.relay`, and a network.

A kernel whose sum of bandwidth is over the whole host sees one host here. So
the machine is one control group, the root of a cgroup namespace, which holds
half of the kernel's bandwidth: its compute finds no more, and the first one
finds that half taken.
"""

from collections.abc import Sequence
import json
import pathlib

from lab import leftovers, namespace, paths, process
from lab.console import LabError
from nova_rt.reservation import cpulist

HOST = leftovers.SECOND
#: Of both machines, on the network between them.
ADDRESSES = ('10.67.0.1', '10.67.0.2')
#: The first machine's ends of its links: between the hosts, and between the
#: bridges of the servers' network.
HOSTS_LINK = 'hosts-2'
BRIDGES_LINK = 'bridges-2'

ONLINE = pathlib.Path('/sys/devices/system/cpu/online')
ETC = paths.ETC / 'machine-2'
VAR = leftovers.SECOND_VAR
#: Directories of its servers; its nova-compute has them where the first has.
INSTANCES = VAR / 'instances'
LOG = paths.LOG / 'machine-2'
HOLDER = paths.RUN / 'machine-2.json'
_COMPUTES = paths.VAR / 'computes'
#: The source of its /run, as namespace.MARK is of the lab's.
MARK = f'{HOST}:{paths.WORK}'

NAMESPACES = ('--net', '--mount', '--uts', '--cgroup')
# Joins the machine's control group in every hierarchy, then goes on.
_JOIN = """
for group in {cgroups}/*/{host}; do echo $$ >"$group/cgroup.procs"; done
exec "$@"
"""


def computes() -> int | None:
    """Return how many computes this lab has on the machine's own kernel.

    :returns: dead ones, too; None before that is settled
    """
    try:
        return int(_COMPUTES.read_text())
    except FileNotFoundError:
        return None


def first() -> bool:
    """Return whether this lab has a compute on the machine's own kernel."""
    return computes() != 0


def wanted() -> bool:
    """Return whether this lab has a second compute, alive or not."""
    return computes() == 2


def choose(wanted: int | None) -> None:
    """Settle how many computes the lab has, for as long as it has files.

    :param wanted: how many; None for as many as there are, one at first
    :raises LabError: when it has another number.
    """
    settled = computes()
    if settled is None:
        settled = 1
    if (paths.VAR / 'done').exists():
        if wanted not in (None, settled):
            raise LabError(
                f'this lab has {settled} compute(s); take it down before you '
                f'start one with {wanted}'
            )
        return
    _COMPUTES.write_text(str(settled if wanted is None else wanted))


def online() -> str:
    """Return the CPUs that are online, as a list of ranges."""
    return ONLINE.read_text().strip()


def cpu_sets(online: str) -> tuple[str, str]:
    """Return this machine's CPUs that either compute offers, as lists.

    :param online: those that there are, as a list of ranges
    """
    cpus = cpulist.parse(online)
    half = (len(cpus) + 1) // 2
    return cpulist.render(cpus[:half]), cpulist.render(cpus[half:])


# The machine


def holder() -> process.Process | None:
    """Return the process that keeps the machine's namespaces, if it lives."""
    try:
        found = process.Process(**json.loads(HOLDER.read_text()))
    except FileNotFoundError:
        return None
    return found if found.alive() else None


def alive() -> list[str]:
    """Return the compute hosts on this machine's kernel, but dead ones."""
    own = [namespace.HOST_NAME] if first() else []
    return own + ([HOST] if holder() else [])


def path(name: str) -> pathlib.Path:
    """Return where the lab finds a file of the machine.

    :raises LabError: when the machine is down.
    """
    return pathlib.Path(f'/proc/{_holder().pid}/root{name}')


def enter(
    command: Sequence[str | pathlib.Path],
    directory: str | pathlib.Path = '/',
) -> list[str | pathlib.Path]:
    """Return the command that runs another on the machine.

    :raises LabError: when the machine is down.
    """
    kept = _holder()
    enter = ['nsenter', f'--target={kept.pid}', *NAMESPACES]
    return joined([*enter, 'env', f'--chdir={directory}', *command])


def joined(
    command: Sequence[str | pathlib.Path],
) -> list[str | pathlib.Path]:
    """Return the command that runs another in the machine's control group."""
    join = _JOIN.format(cgroups=leftovers.CGROUPS, host=HOST)
    return ['sh', '-eu', '-c', join, 'sh', *command]


def _holder() -> process.Process:
    kept = holder()
    if not kept:
        raise LabError(f'{HOST} is down; "python -m lab up" starts it')
    return kept

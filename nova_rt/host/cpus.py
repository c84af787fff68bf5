# SPDX-License-Identifier: Apache-2.0
"""The CPUs of the host: online CPUs, hardware threads and NUMA nodes."""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_rt import exception
from nova_rt.host.files import Files
from nova_rt.reservation import cpulist
from nova_rt.reservation.reservation import PPM

#: The part of each CPU that the fair server of a kernel with HCBS takes, where
#: its files cannot be read: 50 ms in 1 s (kernel/sched/deadline.c,
#: fair_server_init()).
_FAIR_SERVER_PPM = 50_000


def read_online(files: Files) -> tuple[int, ...]:
    """Read the CPUs that are online.

    :returns: CPU numbers, ascending
    :raises OSError: with the kernel's errno
    """
    path = files.sys / 'devices' / 'system' / 'cpu' / 'online'
    return cpulist.parse(files.read(path))


def read_possible(files: Files) -> tuple[int, ...]:
    """Read the CPUs that the kernel has room for, present or not.

    :returns: CPU numbers, ascending
    :raises OSError: with the kernel's errno
    """
    path = files.sys / 'devices' / 'system' / 'cpu' / 'possible'
    return cpulist.parse(files.read(path))


def read_siblings(files: Files, cpu: int) -> tuple[int, ...]:
    """Read the hardware threads that share the core of a CPU.

    :returns: CPU numbers, itself included
    :raises OSError: with the kernel's errno
    """
    cpus = files.sys / 'devices' / 'system' / 'cpu'
    path = cpus / f'cpu{cpu}' / 'topology' / 'thread_siblings_list'
    try:
        return cpulist.parse(files.read(path))
    except FileNotFoundError:
        # A kernel or a machine without topology has cores of one thread.
        return (cpu,)


def read_nodes(
    files: Files, cpus: Iterable[int]
) -> Mapping[int, tuple[int, ...]]:
    """Read the NUMA nodes of CPUs.

    :returns: node -> its CPUs among these, ascending; empty if all are on one
        node
    :raises OSError: with the kernel's errno
    """
    directory = files.sys / 'devices' / 'system' / 'node'
    try:
        nodes = cpulist.parse(files.read(directory / 'online'))
    except FileNotFoundError:
        # A kernel without NUMA has one node.
        return {}
    wanted = set(cpus)
    found = {}
    for node in nodes:
        path = directory / f'node{node}' / 'cpulist'
        ours = wanted.intersection(cpulist.parse(files.read(path)))
        if ours:
            found[node] = tuple(sorted(ours))
    return found if len(found) > 1 else {}


def read_limit(files: Files) -> int | None:
    """Read the bandwidth limit of real-time tasks on a CPU.

    Source: kernel/sched/rt.c, sched_rt_global_validate().

    :returns: ppm of a CPU, rounded down; None where nothing is enforced
    :raises OSError: with the kernel's errno
    """
    sysctl = files.proc / 'sys' / 'kernel'
    runtime = int(files.read(sysctl / 'sched_rt_runtime_us'))
    period = int(files.read(sysctl / 'sched_rt_period_us'))
    return None if runtime < 0 else runtime * PPM // period


def read_fair_server(files: Files, cpu: int) -> int:
    """Read the bandwidth guaranteed to ordinary tasks on a CPU.

    :returns: ppm of the CPU, rounded up; the kernel's default where its file
        cannot be read
    :raises OSError: with the kernel's errno
    """
    server = files.sys.joinpath(
        'kernel', 'debug', 'sched', 'fair_server', f'cpu{cpu}'
    )
    try:
        runtime = int(files.read(server / 'runtime'))
        period = int(files.read(server / 'period'))
    except (FileNotFoundError, PermissionError):
        return _FAIR_SERVER_PPM
    return -(-runtime * PPM // max(1, period))


@dataclasses.dataclass(frozen=True)
class Choice:
    """The CPUs of a host chosen for real-time servers.

    :ivar offered: CPUs that servers may use, ascending
    :ivar beside: option that gives CPUs to other servers -> CPUs that share a
        core with one of these, and are not offered for that reason
    """

    offered: tuple[int, ...]
    beside: Mapping[str, tuple[int, ...]]

    def describe_beside(self) -> str:
        """Describe the CPUs that are left out because of their cores.

        :returns: half a sentence; '' if there are none
        """
        return ', '.join(
            f'{cpulist.render(left_out)} (on cores of CPUs in {name})'
            for name, left_out in self.beside.items()
        )


def choose(
    files: Files, cpu_set: str | None, smt: bool, others: Mapping[str, str]
) -> Choice:
    """Choose the CPUs that real-time servers may use.

    :param cpu_set: the operator's choice as a list of ranges; None for all
        that are online and not given to others
    :param smt: whether to offer all threads of a core; if not, only the first
        that the operator chose, and none of a core shared with others
    :param others: option that gives CPUs to other servers -> its value, as
        Nova writes lists
    :returns: the choice
    :raises HostNotPrepared: if the choice names CPUs that are not online or
        are given to others, or if none is left
    """
    up = read_online(files)
    taken = _parse_others(others)
    if cpu_set is None:
        chosen = tuple(cpu for cpu in up if not _find_owners([cpu], taken))
    else:
        chosen = _parse_set(cpu_set, up)
        _refuse_overlap(cpu_set, chosen, taken)
    if smt:
        choice = Choice(chosen, {})
    else:
        choice = _choose_threads(files, chosen, taken)
    if not choice.offered:
        raise exception.HostNotPrepared(
            f'no CPU is left for real-time servers: {cpulist.render(up)} are '
            f'online, {_render_others(taken)}'
            + (
                f'; left out are {choice.describe_beside()}: give whole cores '
                'to either, or set [nova_rt] smt = true'
                if choice.beside
                else ': take some out of there'
            )
        )
    return choice


def _choose_threads(
    files: Files, chosen: Iterable[int], taken: Mapping[str, set[int]]
) -> Choice:
    """Choose one thread of each core on which no other servers run.

    The siblings may be any CPUs of the host.
    """
    offered: list[int] = []
    beside: dict[str, tuple[int, ...]] = {}
    seen: set[int] = set()
    for cpu in chosen:
        if cpu in seen:
            continue
        threads = read_siblings(files, cpu)
        owners = _find_owners(threads, taken)
        for name in owners:
            beside[name] = (*beside.get(name, ()), cpu)
        if not owners:
            offered.append(cpu)
            seen.update(threads)
    return Choice(tuple(offered), beside)


def _parse_set(text: str, up: tuple[int, ...]) -> tuple[int, ...]:
    try:
        chosen = cpulist.parse_nova(text)
    except ValueError as err:
        raise exception.HostNotPrepared(f'[nova_rt] cpu_set: {err}') from err
    missing = set(chosen) - set(up)
    if missing or not chosen:
        raise exception.HostNotPrepared(
            f'[nova_rt] cpu_set = {text} '
            + (
                f'names CPUs {cpulist.render(missing)} that are not online'
                if missing
                else 'names no CPU'
            )
            + f'; online are {cpulist.render(up)}'
        )
    return chosen


def _parse_others(others: Mapping[str, str]) -> dict[str, set[int]]:
    taken = {}
    for name, text in others.items():
        try:
            taken[name] = set(cpulist.parse_nova(text))
        except ValueError as err:
            raise exception.HostNotPrepared(f'{name}: {err}') from err
    return taken


def _find_owners(
    cpus: Iterable[int], taken: Mapping[str, set[int]]
) -> list[str]:
    """Find the options that give any of these CPUs to others."""
    cpus = set(cpus)
    return [name for name, theirs in taken.items() if theirs & cpus]


def _refuse_overlap(
    text: str, chosen: Iterable[int], taken: Mapping[str, set[int]]
) -> None:
    both = {
        name: common
        for name, theirs in taken.items()
        if (common := theirs.intersection(chosen))
    }
    if both:
        raise exception.HostNotPrepared(
            f'[nova_rt] cpu_set = {text} has CPUs that are given to other '
            f'servers: {_render_others(both)}'
        )


def _render_others(taken: Mapping[str, set[int]]) -> str:
    return ', '.join(
        f'{cpulist.render(theirs)} are in {name}'
        for name, theirs in taken.items()
    )

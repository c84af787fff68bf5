# SPDX-License-Identifier: Apache-2.0
"""The CPUs of the host: which are online, which share a core or a node."""

from collections.abc import Iterable, Mapping

from nova_rt import cpulist, exception
from nova_rt.host.files import Files
from nova_rt.reservation import PPM

#: What the fair server of a kernel with HCBS takes of each CPU where its files
#: cannot be read: 50 ms in 1 s (kernel/sched/deadline.c, fair_server_init()).
_FAIR_SERVER_PPM = 50_000


def read_online(files: Files) -> tuple[int, ...]:
    """Read which CPUs are online.

    :returns: CPU numbers, ascending
    :raises OSError: with the kernel's errno
    """
    path = files.sys / 'devices' / 'system' / 'cpu' / 'online'
    return cpulist.parse(files.read(path))


def read_possible(files: Files) -> tuple[int, ...]:
    """Read which CPUs the kernel has room for, present or not.

    :returns: CPU numbers, ascending
    :raises OSError: with the kernel's errno
    """
    path = files.sys / 'devices' / 'system' / 'cpu' / 'possible'
    return cpulist.parse(files.read(path))


def read_siblings(files: Files, cpu: int) -> tuple[int, ...]:
    """Read which hardware threads share the core of a CPU.

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
    """Read on which NUMA nodes some CPUs are.

    :returns: node -> those of the CPUs that it has, ascending; nothing if all
        are on one node
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
    """Read what the kernel lets real-time tasks have of a CPU.

    Source: kernel/sched/rt.c, sched_rt_global_validate().

    :returns: ppm of it, rounded down; None where nothing is enforced
    :raises OSError: with the kernel's errno
    """
    sysctl = files.proc / 'sys' / 'kernel'
    runtime = int(files.read(sysctl / 'sched_rt_runtime_us'))
    period = int(files.read(sysctl / 'sched_rt_period_us'))
    return None if runtime < 0 else runtime * PPM // period


def read_fair_server(files: Files, cpu: int) -> int:
    """Read what ordinary tasks are guaranteed of a CPU.

    :returns: ppm of it, rounded up; the kernel's default where it is not said
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


def choose_offered(
    files: Files, cpu_set: str | None, smt: bool
) -> tuple[int, ...]:
    """Choose the CPUs that servers may use.

    :param cpu_set: the operator's choice as a list of ranges; None for all
    :param smt: whether to offer all threads of a core, or only the first
        that the operator chose
    :returns: CPU numbers, ascending
    :raises HostNotPrepared: if the choice names CPUs that are not online
    """
    up = read_online(files)
    try:
        chosen = up if cpu_set is None else cpulist.parse(cpu_set)
    except ValueError as err:
        raise exception.HostNotPrepared(f'[nova_rt] cpu_set: {err}') from err
    missing = set(chosen) - set(up)
    if missing or not chosen:
        raise exception.HostNotPrepared(
            f'[nova_rt] cpu_set = {cpu_set} '
            + (
                f'names CPUs {cpulist.render(missing)} that are not online'
                if missing
                else 'names no CPU'
            )
            + f'; online are {cpulist.render(up)}'
        )
    if smt:
        return chosen
    taken: set[int] = set()
    first = []
    for cpu in chosen:
        if cpu not in taken:
            first.append(cpu)
            taken.update(read_siblings(files, cpu))
    return tuple(first)

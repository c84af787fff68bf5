# SPDX-License-Identifier: Apache-2.0
"""The CPUs of the host: which are online, which share a core."""

from nova_rt import cpulist, exception
from nova_rt.host.files import Files


def online(files: Files) -> tuple[int, ...]:
    """The CPUs that are online, ascending.

    :raises OSError: with the kernel's errno
    """
    path = files.sys / 'devices' / 'system' / 'cpu' / 'online'
    return cpulist.parse(files.read(path))


def siblings(files: Files, cpu: int) -> tuple[int, ...]:
    """The hardware threads of the core that a CPU is on, itself included.

    :raises OSError: with the kernel's errno
    """
    cpus = files.sys / 'devices' / 'system' / 'cpu'
    path = cpus / f'cpu{cpu}' / 'topology' / 'thread_siblings_list'
    try:
        return cpulist.parse(files.read(path))
    except FileNotFoundError:
        # A kernel or a machine without topology has cores of one thread.
        return (cpu,)


def offered(files: Files, cpu_set: str | None, smt: bool) -> tuple[int, ...]:
    """The CPUs that servers may use, ascending.

    :param cpu_set: the operator's choice as a list of ranges; None for all
    :param smt: whether to offer all threads of a core, or only the first
        that the operator chose
    :raises HostNotPrepared: if the choice names CPUs that are not online
    """
    up = online(files)
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
            taken.update(siblings(files, cpu))
    return tuple(first)

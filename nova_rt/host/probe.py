# SPDX-License-Identifier: Apache-2.0
"""Detection of the host's kind of kernel, with a self-test."""

import contextlib
from typing import Any

from nova_rt import exception
from nova_rt.host import capability
from nova_rt.host.capability import Capability
from nova_rt.host.cgroup import Patience
from nova_rt.host.files import Files
from nova_rt.host.hcbs import HCBS
from nova_rt.host.protocol import Backend
from nova_rt.host.sched_ext import SchedExt
from nova_rt.host.v1_throttling import V1Throttling

#: Every kind of kernel that a test runs, the one that promises most first.
BACKENDS: tuple[type[Backend[Any]], ...] = (
    HCBS, SchedExt, V1Throttling,
)  # fmt: skip

_HELP = (
    'boot a kernel with CONFIG_RT_GROUP_SCHED=y (and, from Linux 6.16 on, '
    'rt_group_sched=1 where it is off by default) and the cpu controller on '
    'cgroup v1, which limits real-time tasks; or the kernel of this project, '
    'with hierarchical constant bandwidth servers (HCBS), which guarantees '
    'their bandwidth; or start nova-rt-sched on a stock kernel with cgroup v2 '
    'and CONFIG_EXT_GROUP_SCHED=y, whose reservations are soft. A mainline '
    'kernel itself has no RT bandwidth on cgroup v2.'
)


def find_backend(files: Files) -> Backend[Any]:
    """Find the back end for the kernel of this host, by reading alone.

    :returns: the back end
    :raises NoRTInterface: if there is none, with the remedy
    """
    for kind in BACKENDS:
        found = kind.detect(files)
        if found is not None:
            return found
    link = _describe_missing_link(files)
    unknown = _find_unknown(files)
    if unknown and link is None:
        raise exception.NoRTInterface(
            f'this kernel has an interface for RT bandwidth that this nova_rt '
            f'does not know ({", ".join(unknown)}): look for a newer nova_rt, '
            f'or {_HELP}'
        )
    raise exception.NoRTInterface(
        f'no file for RT bandwidth in {files.cgroup}: {link or _HELP}'
    )


def _find_unknown(files: Files) -> list[str]:
    """Find files for RT bandwidth of unknown interfaces.

    Some interfaces have none in the host's own group, so the groups below it
    are searched, too.

    :returns: their names
    """
    tops = [files.cgroup, files.cgroup / 'cpu']
    with contextlib.suppress(OSError):
        tops += list(files.groups(files.cgroup))
    return sorted({
        path.name for top in tops for path in top.glob('cpu.rt[._]*')
    })  # fmt: skip


def _describe_missing_link(files: Files) -> str | None:
    """Find a cpu controller of cgroup v1 without a link of its own name.

    Distributions mount it together with another controller, and link its
    name.

    :returns: None if there is none, else the remedy
    """
    try:
        names = [group.name for group in files.groups(files.cgroup)]
    except OSError:
        return None
    for name in names:
        if name != 'cpu' and 'cpu' in name.split(','):
            return (
                f'the cpu controller of cgroup v1 is mounted as {name}, and '
                'the link to it is missing: run ln -s '
                f'{name} {files.cgroup / "cpu"}, after mount -o remount,rw '
                f'{files.cgroup} if that is read-only'
            )
    return None


def self_test(backend: Backend[Any], found: Capability) -> None:
    """Verify that the kernel holds the smallest reservation, for a moment.

    :raises NoRTInterface: if the kernel accepts it and does not hold it
    :raises HostNotPrepared: if the kernel refuses it
    """
    try:
        differs = Patience().repeat(lambda: backend.self_test(found))
    except OSError as err:
        raise capability.make_error(err, found) from err
    if differs is not None:
        raise exception.NoRTInterface(
            f'this kernel has the files of {found.name} and does not hold '
            f'the written reservation: {differs}'
        )

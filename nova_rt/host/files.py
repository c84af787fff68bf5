# SPDX-License-Identifier: Apache-2.0
"""The host's file systems: plain reads, and writes through privsep.

The one door between the host layer and the machine. Tests put another
machine behind it.
"""

from collections.abc import Callable, Iterator, Sequence
import errno
import os
import pathlib
from typing import Any

from oslo_privsep import daemon, priv_context

import nova_rt.privsep
import nova_rt.privsep.cgroup
import nova_rt.privsep.idmap

#: (first ID in a container, first ID on the host, count)
IDMaps = Sequence[tuple[int, int, int]]


class Files:
    """Where the kernel's files are, and how they are reached.

    :ivar cgroup: mount point of the control groups
    :ivar proc: mount point of proc
    :ivar sys: mount point of sysfs
    """

    def __init__(
        self,
        cgroup: str = '/sys/fs/cgroup',
        proc: str = '/proc',
        sys: str = '/sys',
    ) -> None:
        self.cgroup = pathlib.Path(cgroup)
        self.proc = pathlib.Path(proc)
        self.sys = pathlib.Path(sys)

    def read(self, path: pathlib.Path) -> str:
        """Read a file.

        :returns: its text without the white space around it
        :raises OSError: with the kernel's errno
        """
        return path.read_text(encoding='ascii').strip()

    def groups(self, path: pathlib.Path) -> Iterator[pathlib.Path]:
        """List the groups in a group.

        :returns: their directories, by name
        :raises OSError: with the kernel's errno
        """
        for name in sorted(os.listdir(path)):
            if (path / name).is_dir():
                yield path / name

    def write(self, path: pathlib.Path, text: str) -> None:
        """Write to a file of a group.

        :raises OSError: with the kernel's errno
        """
        _call(nova_rt.privsep.cgroup.write, str(path), text)

    def write_aside(self, path: pathlib.Path, text: str) -> None:
        """Write to a file of a group whose real-time tasks are in the way.

        :raises OSError: with the kernel's errno
        """
        _call(nova_rt.privsep.cgroup.write_aside, str(path), text)

    def make_group(self, path: pathlib.Path) -> None:
        """Make a group.

        :raises OSError: with the kernel's errno
        """
        _call(nova_rt.privsep.cgroup.make_group, str(path))

    def remove_probe(self, path: pathlib.Path) -> None:
        """Remove a group made for a trial.

        :raises OSError: with the kernel's errno
        """
        _call(nova_rt.privsep.cgroup.remove_probe, str(path))

    def set_policy(
        self,
        group: pathlib.Path,
        controller: int,
        policy: int,
        priority: int,
        inside: bool = False,
    ) -> None:
        """Give all tasks of a group but its controller's a policy.

        :param inside: whether tasks of the groups in it get it, too
        :raises OSError: with the kernel's errno
        """
        _call(
            nova_rt.privsep.cgroup.set_policy,
            str(group),
            controller,
            policy,
            priority,
            inside,
        )

    def map_owners(
        self, path: str, uid_maps: IDMaps, gid_maps: IDMaps
    ) -> None:
        """Show a mounted root file system with mapped owners.

        :param path: where it is mounted
        :param uid_maps: (first ID on the disk, first ID on the host, count)
        :param gid_maps: the same for groups
        :raises OSError: with the kernel's errno
        """
        _call(
            nova_rt.privsep.idmap.map_owners,
            path,
            list(uid_maps),
            list(gid_maps),
            context=nova_rt.privsep.mount_pctxt,
        )


def _call(
    function: Callable[..., Any],
    *args: object,
    context: priv_context.PrivContext = nova_rt.privsep.rt_pctxt,
) -> None:
    """Call a privileged function; without helper, that is the error.

    The helper is started apart from the call, so that a missing program is
    not taken for a missing group.

    :raises OSError: with the kernel's errno; EPERM if no helper starts
    """
    if context.client_mode and context.channel is None:
        try:
            context.start()
        except (OSError, daemon.FailedToDropPrivileges) as err:
            raise PermissionError(
                errno.EPERM, f'the privileged helper does not start: {err}'
            ) from err
    function(*args)

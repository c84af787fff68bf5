# SPDX-License-Identifier: Apache-2.0
"""The host's file systems: plain reads, and writes through privsep.

All access of the host layer to the machine passes through here. Tests put
another machine behind it.
"""

from collections.abc import Callable, Iterator, Mapping
import os
import pathlib
import stat
from typing import Any

from nova_rt.host import helpers
import nova_rt.privsep.cgroup
import nova_rt.privsep.idmap
import nova_rt.privsep.limits
import nova_rt.privsep.oom
import nova_rt.privsep.priorities
import nova_rt.privsep.sched


class Files:
    """Access to the kernel's files.

    :ivar cgroup: mount point of the control groups
    :ivar proc: mount point of proc
    :ivar sys: mount point of sysfs
    :ivar dev: directory of the devices
    :ivar run: directory of run-time files
    """

    def __init__(
        self,
        cgroup: str = '/sys/fs/cgroup',
        proc: str = '/proc',
        sys: str = '/sys',
        dev: str = '/dev',
        run: str = '/run',
    ) -> None:
        self.cgroup = pathlib.Path(cgroup)
        self.proc = pathlib.Path(proc)
        self.sys = pathlib.Path(sys)
        self.dev = pathlib.Path(dev)
        self.run = pathlib.Path(run)

    def read(self, path: pathlib.Path) -> str:
        """Read a file.

        Names of tasks and groups are any bytes, chosen by tenants: bytes that
        are no text are kept as Python keeps them in paths.

        :returns: its text without the white space around it
        :raises OSError: with the kernel's errno
        """
        # Without the layers of a text file, which cost more than the file.
        with open(path, 'rb', buffering=0) as file:
            return file.read().decode('utf-8', 'surrogateescape').strip()

    def groups(self, path: pathlib.Path) -> Iterator[pathlib.Path]:
        """List the groups in a group.

        :returns: their directories, by name
        :raises OSError: with the kernel's errno
        """
        with os.scandir(path) as found:
            names = [
                each.name
                for each in found
                if each.is_dir(follow_symlinks=False)
            ]
        for name in sorted(names):
            yield path / name

    def read_owner(self, path: pathlib.Path) -> tuple[int, int]:
        """Read the owner and permissions of a file.

        :returns: the user's number, and the permissions
        :raises OSError: with the kernel's errno
        """
        found = os.lstat(path)
        return found.st_uid, stat.S_IMODE(found.st_mode)

    def check_helper(self) -> None:
        """Require an answer of the helper for control groups.

        :raises HostNotPrepared: if not, with the command that must be allowed
        """
        helpers.GROUPS.check(self._call, nova_rt.privsep.cgroup.answer)

    def check_mount_helper(self, id_pool: str, instances_path: str) -> None:
        """Require that the helper for mounts has the same configuration.

        :raises HostNotPrepared: if not, with the command that must be allowed
        """
        helpers.MOUNTS.check(
            helpers.MOUNTS.call,
            nova_rt.privsep.idmap.check, id_pool, instances_path,
        )  # fmt: skip

    def write(self, path: pathlib.Path, text: str) -> None:
        """Write to a file of a group.

        :raises OSError: with the kernel's errno
        """
        self._call(nova_rt.privsep.cgroup.write, str(path), text)

    def write_aside(self, path: pathlib.Path, text: str) -> None:
        """Write to a file of a group, with its real-time tasks set aside.

        :raises OSError: with the kernel's errno
        """
        self._call(nova_rt.privsep.cgroup.write_aside, str(path), text)

    def make_group(self, path: pathlib.Path) -> None:
        """Make the partition, or a group for a self-test in it.

        :raises OSError: with the kernel's errno
        """
        self._call(nova_rt.privsep.cgroup.make_group, str(path))

    def remove_probe(self, path: pathlib.Path) -> None:
        """Remove a group made for a self-test.

        :raises OSError: with the kernel's errno
        """
        self._call(nova_rt.privsep.cgroup.remove_probe, str(path))

    def reclaim(self, group: pathlib.Path) -> None:
        """Remove the groups of a container that has ended.

        :param group: the one in the partition
        :raises OSError: with the kernel's errno; EBUSY if it is in use, or
            may be soon
        """
        self._call(nova_rt.privsep.cgroup.reclaim, str(group))

    def chown_to_root(self, group: pathlib.Path) -> None:
        """Give a group and all its files to the host's root.

        :raises OSError: with the kernel's errno
        """
        self._call(nova_rt.privsep.cgroup.chown_to_root, str(group))

    def move_tasks_to_cpuset(self, group: pathlib.Path) -> None:
        """Move the tasks of a cpu group into the cpuset group of its name.

        :raises OSError: with the kernel's errno
        """
        self._call(nova_rt.privsep.cgroup.move_tasks_to_cpuset, str(group))

    def set_policy(
        self,
        group: pathlib.Path,
        controller: int,
        policy: int,
        priority: int,
        inside: bool = False,
    ) -> int:
        """Set the policy of all tasks of a group except its controller.

        :param controller: the libvirt_lxc process
        :param inside: whether tasks of the groups in it get it, too
        :returns: number of tasks with children that may lack the policy
        :raises OSError: with the kernel's errno
        """
        given_up: int = self._call(
            nova_rt.privsep.cgroup.set_policy,
            str(group), controller, policy, priority, inside,
        )  # fmt: skip
        return given_up

    def limit_tasks(self, group: pathlib.Path, most: int) -> None:
        """Limit the number of tasks of a container.

        :param group: its group in the partition, in the hierarchy of cpu
        :param most: tasks, its libvirt_lxc process included
        :raises OSError: with the kernel's errno
        """
        self._call(nova_rt.privsep.cgroup.limit_tasks, str(group), most)

    def sweep_task_limits(self) -> None:
        """Remove the task limits of containers that have ended.

        :raises OSError: with the kernel's errno
        """
        self._call(nova_rt.privsep.cgroup.sweep_task_limits)

    def has_scheduler(self) -> bool:
        """Tell whether nova-rt-sched, the scheduler in BPF, has been started.

        :returns: True as well if it was killed
        """
        return (self.run / nova_rt.privsep.sched.SOCKET).exists()

    def ask_scheduler(self, request: str) -> list[Mapping[str, str]]:
        """Ask nova-rt-sched, the scheduler in BPF, for numbers.

        :param request: one that changes nothing
        :returns: for each line of the answer, its keys and values
        :raises OSError: see :func:`nova_rt.privsep.sched.ask`
        """
        path = self.run / nova_rt.privsep.sched.SOCKET
        return nova_rt.privsep.sched.ask(path, request)

    def reserve(
        self, group: pathlib.Path, runtime_us: int, period_us: int, cpus: str
    ) -> None:
        """Have nova-rt-sched reserve for a group.

        :param cpus: a list of ranges
        :raises OSError: with the daemon's errno
        """
        self._call(
            nova_rt.privsep.sched.reserve,
            str(group), runtime_us, period_us, cpus,
        )  # fmt: skip

    def release(self, group: pathlib.Path) -> None:
        """Have nova-rt-sched take the reservation of a group.

        :raises OSError: with the daemon's errno
        """
        self._call(nova_rt.privsep.sched.release, str(group))

    def map_owners(self, server: str, first_id: int) -> None:
        """Map the owners of a server's mounted root file system.

        :param server: its UUID
        :param first_id: the first ID of its range on this host
        :raises OSError: with the kernel's errno
        """
        helpers.MOUNTS.call(nova_rt.privsep.idmap.map_owners, server, first_id)

    def limit(self, controller: int) -> None:
        """Limit the resources that a container charges to the host's root.

        :param controller: its libvirt_lxc process
        :raises OSError: with the kernel's errno
        """
        helpers.MOUNTS.call(nova_rt.privsep.limits.limit, controller)

    def keep_from_oom(self, controller: int) -> None:
        """Keep a container's controller from the out-of-memory killer.

        :param controller: its libvirt_lxc process
        :raises OSError: with the kernel's errno; EACCES if this host does not
            permit it
        """
        helpers.MOUNTS.call(nova_rt.privsep.oom.keep, controller)

    def allow_priority(self, controller: int, most: int) -> None:
        """Let the programs of a container raise their own priority.

        :param controller: its libvirt_lxc process
        :param most: the highest real-time priority
        :raises OSError: see :func:`nova_rt.privsep.priorities.allow`
        """
        helpers.MOUNTS.call(nova_rt.privsep.priorities.allow, controller, most)

    def _call(self, function: Callable[..., Any], *args: object) -> Any:
        """Call the helper for control groups.

        :param function: one of its entry points
        :returns: its answer
        :raises OSError: with the kernel's errno; EPERM if no helper starts
        """
        return helpers.GROUPS.call(function, *args)

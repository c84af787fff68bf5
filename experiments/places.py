# SPDX-License-Identifier: Apache-2.0
"""Containers of servers, here or on a node, and programs in them."""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import os
import pathlib
import shlex
import subprocess
import time

from openstack.connection import Connection

from lab import node
from lab.console import LabError

# A program that cannot run has ended by then, also on a node.
_STARTED_S = 2
_PATIENCE_S = 600

_FIRST = 'cut -d" " -f1 /proc/{pid}/task/{pid}/children'
_PROCESSES = 'cat {group}/cgroup.procs'
_INSIDE = """
for group in {groups}; do echo $$ >"$group/cgroup.procs" || exit; done
exec chrt {scheduler} taskset --cpu-list {cpu} \\
    nsenter --target {first} --all --root=/proc/{first}/root{root} --wd=/ \\
    {words}
"""
_COPY = """
exec nsenter --target {first} --all --root --wd=/ \\
    sh -ec 'mkdir {to}; cd {to}; tar x'
"""
_BIND = """
for pid in {pids}; do
    taskset --all-tasks --cpu-list --pid {cpus} "$pid" || [ ! -e "/proc/$pid" ]
done
"""


@dataclasses.dataclass(frozen=True)
class Place:
    """A running container of a server.

    :ivar own: the node that it is on; None: this machine
    :ivar pid: libvirt's controller of it, on its host
    :ivar groups: directories of its control groups; the first has its
        reservation
    :ivar cpus: of its host, those that it may use
    """

    own: node.Node | None
    pid: int
    groups: tuple[str, ...]
    cpus: tuple[int, ...]

    @classmethod
    def of(cls, cloud: Connection, server_id: str) -> 'Place':
        """Find the container of a server.

        :raises LabError: if none runs
        """
        host = cloud.compute.get_server(server_id).compute_host
        own = node.find(host)
        if own is None:
            return _find_here(server_id)
        # Here, because it reads what only a node has.
        from lab.node import group

        found = group.Group.of(own, server_id)
        pid = own.run(f'virsh -q -c lxc:/// domid {server_id}')
        return cls(own, int(pid), (found.directory,), tuple(found.cpus()))

    def inside(
        self,
        words: Sequence[str],
        scheduler: Sequence[str],
        cpu: int,
        root: str = '',
    ) -> contextlib.AbstractContextManager[None]:
        """Run a program in it for a while, in its control groups.

        :param scheduler: options of chrt
        :param root: directory in the container that becomes the program's /
        :raises LabError: if it ends at once
        """
        return self._running(
            words[0],
            _INSIDE.format(
                groups=shlex.join(self.groups),
                scheduler=shlex.join(scheduler),
                cpu=cpu,
                first=self._run(_FIRST.format(pid=self.pid)).strip(),
                root=root,
                words=shlex.join(words),
            ),
        )

    def copy(self, tree: pathlib.Path, to: str) -> None:
        """Copy a directory into it.

        :param to: the new directory in the container
        :raises LabError: if it was not copied
        """
        first = self._run(_FIRST.format(pid=self.pid)).strip()
        with subprocess.Popen(
            ['tar', '-c', '-C', str(tree), '.'], stdout=subprocess.PIPE
        ) as packing:
            done = subprocess.run(
                self._command(_COPY.format(first=first, to=to)),
                stdin=packing.stdout,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise LabError(
                f'the programs were not copied: {done.stderr.strip()}'
            )

    def bind(self, cpus: Sequence[int]) -> None:
        """Bind all its tasks to CPUs; stock LXC binds those of none."""
        self._run(
            _BIND.format(
                pids=' '.join(map(str, self._list_processes())),
                cpus=','.join(map(str, cpus)),
            )
        )

    @contextlib.contextmanager
    def _running(self, name: str, script: str) -> Iterator[None]:
        before = set(self._list_processes())
        with subprocess.Popen(
            self._command(script), stdin=subprocess.DEVNULL
        ) as started:
            try:
                time.sleep(_STARTED_S)
                if started.poll() is not None:
                    raise LabError(f'{name} does not run')
                yield
            finally:
                ours = set(self._list_processes()) - before
                if ours:
                    pids = ' '.join(map(str, ours))
                    # Some of them end while others are killed.
                    self._run(f'kill -9 {pids} || :')

    def _list_processes(self) -> list[int]:
        text = self._run(_PROCESSES.format(group=shlex.quote(self.groups[0])))
        return [pid for pid in map(int, text.split()) if pid != self.pid]

    def _command(self, script: str) -> list[str]:
        if self.own is not None:
            return self.own.command(script)
        return ['sh', '-c', script]

    def _run(self, script: str) -> str:
        done = subprocess.run(
            self._command(script),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
        )
        if done.returncode:
            raise LabError(f'"{script.strip()}": {done.stderr.strip()}')
        return done.stdout


def _find_here(server_id: str) -> Place:
    # Here, because it needs libvirt, and the guest's experiments do not.
    from lab.measure import container

    found = container.Container.of(server_id)
    if found is None:
        raise LabError('the server has no container')
    return Place(
        None,
        found.pid,
        tuple(map(os.fspath, found.groups())),
        tuple(found.cpus()),
    )

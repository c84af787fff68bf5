# SPDX-License-Identifier: Apache-2.0
"""Traces of servers on a node, above all in the kernel's files there."""

from collections.abc import Sequence
import dataclasses
import json
import pathlib
import shlex

from lab.measure.container import Held, cpu_list
from lab.node import Node

_FILES = pathlib.Path(__file__).parent / 'files'
_WATCH = _FILES / 'watch.py'
_LEFT = _FILES / 'left.sh'
_LISTED = 'for name in cpu.rt.*; do echo "$name:"; cat $name; done'


@dataclasses.dataclass(frozen=True)
class Moment:
    """Counts since the beginning, at one moment.

    :ivar seconds: since the beginning, by the node's clock
    :ivar periods: and
    :ivar used_us: of each group
    """

    seconds: float
    periods: list[int]
    used_us: list[int]


@dataclasses.dataclass(frozen=True)
class Group:
    """The control group of a running container.

    :ivar path: below the root of the hierarchy of cgroup v2.
    """

    node: Node
    path: str

    @classmethod
    def of(cls, own: Node, server_id: str) -> 'Group':
        """Return the group of a server that runs on a node."""
        found = own.run(
            f'cat /proc/$(virsh -q -c lxc:/// domid {server_id})/cgroup'
        )
        return cls(own, found.strip().partition('::')[2])

    @property
    def directory(self) -> str:
        """Its directory on the node."""
        return f'/sys/fs/cgroup{self.path}'

    def read(self, name: str) -> str:
        """Return the content of one of its files."""
        return self.node.run(
            f'cat {shlex.quote(f"{self.directory}/{name}")}'
        ).strip()

    def listing(self) -> str:
        """Return all files of the reservation with their contents."""
        return self.node.run(
            f'cd {shlex.quote(self.directory)}; {_LISTED}'
        ).strip()

    def counts(self, name: str, *keys: str) -> list[int]:
        """Sum counts of one of its files over the CPUs.

        :param keys: as the file has them, ``KEY=VALUE``
        """
        pairs = [each for each in self.read(name).split() if '=' in each]
        found = [each.split('=') for each in pairs]
        return [
            sum(int(value) for key, value in found if key == wanted)
            for wanted in keys
        ]

    def held(self) -> Held:
        """Return the reservation that the kernel holds."""
        return Held(*map(int, self.read('cpu.rt.max').split()))

    def cpus(self) -> list[int]:
        """Return the CPUs that the container may use."""
        return cpu_list(self.read('cpuset.cpus.effective'))


def left(own: Node) -> list[str]:
    """List all that servers have on a node; see left.sh."""
    return own.run('sh', text=_LEFT.read_text()).splitlines()


def watch(
    own: Node,
    cpu: int,
    groups: Sequence[Group],
    seconds: float,
    hogs_at: float = 0,
) -> list[Moment]:
    """Watch groups of a node; see watch.py.

    :param hogs_at: seconds after which hogs begin on the CPU; 0: never
    """
    words = [str(seconds), str(hogs_at), str(cpu)]
    words += [shlex.quote(group.directory) for group in groups]
    command = f'python3 - {" ".join(words)}'
    text = own.run(command, 300 + seconds, _WATCH.read_text())
    return [
        Moment(
            when, [each[0] for each in counts], [each[1] for each in counts]
        )
        for when, counts in json.loads(text)
    ]

# SPDX-License-Identifier: Apache-2.0
"""Compute hosts in virtual machines, with a kernel of their own.

A node is a machine of its own: the HCBS kernel, which guarantees, or Debian's
as it is, with nova-rt-sched; Debian with systemd and cgroup v2, libvirt, Open
vSwitch and nova-rt-compute by its unit. QEMU runs it in the lab's network
namespace, with two links: one for control, where it reaches the services of
the cloud by :mod:`lab.programs.relay`, and a port of the lab's br-ex for the
servers' network.
"""

from collections.abc import Sequence
import contextlib
import dataclasses
import pathlib
import platform
import re
import subprocess

from lab import paths
from lab.console import LabError

#: Releases of Debian that a node may have, and the Python of each.
RELEASES = {'12': 'python3.11', '13': 'python3.13'}
MOST = 4
KINDS = ('hcbs', 'stock')
_CHOICES = re.compile(
    r'(?P<kind>hcbs|stock)(?::(?P<release>\d+))?(?:=(?P<number>\d+))?'
)
#: Where nodes find the services of the cloud, at the lab's loopback.
SERVICES_ADDRESS = '10.68.0.1'
MEMORY_MB = 2048
CPUS = 2
DIRECTORY = paths.VAR / 'nodes'
SSH_CONFIG = paths.ETC / 'node-ssh.conf'
_CHOICE = paths.VAR / 'nodes.choice'
# A busy node without KVM takes its time.
_CONNECT_S = 60
_SYNC_S = 120


@dataclasses.dataclass(frozen=True)
class Node:
    """One node.

    :param number: from 1.
    :param release: of Debian.
    :param kind: of its kernel, one of KINDS.
    """

    number: int
    release: str
    kind: str = 'hcbs'

    @property
    def name(self) -> str:
        """Its name among the lab's services."""
        return 'node' if self.number == 1 else f'node-{self.number}'

    @property
    def host(self) -> str:
        """Its name for Nova."""
        return f'nova-rt-{self.name}'

    @property
    def address(self) -> str:
        """Its address on the link for control."""
        return f'10.68.{self.number}.2'

    @property
    def gateway(self) -> str:
        """The lab's address on the link for control."""
        return f'10.68.{self.number}.1'

    @property
    def links(self) -> tuple[str, str]:
        """The lab's ends: for control, and of the servers' network."""
        return f'ctl-{self.name}', f'ex-{self.name}'

    def file(self, name: str) -> pathlib.Path:
        """Return a file of it in the lab's directories."""
        return DIRECTORY / self.name / name

    def command(self, *words: str) -> list[str]:
        """Return the command that runs another on it, from inside the lab.

        :param words: put together by a shell on the node
        """
        return ['ssh', '-F', str(SSH_CONFIG), self.host, *words]

    def run(self, script: str, seconds: float = 300, text: str = '') -> str:
        """Run a script of sh on it; return its output.

        :param text: the standard input
        :raises LabError: when it fails or does not end in time.
        """
        try:
            done = subprocess.run(
                self.command(script),
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(
                f'{self.host}: "{script}" has not ended after {seconds:.0f} s'
            ) from error
        if done.returncode:
            raise LabError(
                f'{self.host}: "{script}" ended with {done.returncode}: '
                f'{(done.stdout + done.stderr).strip()}'
            )
        return done.stdout

    def restarts(self, unit: str) -> int:
        """Return how often systemd has started a service of it again."""
        return int(self.run(f'systemctl show -P NRestarts {unit}'))

    def sync(self) -> None:
        """Have it write what it has in memory to its disk, if it can."""
        with contextlib.suppress(LabError):
            self.run('sync', _SYNC_S)


def parse(text: str) -> str:
    """Return a choice of nodes in the long form, ``hcbs:12,hcbs:13``.

    :param text: one or more of ``KIND[:RELEASE][=NUMBER]``, with commas; the
        release of Debian is this machine's unless said
    :raises ValueError: when it is none.
    """
    found: list[str] = []
    for part in text.split(','):
        match = _CHOICES.fullmatch(part)
        if not match:
            raise ValueError(text)
        release = match['release'] or own_release()
        if release not in RELEASES:
            raise ValueError(text)
        found += [f'{match["kind"]}:{release}'] * int(match['number'] or 1)
    if not 1 <= len(found) <= MOST:
        raise ValueError(text)
    return ','.join(found)


def own_release() -> str:
    """Return the release of Debian of this machine."""
    version = platform.freedesktop_os_release().get('VERSION_ID', '')
    return version.partition('.')[0]


def choice() -> str | None:
    """Return the choice of this lab, None when it has no nodes."""
    try:
        return _CHOICE.read_text()
    except FileNotFoundError:
        return None


def choose(wanted: str | None) -> None:
    """Settle the nodes of the lab, for as long as it has files.

    :param wanted: None for those that there are, at first none
    :raises LabError: when it has others.
    """
    if wanted is None or wanted == choice():
        return
    if (paths.VAR / 'done').exists():
        raise LabError(
            f'this lab has {choice() or "no"} node(s); take it down before '
            f'you start one with {wanted}'
        )
    _CHOICE.write_text(wanted)


def count(text: str | None) -> int:
    """Return the number of nodes in a choice."""
    return len(text.split(',')) if text else 0


def nodes() -> list[Node]:
    """Return the nodes of this lab, alive or not."""
    chosen = choice()
    kinds = chosen.split(',') if chosen else []
    return [
        Node(number, release, kind)
        for number, each in enumerate(kinds, 1)
        for kind, _, release in [each.partition(':')]
    ]


def find(host: str) -> Node | None:
    """Return the node of this name among hosts, None for another host."""
    return next((node for node in nodes() if node.host == host), None)


def ssh_config(own: Sequence[Node]) -> str:
    """Return the text of SSH_CONFIG."""
    # One connection is made for many commands: a new one takes a second or
    # two where no KVM is. The nodes' keys are those of this lab.
    text = f"""Host *
User root
IdentityFile {DIRECTORY}/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
ConnectTimeout {_CONNECT_S}
ServerAliveInterval 30
ServerAliveCountMax 4
ControlMaster auto
ControlPath /run/%n.ssh
ControlPersist 300
"""
    for node in own:
        text += f'Host {node.host}\nHostName {node.address}\n'
    return text

# SPDX-License-Identifier: Apache-2.0
"""Running commands on a compute host, and reading and writing its files.

A transport does one thing: it runs a line of a shell. All else is built on
that, so that a test sees no difference between this machine and another.
"""

from collections.abc import Sequence
import shlex
import subprocess
from typing import Protocol

from tempest import config
from tempest.lib import exceptions as lib_exc
from tempest.lib.common import ssh

CONF = config.CONF


class HostError(Exception):
    """A command on a host failed; the text has its output."""


class Transport(Protocol):
    """A way to a host."""

    def run(self, line: str, timeout: float) -> str:
        """Run a line of a shell; return its standard output.

        :raises HostError: if it fails or takes too long
        """


class Local:
    """This machine."""

    def run(self, line: str, timeout: float) -> str:
        """Run a line of a shell; see :class:`Transport`."""
        try:
            done = subprocess.run(
                ['/bin/sh', '-c', line],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as err:
            raise HostError(f'{line}: no end after {timeout} s') from err
        if done.returncode:
            raise HostError(
                f'{line}: exit code {done.returncode}: '
                f'{done.stdout}{done.stderr}'
            )
        return done.stdout


class SSH:
    """Another machine.

    :param address: its name or IP address
    """

    def __init__(self, address: str) -> None:
        self._client = ssh.Client(
            address,
            CONF.nova_rt.host_user,
            key_filename=CONF.nova_rt.host_key_file,
            look_for_keys=CONF.nova_rt.host_key_file is None,
            port=CONF.nova_rt.host_port,
            timeout=CONF.nova_rt.host_timeout,
            channel_timeout=CONF.nova_rt.host_timeout,
        )

    def run(self, line: str, timeout: float) -> str:
        """Run a line of a shell; see :class:`Transport`."""
        # The client itself waits for each piece of output alone.
        limited = f'timeout {timeout:.0f} /bin/sh -c {shlex.quote(line)}'
        try:
            return self._client.exec_command(limited)
        except (
            lib_exc.SSHExecCommandFailed,
            lib_exc.SSHTimeout,
            lib_exc.TimeoutException,
        ) as err:
            raise HostError(f'{line}: {err}') from err


class Host:
    """A compute host.

    :ivar name: of the host in Nova
    :ivar address: where it is reached
    """

    def __init__(self, name: str, address: str, transport: Transport) -> None:
        self.name = name
        self.address = address
        self._transport = transport

    def run(self, *words: str, timeout: float | None = None) -> str:
        """Run a command, as root; return its standard output.

        :raises HostError: if it fails or takes too long
        """
        return self.shell(shlex.join(words), timeout)

    def shell(self, line: str, timeout: float | None = None) -> str:
        """Run a line of a shell, as root; return its standard output.

        :raises HostError: if it fails or takes too long
        """
        if CONF.nova_rt.host_sudo:
            line = f'sudo -n /bin/sh -c {shlex.quote(line)}'
        return self._transport.run(line, timeout or CONF.nova_rt.host_timeout)

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return self.run('cat', path)

    def read_some(self, paths: Sequence[str]) -> str:
        """Return the texts of those files that are still there."""
        line = f'cat {shlex.join(paths)} 2>/dev/null || true'
        return self.shell(line) if paths else ''

    def write(self, path: str, text: str) -> None:
        """Write a text into a file, at once and as it is."""
        # Not "echo >": dash says nothing of an error at closing time.
        line = f'printf %s {shlex.quote(text)} | tee {shlex.quote(path)}'
        self.shell(f'set -e; {line} >/dev/null')

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory."""
        line = f'if [ -e {shlex.quote(path)} ]; then echo yes; fi'
        return self.shell(line).strip() == 'yes'


def compute_host(name: str) -> Host:
    """Return the compute host that Nova calls so."""
    if CONF.nova_rt.host_access == 'local':
        return Host(name, '127.0.0.1', Local())
    address = CONF.nova_rt.host_addresses.get(name, name)
    return Host(name, address, SSH(address))


def manage_host() -> Host:
    """Return the machine on which ``manage_command`` is run."""
    address = CONF.nova_rt.manage_host
    if address is None:
        return Host('here', '127.0.0.1', Local())
    return Host(address, address, SSH(address))

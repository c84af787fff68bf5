# SPDX-License-Identifier: Apache-2.0
"""Ansible's way onto a node: by tools/container.sh, not by ssh."""

import pathlib
import shlex
import subprocess

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: node
short_description: runs commands on a node of tools/install
description: Runs commands and copies files by the given command.
author: nova_rt contributors
options:
  command:
    description: what runs the words after it on the node
    vars: [{name: node_command}]
    required: true
"""


class Connection(ConnectionBase):  # type: ignore[misc]
    """Runs each command anew; there is nothing to keep open."""

    transport = 'node'
    has_pipelining = True

    def _connect(self) -> 'Connection':
        self._connected = True
        return self

    def close(self) -> None:
        """Close nothing."""
        self._connected = False

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run a line of sh; return exit code, output and errors."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._run('/bin/sh', '-c', cmd, data=in_data)

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file to the node."""
        super().put_file(in_path, out_path)
        data = pathlib.Path(in_path).read_bytes()
        words = f'cat >{shlex.quote(out_path)}'
        code, _, errors = self._run('/bin/sh', '-c', words, data=data)
        if code:
            raise AnsibleConnectionFailure(f'{out_path}: {errors!r}')

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file from the node."""
        super().fetch_file(in_path, out_path)
        code, output, errors = self._run('cat', in_path)
        if code:
            raise AnsibleConnectionFailure(f'{in_path}: {errors!r}')
        pathlib.Path(out_path).write_bytes(output)

    def _run(
        self, *words: str, data: bytes | None = None
    ) -> tuple[int, bytes, bytes]:
        command = shlex.split(self.get_option('command'))
        answer = subprocess.run(
            [*command, *words],
            input=data or b'',
            capture_output=True,
            check=False,
        )
        return answer.returncode, answer.stdout, answer.stderr

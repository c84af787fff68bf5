# SPDX-License-Identifier: Apache-2.0
"""The kernel's files as one reading sees them: each is read once."""

from collections.abc import Callable, Iterator, Mapping
import errno
import pathlib
from typing import Any

from nova_rt.host.files import Files


class Snapshot(Files):
    """Files that are remembered until the next reading, and never written.

    The host layer looks at some of them several times, and opening them is
    the largest cost of a reading.

    :param files: where they are
    """

    def __init__(self, files: Files) -> None:
        super().__init__(
            str(files.cgroup),
            str(files.proc),
            str(files.sys),
            run=str(files.run),
        )
        self._files = files
        self._texts: dict[str, str] = {}
        self._answers: dict[str, list[Mapping[str, str]]] = {}

    def forget(self) -> None:
        """Read everything anew from now on."""
        self._texts.clear()
        self._answers.clear()

    def read(self, path: pathlib.Path) -> str:
        """Read a file; a failure is not remembered.

        :returns: its text, as it was at the first time
        :raises OSError: with the kernel's errno
        """
        key = str(path)
        if key not in self._texts:
            self._texts[key] = self._files.read(path)
        return self._texts[key]

    def groups(self, path: pathlib.Path) -> Iterator[pathlib.Path]:
        """List the groups in a group.

        :returns: their directories, by name
        :raises OSError: with the kernel's errno
        """
        return self._files.groups(path)

    def ask_scheduler(self, request: str) -> list[Mapping[str, str]]:
        """Ask nova-rt-sched; a failure is not remembered.

        :returns: its answer, as it was at the first time
        :raises OSError: with the daemon's errno
        """
        if request not in self._answers:
            self._answers[request] = self._files.ask_scheduler(request)
        return self._answers[request]

    def _call(self, function: Callable[..., Any], *args: object) -> None:
        raise PermissionError(errno.EPERM, 'this only reads')

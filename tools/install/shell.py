# SPDX-License-Identifier: Apache-2.0
"""A place of a cloud that runs, where the commands of a page are typed."""

from collections.abc import Mapping
import pathlib
import subprocess

from tools.install import blocks
from tools.install.commands import ENVIRONMENT, ROOT


class Shell:
    """A host for :class:`chapter.Follower` that has no files to write.

    :param words: the command that runs ``bash -c SCRIPT`` there
    """

    def __init__(
        self,
        *words: str,
        cwd: pathlib.Path = ROOT,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> None:
        self._words = words
        self._cwd = cwd
        self._environment = environment

    def run(self, script: str, log: pathlib.Path) -> int:
        """Run a script of bash, with its output added to a log.

        :returns: the exit code
        """
        with log.open('ab') as output:
            return subprocess.run(
                [*self._words, 'bash', '-c', script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._cwd,
                env=self._environment,
                check=False,
            ).returncode

    def path(self, name: str) -> pathlib.Path:
        """Refuse: a cloud that runs needs no file.

        :raises Wrong: always
        """
        raise blocks.Wrong(f'{name} is no matter of a cloud that runs')

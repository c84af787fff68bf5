# SPDX-License-Identifier: Apache-2.0
"""A program of the lab: started, watched and ended.

Which programs there are is in :mod:`lab.services`. Everything here runs inside
the lab's namespaces.
"""

from collections.abc import Callable, Iterable, Sequence
import dataclasses
import hashlib
import json
import pathlib
import threading
import time

from lab import answers, paths, process, second
from lab.console import LabError, say

Words = tuple[str | pathlib.Path, ...]

# Set when a step of ``up`` has failed: nobody needs to wait any more.
abandoned = threading.Event()


@dataclasses.dataclass(frozen=True)
class Service:
    """One program of the lab.

    :param needs: steps that must be done before it is started.
    :param ready: returns once it serves, False while it does not.
    :param files: its configuration; when it changes, ``up`` restarts it.
    :param environment: added to the environment that all services share.
    :param directory: where it runs.
    :param stop_s: seconds it gets to end in order.
    :param on_second: whether it runs on the second compute's machine.
    :param settle: called before it is ended in order.
    """

    name: str
    command: Words
    needs: tuple[str, ...] = ()
    ready: Callable[[], bool] | None = None
    files: tuple[pathlib.Path, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    directory: pathlib.Path = paths.VAR
    stop_s: float = 15
    ready_s: float = 300
    on_second: bool = False
    settle: Callable[[], None] | None = None

    @property
    def log(self) -> pathlib.Path:
        """The file with everything that it prints and logs."""
        return paths.LOG / f'{self.name}.log'

    @property
    def _record(self) -> pathlib.Path:
        return paths.RUN / f'{self.name}.json'

    def running(self) -> process.Process | None:
        """Return its process if it runs."""
        record = self._read()
        return record[0] if record and record[0].alive() else None

    def ensure(self) -> bool:
        """Start it unless it runs with its present configuration.

        :return: whether it was started.
        :raises LabError: when it ends or does not serve in time.
        """
        digest = self._digest()
        record = self._read()
        if record and record[0].alive():
            if record[1] == digest:
                return False
            say(f'{self.name}: its configuration changed, restarting it')
            self.stop()
        command: Sequence[str | pathlib.Path] = self.command
        if self.on_second:
            command = second.enter(command, self.directory)
        started = process.start(
            command, self.log, self._environment(), self.directory
        )
        self._record.write_text(
            json.dumps(
                {
                    'pid': started.pid,
                    'started': started.started,
                    'digest': digest,
                }
            )
        )
        self._wait(started)
        say(f'{self.name} is up')
        return True

    def stop(self, seconds: float | None = None) -> None:
        """End it and its children, in order if that is quick enough."""
        running = self.running()
        if running:
            if self.settle and seconds is None:
                self.settle()
            process.stop([running], seconds or self.stop_s)
            running.kill_session()
        self._record.unlink(missing_ok=True)

    def state(self) -> str:
        """Return ``up``, ``down`` or ``not answering``."""
        if not self.running():
            return 'down'
        if self.ready and not self.ready():
            return 'not answering'
        return 'up'

    def _wait(self, started: process.Process) -> None:
        deadline = time.monotonic() + self.ready_s
        while True:
            if not started.alive():
                raise LabError(f'{self.name} ended', self.log)
            if self.ready is None or self.ready():
                return
            if time.monotonic() > deadline:
                raise LabError(
                    f'{self.name} does not serve after {self.ready_s:.0f} s',
                    self.log,
                )
            if abandoned.wait(0.1):
                raise LabError(f'{self.name}: not waited for', self.log)

    def _read(self) -> tuple[process.Process, str] | None:
        # The process that was started, and the digest of its configuration.
        try:
            record = json.loads(self._record.read_text())
        except FileNotFoundError:
            return None
        started = process.Process(record['pid'], record['started'])
        return started, record['digest']

    def _environment(self) -> dict[str, str]:
        return base_environment() | dict(self.environment)

    def _digest(self) -> str:
        digest = hashlib.sha256()
        digest.update(repr((self.command, self.environment)).encode())
        for file in self.files:
            digest.update(file.read_bytes())
        return digest.hexdigest()


def program(name: str, *arguments: str | pathlib.Path) -> Words:
    """Return the command that starts a program of lab/programs."""
    # -P: the program's directory must not be searched for modules.
    python = paths.VENV / 'bin' / 'python'
    return (python, '-P', paths.PROGRAMS / name, *arguments)


def config_files(files: Iterable[pathlib.Path]) -> Words:
    """Return the arguments by which an OpenStack program finds its files."""
    return tuple(word for file in files for word in ('--config-file', file))


def wsgi(
    name: str,
    module: str,
    *,
    port: int,
    threads: int,
    needs: tuple[str, ...],
    files: tuple[pathlib.Path, ...],
    environment: tuple[tuple[str, str], ...],
) -> Service:
    """Return an OpenStack API, served by a process with some threads."""
    return Service(
        name,
        program('serve.py', module, str(port), str(threads)),
        needs=needs,
        ready=answers.by_http(port),
        files=files,
        environment=environment,
    )


def base_environment() -> dict[str, str]:
    """Return the environment of services and set-up commands.

    Nothing of the user's own: a proxy or a locale must not matter.
    """
    return {
        'PATH': f'{paths.VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        'HOME': str(paths.VAR),
        'LANG': 'C.UTF-8',
        'PYTHONUNBUFFERED': '1',
    }

# SPDX-License-Identifier: Apache-2.0
"""The container, through tools/container.sh: started, asked, stopped."""

from collections.abc import Sequence
import pathlib
import subprocess
import time

from lab.console import say
from tools.devstack_run import places

HEARTBEAT_S = 60
TAIL_LINES = 30
#: The code of timeout(1) for a command that took too long.
TOO_LONG = 124
_RUNS = '/tmp/devstack-run.pid'


class RunError(Exception):
    """A step cannot go on; the text says why.

    :ivar log: the output of the step
    """

    def __init__(self, why: str, log: pathlib.Path | None = None) -> None:
        super().__init__(why)
        self.log = log


def call(*words: str | pathlib.Path) -> None:
    """Run a command of container.sh.

    :raises RunError: if it fails; it has said why
    """
    command = [str(places.CONTAINER_SH), *map(str, words)]
    code = subprocess.run(command, check=False).returncode
    if code:
        raise RunError(f'container.sh {words[0]} ended with {code}')


def running() -> bool:
    """Return whether the container runs."""
    status = subprocess.run(
        [places.CONTAINER_SH, 'status', places.NAME],
        capture_output=True,
        check=False,
    )
    return status.returncode == 0


def inside(script: str, user: str = 'root') -> list[str]:
    """Return the command that runs a script of bash in the container."""
    return [
        str(places.CONTAINER_SH),
        *('exec', places.NAME, '-u', user, 'bash', '-c', script),
    ]


def ask(script: str, user: str = 'root', text: str = '') -> str:
    """Return the output of a short script in the container.

    :param text: its input
    :raises RunError: if it fails
    """
    done = subprocess.run(
        inside(script, user),
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RunError(
            f'in the container, "{script.splitlines()[0][:60]}" ended with '
            f'{done.returncode}: {done.stderr.strip()[-400:]}'
        )
    return done.stdout


def run(script: str, log: pathlib.Path, limit_s: int, user: str) -> int:
    """Run a long script in the container, its output in a log.

    :param limit_s: it is stopped after so many seconds
    :returns: its exit code
    """
    # It is stopped from within: what container.sh starts there outlives it.
    script = (
        f'echo $$ >{_RUNS}; exec timeout -k 30 {limit_s} bash -c '
        f'{quoted(script)}'
    )
    with log.open('wb') as output:
        child = subprocess.Popen(
            inside(script, user),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return _wait(child, log, limit_s + 60)
        finally:
            if child.poll() is None:
                ask(f'kill $(cat {_RUNS})', user)
                child.wait()


def quoted(text: str) -> str:
    """Quote a text for the shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _wait(
    child: subprocess.Popen[bytes], log: pathlib.Path, limit_s: float
) -> int:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            return child.wait(HEARTBEAT_S)
        except subprocess.TimeoutExpired:
            say(f'  ... {last_line(log)}')
    return TOO_LONG


def last_line(log: pathlib.Path) -> str:
    """Return the last line of a log that says something, shortened."""
    with log.open('rb') as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors='replace').splitlines()
    texts = [line.strip() for line in lines if line.strip()]
    return texts[-1][:70] if texts else ''


def tail(log: pathlib.Path) -> Sequence[str]:
    """Return the end of a log."""
    try:
        return log.read_text(errors='replace').splitlines()[-TAIL_LINES:]
    except FileNotFoundError:
        return []

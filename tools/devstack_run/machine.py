# SPDX-License-Identifier: Apache-2.0
"""The container, through tools/container.sh: started, asked, stopped."""

import pathlib
import shlex
import subprocess

from lab.console import LabError, say, tail
from tools.devstack_run import places

HEARTBEAT_S = 60
_RUNS = '/tmp/devstack-run.pid'


def call(*words: str | pathlib.Path) -> None:
    """Run a command of container.sh.

    :raises LabError: if it fails; it has said why
    """
    command = [str(places.CONTAINER_SH), *map(str, words)]
    code = subprocess.run(command, check=False).returncode
    if code:
        raise LabError(f'container.sh {words[0]} ended with {code}')


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
    :raises LabError: if it fails
    """
    done = subprocess.run(
        inside(script, user),
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(
            f'in the container, "{script.splitlines()[0][:60]}" ended with '
            f'{done.returncode}: {done.stderr.strip()[-400:]}'
        )
    return done.stdout


def run(script: str, log: pathlib.Path, limit_s: int, user: str) -> int:
    """Run a long script in the container, its output in a log.

    :param limit_s: it is stopped after so many seconds
    :returns: its exit code; that of timeout(1) if it took too long
    """
    # It is stopped from within: what container.sh starts there outlives it.
    script = (
        f'echo $$ >{_RUNS}; exec timeout -k 30 {limit_s} bash -c '
        f'{shlex.quote(script)}'
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
            while True:
                try:
                    return child.wait(HEARTBEAT_S)
                except subprocess.TimeoutExpired:
                    say(f'  ... {tail(log, 1).strip()[:70]}')
        finally:
            if child.poll() is None:
                ask(f'kill $(cat {_RUNS})', user)
                child.wait()

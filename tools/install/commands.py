# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tests of installing: programs, their logs, git."""

from collections.abc import Iterable, Mapping, Sequence
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = pathlib.Path(os.environ.get('NOVA_RT_LAB', '/var/lib/nova-rt-lab'))
CACHE = WORK / 'cache'
RUN = WORK / 'run' / 'install'
TAIL_LINES = 25
_START = time.monotonic()

Word = str | pathlib.Path

#: The caller's Python and OpenStack are not those of a test. Git serves root
#: in a checkout of somebody else only when told so.
ENVIRONMENT = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(('PYTHON', 'OS_', 'VIRTUAL_ENV', 'MAKE'))
} | {
    'PATH': f'{pathlib.Path(sys.executable).parent}:/usr/local/sbin:'
    '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'LANG': 'C.UTF-8',
    'DEBIAN_FRONTEND': 'noninteractive',
    'GIT_CONFIG_COUNT': '1',
    'GIT_CONFIG_KEY_0': 'safe.directory',
    'GIT_CONFIG_VALUE_0': '*',
}


class Failed(Exception):
    """A test cannot go on, or found a fault; the text says which.

    :ivar log: the log file that knows more; its last lines are shown
    """

    def __init__(self, text: str, log: pathlib.Path | None = None) -> None:
        super().__init__(text)
        self.log = log


def say(text: str) -> None:
    """Print a line of progress with the seconds since the start."""
    print(f'[{time.monotonic() - _START:6.1f}s] {text}', flush=True)


def fail(error: Failed) -> None:
    """Print why a command ends, with the end of the log that explains it."""
    if error.log and error.log.exists():
        lines = error.log.read_text(errors='replace').splitlines()
        print(f'--- the last lines of {error.log} ---', file=sys.stderr)
        print('\n'.join(lines[-TAIL_LINES:]), file=sys.stderr)
        print('---', file=sys.stderr)
    print(f'install: {error}', file=sys.stderr, flush=True)


def run(
    command: Sequence[Word],
    log: pathlib.Path,
    cwd: pathlib.Path = ROOT,
    environment: Mapping[str, str] | None = None,
    codes: Iterable[int] = (0,),
) -> int:
    """Run a program with its output added to a log.

    :param environment: added to ENVIRONMENT
    :param codes: exit codes that are no failure
    :returns: the exit code
    :raises Failed: if it is another one
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open('ab') as output:
        output.write(f'+ {" ".join(map(str, command))}\n'.encode())
        output.flush()
        code = subprocess.run(
            command,
            cwd=cwd,
            env=ENVIRONMENT | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if code not in codes:
        raise Failed(f'{" ".join(map(str, command))} ended with {code}', log)
    return code


def read(command: Sequence[Word], cwd: pathlib.Path = ROOT) -> str:
    """Run a program and return its output.

    :raises Failed: if it fails
    """
    answer = subprocess.run(
        command,
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise Failed(
            f'{" ".join(map(str, command))} ended with {answer.returncode}:'
            f' {answer.stderr.strip()}'
        )
    return answer.stdout


def empty(directory: pathlib.Path) -> pathlib.Path:
    """Make a directory anew."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def tracked() -> list[str]:
    """The files of the checkout that are in git, or would be after git add.

    :raises Failed: if this is no checkout
    """
    words = ('--cached', '--others', '--exclude-standard', '-z')
    names = read(['git', 'ls-files', *words]).split('\0')
    return sorted({name for name in names if name and (ROOT / name).is_file()})


def copy_checkout(target: pathlib.Path) -> list[str]:
    """Copy the files of git into a repository of its own.

    Builds write to their source tree, and pbr asks git which files there are.

    :returns: their names
    """
    names = tracked()
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    identity = []
    for value in ('user.name=nova_rt', 'user.email=nova_rt@localhost'):
        identity += ['-c', value]
    for words in (
        ('init', '--quiet'),
        ('add', '--force', '.'),
        (*identity, 'commit', '--quiet', '--message', 'checkout'),
    ):
        read(['git', *words], target)
    return names


def version() -> str:
    """The version of the checkout, as tools/bootstrap.sh gives it."""
    try:
        return read(['git', 'describe', '--tags', '--exact-match']).strip()
    except Failed:
        count = read(['git', 'rev-list', '--count', 'HEAD']).strip()
        return f'1.0.0.0rc1.dev{count}'

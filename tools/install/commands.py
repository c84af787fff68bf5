# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tests of installing: programs, their logs, git."""

from collections.abc import Iterable, Mapping, Sequence
import pathlib
import shutil
import subprocess
import sys

from lab.console import LabError
from tools.gate.places import ENVIRONMENT, LAB, ROOT

RUN = LAB / 'run' / 'install'
#: ``lab status``: it is down.
DOWN = 3

Word = str | pathlib.Path


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
    :raises LabError: if it is another one
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
        raise LabError(f'{" ".join(map(str, command))} ended with {code}', log)
    return code


def lab(words: str, log: pathlib.Path, codes: Iterable[int] = (0,)) -> int:
    """Run a command of the lab; return its exit code."""
    return run([sys.executable, '-m', 'lab', *words.split()], log, codes=codes)


def read(command: Sequence[Word], cwd: pathlib.Path = ROOT) -> str:
    """Run a program and return its output.

    :raises LabError: if it fails
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
        raise LabError(
            f'{" ".join(map(str, command))} ended with {answer.returncode}:'
            f' {answer.stderr.strip()}'
        )
    return answer.stdout


def empty(directory: pathlib.Path) -> pathlib.Path:
    """Make a directory anew."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def copy_checkout(target: pathlib.Path) -> set[str]:
    """Copy the files of git into a repository of its own.

    Builds write to their source tree, and pbr asks git which files there are.

    :returns: their names, and those of files that git add would add
    """
    words = ('--cached', '--others', '--exclude-standard', '-z')
    listed = read(['git', 'ls-files', *words]).split('\0')
    names = {name for name in listed if name and (ROOT / name).is_file()}
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    identity = (
        '-c',
        'user.name=nova_rt',
        '-c',
        'user.email=nova_rt@localhost',
    )
    for command in (
        ('init', '--quiet'),
        ('add', '--force', '.'),
        (*identity, 'commit', '--quiet', '--message', 'checkout'),
    ):
        read(['git', *command], target)
    return names


def version() -> str:
    """The version of the checkout, as tools/bootstrap.sh gives it."""
    try:
        return read(['git', 'describe', '--tags', '--exact-match']).strip()
    except LabError:
        count = read(['git', 'rev-list', '--count', 'HEAD']).strip()
        return f'1.0.0.0rc1.dev{count}'

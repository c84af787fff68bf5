# SPDX-License-Identifier: Apache-2.0
"""Hosts on which commands are typed: machine-like containers, and the lab.

Containers are those of ``tools/container.sh``, with systemd and without a
network. A node is one with a cloud without nova_rt, as operators have it:
Nova in a Python environment, MariaDB, RabbitMQ and libvirt. Its tree is made
once for each version of its content; every node starts from a copy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

from lab.console import LabError, say
from tools.gate.places import CACHE, ENVIRONMENT, LAB, ROOT
from tools.install.commands import Word, read, run

CONTAINER = ROOT / 'tools' / 'container.sh'
FILES = pathlib.Path(__file__).parent / 'node'
SUITE = 'bookworm'
#: The name by which the chapter calls the controller.
NAME = 'controller'
#: Directory of Nova, and that of the wheels of all that may be needed.
NOVA = pathlib.PurePosixPath('/opt/nova')
WHEELS = pathlib.PurePosixPath('/srv/wheels')
_PACKAGES = (
    'curl',
    'libnss-systemd',
    'libvirt-clients',
    'libvirt-daemon-driver-lxc',
    'libvirt-daemon-system',
    'mariadb-server',
    'mount',
    'python3-apt',
    'python3-venv',
    'rabbitmq-server',
)
# Beside what nova_rt requires, Nova included.
_PYTHON = ('gunicorn', 'libvirt-python', 'pip', 'setuptools')
# The chapter installs it for nova-rt-api.
_UWSGI = 'pyuwsgi==2.0.30.post1'
_PIP = f"""[global]
no-index = true
find-links = {WHEELS}
constraint = {WHEELS}/constraints.txt
disable-pip-version-check = true
"""


@dataclasses.dataclass(frozen=True)
class Host:
    """A host that runs.

    :ivar words: the command of this machine that runs another one there
    :ivar log: file for the output of its commands
    :ivar root: its tree, as this machine sees it; None without one
    """

    words: Sequence[str]
    log: pathlib.Path
    root: pathlib.Path | None = None
    cwd: pathlib.Path = ROOT
    environment: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: ENVIRONMENT
    )

    def run(self, script: str) -> int:
        """Run a script of bash as root, with its output added to the log.

        :returns: the exit code
        """
        with self.log.open('ab') as output:
            return subprocess.run(
                [*self.words, 'bash', '-c', script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.cwd,
                env=self.environment,
                check=False,
            ).returncode

    def do(self, script: str) -> None:
        """Run a script of bash as root, up to the first command that fails.

        :raises LabError: if one does
        """
        if code := self.run(f'set -eux\n{script}'):
            raise LabError(f'{script.strip()} ended with {code}', self.log)

    def read(self, script: str) -> str:
        """Return the output of a script of bash, without blanks around it.

        :raises LabError: if a command fails
        """
        return read([*self.words, 'bash', '-euc', script]).strip()

    def path(self, name: str) -> pathlib.Path:
        """A file of the host, by its name there.

        :raises LabError: if the host has no files of its own
        """
        if self.root is None:
            raise LabError(f'{name} is no matter of a cloud that runs')
        return self.root / name.lstrip('/')


@contextlib.contextmanager
def started(
    name: str, tree: pathlib.Path, log: pathlib.Path
) -> Iterator[Host]:
    """Start a container from a tree, and stop it afterwards."""
    run([CONTAINER, 'up', name, tree, '--net', 'none'], log)
    try:
        yield Host((str(CONTAINER), 'exec', name), log, tree)
    finally:
        run([CONTAINER, 'down', name], log)


@contextlib.contextmanager
def new_tree(
    name: str, make: Callable[[pathlib.Path], object], log: pathlib.Path
) -> Iterator[pathlib.Path]:
    """Make the tree of a container; nothing of it is left afterwards.

    :param name: of the container, which is stopped if it runs
    :param make: makes the tree in a directory that is not there yet
    """
    tree = LAB / 'install' / name
    tree.parent.mkdir(parents=True, exist_ok=True)
    run([CONTAINER, 'down', name, '0'], log)
    _remove(tree)
    try:
        make(tree)
        yield tree
    finally:
        _remove(tree)


@contextlib.contextmanager
def machine(
    name: str, suite: str, packages: Sequence[str], log: pathlib.Path
) -> Iterator[Host]:
    """Start a new container with these packages."""

    def make(tree: pathlib.Path) -> None:
        run([CONTAINER, 'make', tree, suite, *packages], log)

    with new_tree(name, make, log) as tree, started(name, tree, log) as host:
        yield host


@contextlib.contextmanager
def fresh(log: pathlib.Path) -> Iterator[Host]:
    """Start a new node of a cloud."""
    kept = _archive(log)

    def make(tree: pathlib.Path) -> None:
        tree.mkdir()
        _tar('--extract', kept, tree, log)

    with new_tree(NAME, make, log) as tree, started(NAME, tree, log) as node:
        yield node


def _archive(log: pathlib.Path) -> pathlib.Path:
    # The tree of a node, made if there is none of these contents.
    kept = CACHE / f'node-{_key()}.tar'
    if kept.exists():
        return kept
    say(f'making the tree of a node, some minutes; log: {log}')

    def make(tree: pathlib.Path) -> None:
        run([CONTAINER, 'make', tree, SUITE, *_PACKAGES], log)
        _python(tree, log)
        shutil.copytree(FILES, tree / 'root/node')

    with new_tree(NAME, make, log) as tree:
        with started(NAME, tree, log) as node:
            node.do('bash /root/node/setup.sh; rm -r /root/node')
        part = kept.with_suffix('.part')
        _tar('--create', part, tree, log)
        part.rename(kept)
    return kept


def _key() -> str:
    parts = [repr((SUITE, _PACKAGES, _PYTHON, _UWSGI, _PIP)).encode()]
    files = (*sorted(FILES.iterdir()), *_requirements())
    parts += [file.read_bytes() for file in (CONTAINER, *files)]
    return hashlib.sha256(b'\0'.join(parts)).hexdigest()[:16]


def _requirements() -> tuple[pathlib.Path, pathlib.Path]:
    return ROOT / 'constraints.txt', ROOT / 'requirements.txt'


def _python(tree: pathlib.Path, log: pathlib.Path) -> None:
    # The wheels of all that a node needs, from the package index, and Nova.
    constraints, requirements = _requirements()
    target = tree / str(WHEELS).lstrip('/')
    target.mkdir(parents=True)
    words: list[Word] = [sys.executable, '-m', 'pip', 'wheel', '--quiet']
    words += ['--disable-pip-version-check', '--wheel-dir', target]
    words += ['--constraint', constraints, '--build-constraint', constraints]
    run([*words, '--requirement', requirements, *_PYTHON, _UWSGI], log)
    shutil.copy2(constraints, target)
    (tree / 'etc/pip.conf').write_text(_PIP)
    # This machine's variables, of pip and of proxies, are not the node's.
    words = ['chroot', tree, 'env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin']
    run([*words, 'python3', '-m', 'venv', str(NOVA)], log)
    names = ('nova', *_PYTHON, 'PyMySQL')
    run([*words, f'{NOVA}/bin/pip', 'install', '--quiet', *names], log)


def _tar(
    what: str, archive: pathlib.Path, tree: pathlib.Path, log: pathlib.Path
) -> None:
    words = ['--numeric-owner', '--xattrs', '--xattrs-include=*']
    run(['tar', what, *words, '-p', '-C', tree, '-f', archive, '.'], log)


def _remove(tree: pathlib.Path) -> None:
    # Never across a mount: it would be somebody else's.
    if tree.exists():
        subprocess.run(['rm', '-rf', '--one-file-system', tree], check=True)


def snapshot(
    top: pathlib.Path, ignored: re.Pattern[str] | None = None
) -> dict[str, str]:
    """The contents, owners and modes of all files of a directory.

    :param ignored: files to leave out, and directories, with a slash at the
        end, that are not entered
    """
    found = {}
    for where, directories, files in os.walk(top):
        inside = os.path.relpath(where, top) + '/'
        inside = '' if inside == './' else inside
        if ignored:
            directories[:] = [
                name
                for name in directories
                if not ignored.match(f'{inside}{name}/')
            ]
        for name in (*directories, *files):
            path = pathlib.Path(where, name)
            if ignored and ignored.match(inside + name):
                continue
            status = path.lstat()
            text = f'{status.st_mode:o} {status.st_uid}:{status.st_gid}'
            if path.is_symlink():
                text += f' {path.readlink()}'
            elif path.is_file():
                text += f' {hashlib.sha256(path.read_bytes()).hexdigest()}'
            found[inside + name] = text
    return found


def differences(
    before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """The files that are not as they were, a line for each."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            lines.append(f'{name} is left')
        elif name not in after:
            lines.append(f'{name} is gone')
        elif before[name] != after[name]:
            lines.append(f'{name} was {before[name]}, is {after[name]}')
    return lines

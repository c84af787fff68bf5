# SPDX-License-Identifier: Apache-2.0
"""A node of a cloud without nova_rt, as operators have it.

It is a machine-like container (``tools/container.sh``) with Nova in a Python
environment, systemd, MariaDB, RabbitMQ and libvirt, and without a network. Its
tree is made once for each version of its content; every node starts from a
copy.
"""

from collections.abc import Iterator
import contextlib
import hashlib
import pathlib
import shutil
import subprocess
import sys

from tools.install.commands import (
    CACHE,
    ENVIRONMENT,
    ROOT,
    WORK,
    Failed,
    read,
    run,
    say,
)

CONTAINER = ROOT / 'tools' / 'container.sh'
FILES = pathlib.Path(__file__).parent / 'node'
SUITE = 'bookworm'
#: The name by which the chapter calls the controller.
NAME = 'controller'
#: Directory of Nova, and that of the wheels of all that may be needed.
NOVA = pathlib.PurePosixPath('/opt/nova')
WHEELS = pathlib.PurePosixPath('/srv/wheels')
_BASE = ('python3-venv', 'curl', 'mount')
_PACKAGES = (
    'libnss-systemd',
    'libvirt-clients',
    'libvirt-daemon-driver-lxc',
    'libvirt-daemon-system',
    'mariadb-server',
    'python3-apt',
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
# Debian starts a service as soon as its package is there; not in a tree.
_POLICY = '#!/bin/sh\nexit 101\n'


class Node:
    """A node that runs.

    :ivar root: its tree, as this machine sees it
    """

    def __init__(self, name: str, root: pathlib.Path) -> None:
        self.name = name
        self.root = root

    def command(self, *words: str) -> list[str]:
        """The command of this machine that runs another on the node."""
        return [str(CONTAINER), 'exec', self.name, *words]

    def run(self, script: str, log: pathlib.Path) -> int:
        """Run a script of bash as root, with its output added to a log.

        :returns: the exit code
        """
        with log.open('ab') as output:
            return subprocess.run(
                self.command('bash', '-c', script),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
                check=False,
            ).returncode

    def read(self, *words: str) -> str:
        """Return the output of a command of the node.

        :raises Failed: if it fails
        """
        return read(self.command(*words))

    def path(self, name: str) -> pathlib.Path:
        """A file of the node, by its name there."""
        return self.root / name.lstrip('/')


@contextlib.contextmanager
def started(tree: pathlib.Path, log: pathlib.Path) -> Iterator[Node]:
    """Start a node from a tree, and stop it afterwards."""
    run([CONTAINER, 'up', NAME, tree, '--net', 'none'], log)
    try:
        yield Node(NAME, tree)
    finally:
        run([CONTAINER, 'down', NAME], log)


@contextlib.contextmanager
def fresh(log: pathlib.Path) -> Iterator[Node]:
    """Start a new node of a cloud; nothing of it is left afterwards."""
    kept = _archive(log)
    tree = WORK / 'install' / 'node'
    _remove(tree)
    tree.mkdir(parents=True)
    _tar('--extract', kept, tree, log)
    try:
        with started(tree, log) as node:
            yield node
    finally:
        _remove(tree)


def wheels(target: pathlib.Path, log: pathlib.Path) -> None:
    """Collect the wheels of all that a node needs from the package index."""
    constraints = ROOT / 'constraints.txt'
    run(
        [
            sys.executable,
            '-m',
            'pip',
            'wheel',
            '--quiet',
            '--disable-pip-version-check',
            '--wheel-dir',
            target,
            '--constraint',
            constraints,
            '--build-constraint',
            constraints,
            '--requirement',
            ROOT / 'requirements.txt',
            *_PYTHON,
            _UWSGI,
        ],
        log,
    )
    shutil.copy2(constraints, target)


def _archive(log: pathlib.Path) -> pathlib.Path:
    # The tree of a node, made if there is none of these contents.
    kept = CACHE / f'node-{_key()}.tar'
    if kept.exists():
        return kept
    say(f'making the tree of a node, some minutes; log: {log}')
    tree = WORK / 'install' / 'new-node'
    _remove(tree)
    tree.parent.mkdir(parents=True, exist_ok=True)
    try:
        run([CONTAINER, 'make', tree, SUITE, *_BASE], log)
        _packages(tree, log)
        _python(tree, log)
        _set_up(tree, log)
        part = kept.with_suffix('.part')
        _tar('--create', part, tree, log)
        part.rename(kept)
    finally:
        _remove(tree)
    return kept


def _key() -> str:
    parts = [repr((SUITE, _BASE, _PACKAGES, _PYTHON, _UWSGI, _PIP)).encode()]
    parts += [CONTAINER.read_bytes()]
    parts += [file.read_bytes() for file in sorted(FILES.iterdir())]
    parts += [
        (ROOT / name).read_bytes()
        for name in ('constraints.txt', 'requirements.txt')
    ]
    return hashlib.sha256(b'\0'.join(parts)).hexdigest()[:16]


def _packages(tree: pathlib.Path, log: pathlib.Path) -> None:
    policy = tree / 'usr/sbin/policy-rc.d'
    policy.write_text(_POLICY)
    policy.chmod(0o755)
    # How names are found is this machine's business, until it has its own.
    shutil.copy2('/etc/resolv.conf', tree / 'etc/resolv.conf')
    apt = [*_within(tree), 'apt-get', '--quiet']
    run([*apt, 'update'], log)
    run([*apt, 'install', '--yes', '--no-install-recommends', *_PACKAGES], log)
    run([*apt, 'clean'], log)
    policy.unlink()
    (tree / 'etc/resolv.conf').unlink()


def _python(tree: pathlib.Path, log: pathlib.Path) -> None:
    target = tree / str(WHEELS).lstrip('/')
    target.mkdir(parents=True)
    wheels(target, log)
    (tree / 'etc/pip.conf').write_text(_PIP)
    within = _within(tree)
    run([*within, 'python3', '-m', 'venv', str(NOVA)], log)
    names = ('nova', *_PYTHON, 'PyMySQL')
    run([*within, f'{NOVA}/bin/pip', 'install', '--quiet', *names], log)


def _within(tree: pathlib.Path) -> list[str | pathlib.Path]:
    # This machine's variables, of pip and of proxies, are not the node's.
    path = 'PATH=/usr/sbin:/usr/bin:/sbin:/bin'
    words = ['env', '-i', path, 'DEBIAN_FRONTEND=noninteractive', 'HOME=/root']
    return ['chroot', tree, *words]


def _set_up(tree: pathlib.Path, log: pathlib.Path) -> None:
    shutil.copytree(FILES, tree / 'root/node')
    with started(tree, log) as node:
        if node.run('bash /root/node/setup.sh', log):
            raise Failed('the node could not be set up', log)
    shutil.rmtree(tree / 'root/node')


def _tar(
    what: str, archive: pathlib.Path, tree: pathlib.Path, log: pathlib.Path
) -> None:
    words = ['--numeric-owner', '--xattrs', '--xattrs-include=*']
    run(['tar', what, *words, '-p', '-C', tree, '-f', archive, '.'], log)


def _remove(tree: pathlib.Path) -> None:
    # Never across a mount: it would be somebody else's.
    if tree.exists():
        subprocess.run(['rm', '-rf', '--one-file-system', tree], check=True)

# SPDX-License-Identifier: Apache-2.0
"""Debian trees to build and to install packages in.

A tree is made once, with Debian's packages, and kept as an archive. A copy of
it needs no network, and has none.
"""

from collections.abc import Iterable
import hashlib
import pathlib
import platform
import shutil

from tools.install.commands import (
    CACHE,
    ROOT,
    RUN,
    Failed,
    Word,
    read,
    run,
    say,
)

CONTAINER = ROOT / 'tools' / 'container.sh'
#: Archives of each tree.
_KEPT = 2


def suite() -> str:
    """The release of Debian, that of this machine.

    The stand-ins for Nova are modules of this machine's Python.
    """
    return platform.freedesktop_os_release()['VERSION_CODENAME']


def inside(
    root: pathlib.Path,
    script: str,
    log: pathlib.Path,
    network: bool = False,
    codes: Iterable[int] = (0,),
) -> int:
    """Run a shell script in a tree, in namespaces of its own.

    :param network: whether it may use this machine's
    """
    spaces: list[Word] = ['--mount', '--pid', '--ipc', '--uts', '--fork']
    spaces += ['--kill-child', f'--mount-proc={root}/proc']
    if not network:
        spaces.append('--net')
    words: list[Word] = ['unshare', *spaces, 'chroot', root]
    return run([*words, 'sh', '-euc', script], log, codes=codes)


def _fill(root: pathlib.Path, names: list[str], log: pathlib.Path) -> None:
    # Nothing is started here, whatever the packages want.
    policy = root / 'usr' / 'sbin' / 'policy-rc.d'
    policy.write_text('#!/bin/sh\nexit 101\n')
    policy.chmod(0o755)
    shutil.copy('/etc/resolv.conf', root / 'etc' / 'resolv.conf')
    inside(
        root,
        'apt-get update\n'
        f'apt-get install -y --no-install-recommends {" ".join(names)}\n'
        'apt-get clean',
        log,
        network=True,
    )
    policy.unlink()


def fresh(
    name: str, packages: Iterable[str], log: pathlib.Path
) -> pathlib.Path:
    """Make a copy of a tree with these packages.

    :returns: its directory
    """
    names = sorted(packages)
    parts = [CONTAINER.read_text(), suite(), *names]
    key = hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:16]
    kept = CACHE / f'tree-{name}-{key}.tar'
    root = RUN / 'trees' / name
    remove(root)
    tar: list[Word] = ['tar', '--directory', root, '--numeric-owner']
    tar += ['--xattrs', '--xattrs-include=*']
    if kept.exists():
        kept.touch()
        root.mkdir(parents=True)
        run([*tar, '--extract', '--file', kept], log)
        return root
    say(f'making the tree {name}: some minutes, once')
    root.parent.mkdir(parents=True, exist_ok=True)
    run([CONTAINER, 'make', root, suite()], log)
    _fill(root, names, log)
    part = kept.with_suffix('.part')
    run([*tar, '--create', '--file', part, '.'], log)
    part.rename(kept)
    prune(name)
    return root


def prune(name: str) -> None:
    """Remove the archives of a tree, except the two that were used last.

    Two, so that going back and forth between two branches makes none anew.
    """
    found = CACHE.glob(f'tree-{name}-{"[0-9a-f]" * 16}.tar')
    by_use = sorted(found, key=lambda file: file.stat().st_mtime)
    for old in by_use[:-_KEPT]:
        old.unlink()


def remove(root: pathlib.Path) -> None:
    """Remove a tree, unless something of this machine is mounted in it.

    :raises Failed: if it is
    """
    mounts = pathlib.Path('/proc/self/mountinfo').read_text().splitlines()
    if any(line.split()[4].startswith(f'{root}/') for line in mounts):
        raise Failed(f'something is mounted below {root}')
    if root.exists():
        run(['rm', '-rf', '--one-file-system', root], RUN / 'remove.log')


class Machine:
    """A tree that runs: systemd in a container, without network.

    It is a context: the container ends with it, the tree stays.
    """

    def __init__(self, name: str, root: pathlib.Path) -> None:
        self.name = name
        self.root = root

    def __enter__(self) -> 'Machine':
        log = RUN / f'{self.name}.log'
        run([CONTAINER, 'down', self.name, '0'], log)
        run([CONTAINER, 'up', self.name, self.root, '--net', 'none'], log)
        return self

    def __exit__(self, *_: object) -> None:
        run([CONTAINER, 'down', self.name], RUN / f'{self.name}.log')

    def run(self, script: str, log: pathlib.Path) -> None:
        """Run a shell script in it, as root.

        :raises Failed: if it fails
        """
        run([CONTAINER, 'exec', self.name, 'sh', '-euc', script], log)

    def read(self, script: str) -> str:
        """Run a shell script in it, as root, and return its output."""
        return read([CONTAINER, 'exec', self.name, 'sh', '-euc', script])

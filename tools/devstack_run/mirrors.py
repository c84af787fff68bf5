# SPDX-License-Identifier: Apache-2.0
"""The repositories that DevStack clones, as the container has them.

They are copied from a directory of this machine, in which they may be partial
clones that another user owns. If GIT_BASE is a URL, nothing is copied and
DevStack clones from there itself.
"""

import pathlib
import shutil
import subprocess

from lab.console import LabError

NAMES = (
    'devstack',
    'glance',
    'keystone',
    'neutron',
    'nova',
    'os-test-images',
    'placement',
    'requirements',
    'tempest',
)


def is_url(git_base: str) -> bool:
    """Return whether DevStack asks GIT_BASE over a network."""
    return '://' in git_base


def find(git_base: str, name: str) -> pathlib.Path:
    """Return the git directory of a repository of OpenStack.

    :raises LabError: if there is none under any of the usual names
    """
    base = pathlib.Path(git_base)
    tried = [
        base / 'openstack' / f'{name}.git',
        base / 'openstack' / name / '.git',
        base / 'openstack' / name,
        base / f'openstack+{name}' / 'repo',
    ]
    for candidate in tried:
        if (candidate / 'HEAD').is_file():
            return candidate
    raise LabError(
        f'GIT_BASE={git_base} has no openstack/{name}: there is none of '
        + ', '.join(map(str, tried))
    )


def copy(source: pathlib.Path, target: pathlib.Path) -> str:
    """Copy a bare repository so that any user can clone it.

    :returns: the commit that it stands at
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    # These name objects that a partial clone would fetch when needed. A clone
    # of it copies the files and cannot read them.
    for promise in target.glob('objects/pack/*.promisor'):
        promise.unlink()
    subprocess.run(['chmod', '-R', 'a+rX', target], check=True)
    for key, value in (('core.bare', 'true'), ('gc.auto', '0')):
        git(target, 'config', key, value)
    return git(target, 'rev-parse', 'HEAD')


def take_checkout(
    checkout: pathlib.Path, target: pathlib.Path, branch: str
) -> str:
    """Put the commits of a checkout on a branch of a bare repository.

    :returns: the commit
    """
    if not target.exists():
        subprocess.run(['git', 'init', '-q', '--bare', target], check=True)
    git(
        target,
        *('fetch', '-q', '--tags', '--force', str(checkout)),
        f'+HEAD:refs/heads/{branch}',
    )
    git(target, 'symbolic-ref', 'HEAD', f'refs/heads/{branch}')
    subprocess.run(['chmod', '-R', 'a+rX', target], check=True)
    return git(target, 'rev-parse', branch)


def uncommitted(checkout: pathlib.Path) -> bool:
    """Return whether a checkout has changes that no commit has."""
    done = subprocess.run(
        _git('-C', str(checkout), 'status', '--porcelain'),
        capture_output=True,
        check=True,
    )
    return bool(done.stdout)


def git(directory: pathlib.Path, *words: str) -> str:
    """Run git on a bare repository and return its output."""
    done = subprocess.run(
        _git(f'--git-dir={directory}', *words),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(
            f'git {" ".join(words)} in {directory}: {done.stderr.strip()}'
        )
    return done.stdout.strip()


def _git(*words: str) -> list[str]:
    # root may read what belongs to somebody else.
    return ['git', '-c', 'safe.directory=*', *words]

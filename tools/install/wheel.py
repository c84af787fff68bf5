# SPDX-License-Identifier: Apache-2.0
"""Builds sdist and wheel of nova_rt, and compares them with git.

The sdist must hold every file of git, and the wheel every file of the Python
package. The wheel is built from the unpacked sdist.
"""

import pathlib
import re
import sys
import tarfile
import zipfile

from tools.install.commands import RUN, Failed, Word, run, say, version

LOG = RUN / 'wheel.log'
WHERE = RUN / 'wheel'
#: Files that pbr, setuptools and reno add to an sdist when it is built.
_MADE = re.compile(
    r'AUTHORS|ChangeLog|PKG-INFO|setup\.cfg|RELEASENOTES\.rst'
    r'|releasenotes/notes/reno\.cache|[^/]+\.egg-info/.*'
)
#: pbr leaves it out on purpose.
_LEFT_OUT = {'.gitignore'}


def _names_in_sdist(file: pathlib.Path) -> set[str]:
    """The files of an sdist, without the directory that holds them."""
    with tarfile.open(file) as archive:
        return {
            member.name.partition('/')[2]
            for member in archive
            if not member.isdir()
        }


def _names_in_wheel(file: pathlib.Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(file) as archive:
        return {name for name in archive.namelist() if name[-1] != '/'}


def build(source: pathlib.Path, tracked: list[str]) -> pathlib.Path:
    """Build both, in this order, and compare them with git.

    :param source: the files of git
    :param tracked: their names
    :returns: the wheel
    :raises Failed: if a file is missing or too much
    """
    target = WHERE / 'dist' / 'nova_rt'
    words: list[Word] = [sys.executable, '-m', 'build', '--no-isolation']
    run(
        [*words, '--outdir', target, source],
        LOG,
        environment={'PBR_VERSION': version()},
    )
    (sdist,) = target.glob('*.tar.gz')
    (wheel,) = target.glob('*.whl')
    wanted, found = set(tracked), _names_in_sdist(sdist)
    package = {name for name in wanted if name.startswith('nova_rt/')}
    installed = {
        name for name in _names_in_wheel(wheel) if '.dist-info/' not in name
    }
    lines = [f'the sdist lacks {name}' for name in wanted - found - _LEFT_OUT]
    lines += [
        f'the sdist has {name}, which is not in git'
        for name in found - wanted
        if not _MADE.fullmatch(name)
    ]
    lines += [f'the wheel lacks {name}' for name in package - installed]
    lines += [f'the wheel has {name}' for name in installed - package]
    if lines:
        raise Failed(
            '\n'.join(['sdist or wheel is not complete:', *sorted(lines)])
        )
    say(f'{sdist.name} and {wheel.name} have all files of git')
    return wheel

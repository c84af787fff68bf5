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

from lab.console import LabError, say
from tools.install.commands import RUN, copy_checkout, empty, run

LOG = RUN / 'wheel.log'
WHERE = RUN / 'wheel'
#: Files that pbr, setuptools and reno add to an sdist when it is built.
_MADE = re.compile(
    r'AUTHORS|ChangeLog|PKG-INFO|setup\.cfg|RELEASENOTES\.rst'
    r'|releasenotes/notes/reno\.cache|[^/]+\.egg-info/.*'
)
#: pbr leaves it out on purpose.
_LEFT_OUT = {'.gitignore'}


def build(version: str) -> tuple[pathlib.Path, pathlib.Path]:
    """Build both, in this order, and compare them with git.

    :returns: the wheel, and the sdist
    :raises LabError: if a file is missing or too much
    """
    source, target = empty(WHERE / 'source'), empty(WHERE / 'dist')
    wanted = copy_checkout(source)
    run(
        [
            *(sys.executable, '-m', 'build', '--no-isolation'),
            *('--outdir', target, source),
        ],
        LOG,
        environment={'PBR_VERSION': version},
    )
    (sdist,) = target.glob('*.tar.gz')
    (wheel,) = target.glob('*.whl')
    with tarfile.open(sdist) as archive:
        # All is in one directory.
        found = {
            member.name.partition('/')[2]
            for member in archive
            if not member.isdir()
        }
    with zipfile.ZipFile(wheel) as archived:
        installed = {
            name
            for name in archived.namelist()
            if name[-1] != '/' and '.dist-info/' not in name
        }
    package = {name for name in wanted if name.startswith('nova_rt/')}
    lines = [f'the sdist lacks {name}' for name in wanted - found - _LEFT_OUT]
    lines += [
        f'the sdist has {name}, which is not in git'
        for name in found - wanted
        if not _MADE.fullmatch(name)
    ]
    lines += [f'the wheel lacks {name}' for name in package - installed]
    lines += [f'the wheel has {name}' for name in installed - package]
    if lines:
        raise LabError(
            '\n'.join(['sdist or wheel is not complete:', *sorted(lines)])
        )
    say(f'{sdist.name} and {wheel.name} have all files of git')
    return wheel, sdist

# SPDX-License-Identifier: Apache-2.0
"""Builds sdist and wheel, and uses the wheel where nothing else is.

The sdist must hold every file of git, and the wheel every file of its Python
package. The wheel is built from the unpacked sdist. Then it is installed into
an empty environment, with the versions of constraints.txt, and its programs
run there.
"""

import dataclasses
import hashlib
import pathlib
import re
import sys
import tarfile
import zipfile

from tools.install.commands import (
    CACHE,
    ROOT,
    RUN,
    Failed,
    Word,
    copy_checkout,
    empty,
    read,
    run,
    say,
    version,
)

LOG = RUN / 'wheel.log'
WHERE = RUN / 'wheel'
#: Files that pbr, setuptools and reno add to an sdist when it is built.
_MADE = re.compile(
    r'AUTHORS|ChangeLog|PKG-INFO|setup\.cfg|RELEASENOTES\.rst'
    r'|releasenotes/notes/reno\.cache|[^/]+\.egg-info/.*'
)
#: pbr leaves it out on purpose.
_LEFT_OUT = {'.gitignore'}
#: Loads what other programs look up in the distribution, and the programs.
#: Says which cannot be loaded without libvirt's Python module: that one comes
#: with libvirt, on the hosts that have it.
_LOAD = """
from importlib import metadata
import sys
for point in metadata.distribution(sys.argv[1]).entry_points:
    try:
        point.load()
    except ModuleNotFoundError as error:
        if error.name != 'libvirt':
            raise
        print(point.name)
"""


@dataclasses.dataclass(frozen=True)
class Distribution:
    """A Python distribution of the checkout.

    :ivar name: as in its pyproject.toml
    :ivar directory: where that is, below the checkout
    :ivar package: the Python package that it installs
    """

    name: str
    directory: str
    package: str

    def files(self, tracked: list[str]) -> set[str]:
        """Those of git's files that are its own, by their names in it."""
        if self.directory == '.':
            return set(tracked)
        prefix = f'{self.directory}/'
        return {
            name.removeprefix(prefix)
            for name in tracked
            if name.startswith(prefix)
        }


DISTRIBUTIONS = (
    Distribution('nova_rt', '.', 'nova_rt'),
    Distribution(
        'nova-rt-tempest-plugin', 'tempest_plugin', 'nova_rt_tempest_plugin'
    ),
)


def differences(
    distribution: Distribution, wanted: set[str], found: set[str]
) -> list[str]:
    """Compare the files of an sdist with those of git.

    :returns: a line for each that is missing or too much
    """
    lines = [
        f'{distribution.name}: the sdist lacks {name}'
        for name in sorted(wanted - found - _LEFT_OUT)
    ]
    lines += [
        f'{distribution.name}: the sdist has {name}, which is not in git'
        for name in sorted(found - wanted)
        if not _MADE.fullmatch(name)
    ]
    return lines


def missing(
    distribution: Distribution, wanted: set[str], found: set[str]
) -> list[str]:
    """Compare the files of a wheel with those of the package in git."""
    package = {
        name for name in wanted if name.startswith(f'{distribution.package}/')
    }
    lines = [
        f'{distribution.name}: the wheel lacks {name}'
        for name in sorted(package - found)
    ]
    lines += [
        f'{distribution.name}: the wheel has {name}'
        for name in sorted(found - package)
        if '.dist-info/' not in name
    ]
    return lines


def names_in_sdist(file: pathlib.Path) -> set[str]:
    """The files of an sdist, without the directory that holds them."""
    with tarfile.open(file) as archive:
        return {
            member.name.partition('/')[2]
            for member in archive
            if not member.isdir()
        }


def names_in_wheel(file: pathlib.Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(file) as archive:
        return {name for name in archive.namelist() if name[-1] != '/'}


def required(wheel: pathlib.Path) -> bytes:
    """Return the requirements that a wheel declares."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith('/METADATA'))
        lines = archive.read(name).splitlines()
    return b'\n'.join(x for x in lines if x.startswith(b'Requires-Dist:'))


def build(
    distribution: Distribution, source: pathlib.Path, tracked: list[str]
) -> pathlib.Path:
    """Build both, in this order, and compare them with git.

    :returns: the wheel
    :raises Failed: if a file is missing or too much
    """
    target = WHERE / 'dist' / distribution.name
    words: list[Word] = [sys.executable, '-m', 'build', '--no-isolation']
    run(
        [*words, '--outdir', target, source / distribution.directory],
        LOG,
        environment={'PBR_VERSION': version()},
    )
    (sdist,) = target.glob('*.tar.gz')
    (wheel,) = target.glob('*.whl')
    wanted = distribution.files(tracked)
    lines = differences(distribution, wanted, names_in_sdist(sdist))
    lines += missing(distribution, wanted, names_in_wheel(wheel))
    if lines:
        raise Failed('\n'.join(['sdist or wheel is not complete:', *lines]))
    say(f'{sdist.name}: {len(wanted)} files of git, none missing')
    say(f'{wheel.name}: the whole package {distribution.package}')
    return wheel


def wheelhouse(wheels: list[pathlib.Path]) -> pathlib.Path:
    """The wheels of everything that ours require, kept for the next time."""
    constraints = ROOT / 'constraints.txt'
    parts = [sys.version.encode(), constraints.read_bytes()]
    parts += [required(wheel) for wheel in wheels]
    key = hashlib.sha256(b'\0'.join(parts)).hexdigest()[:16]
    kept = CACHE / f'wheels-{key}'
    if not kept.exists():
        say('collecting the wheels of what nova_rt requires')
        part = empty(CACHE / f'wheels-{key}.part')
        words: list[Word] = [sys.executable, '-m', 'pip', 'wheel']
        words += ['--wheel-dir', part, '--constraint', constraints]
        run([*words, *wheels], LOG)
        # Ours are new each time.
        for wheel in wheels:
            (part / wheel.name).unlink(missing_ok=True)
        part.rename(kept)
    return kept


def use(
    distribution: Distribution, wheel: pathlib.Path, kept: pathlib.Path
) -> None:
    """Install a wheel in an empty environment and start its programs.

    :raises Failed: if it cannot be installed, or a program fails
    """
    venv = empty(WHERE / f'venv-{distribution.name}')
    python = venv / 'bin' / 'python'
    # Not by the environment's own pip: making it takes longer than using it.
    run([sys.executable, '-m', 'venv', '--without-pip', venv], LOG)
    pip: list[Word] = [sys.executable, '-m', 'pip', '--python', python]
    words: list[Word] = ['--no-index', '--find-links', kept, '--no-compile']
    words += ['--constraint', ROOT / 'constraints.txt']
    run([*pip, 'install', *words, wheel], LOG)
    run([*pip, 'check'], LOG)
    waiting = read([python, '-c', _LOAD, distribution.name], WHERE).split()
    without = f', except {", ".join(waiting)}: no libvirt' if waiting else ''
    say(f'{distribution.name}: an empty environment loads it{without}')
    if distribution.package == 'nova_rt':
        _programs(venv, waiting)


def _programs(venv: pathlib.Path, waiting: list[str]) -> None:
    # A machine without any configuration. 1: flavors could not be looked at,
    # for there is no database.
    nowhere = empty(WHERE / 'etc')
    words: list[Word] = ['--config-dir', nowhere, 'upgrade', 'check']
    program = venv / 'bin' / 'nova-rt-status'
    run([program, *words], LOG, WHERE, codes=(0, 1))
    say('nova-rt-status upgrade check: passed')
    for program in sorted((venv / 'bin').glob('nova-rt-*')):
        if program.name not in waiting:
            run([program, '--help'], LOG, WHERE)
    say('its programs tell how they are used')


def command() -> None:
    """Build, compare, install and start.

    :raises Failed: if anything of that does not work
    """
    empty(WHERE)
    LOG.unlink(missing_ok=True)
    source = WHERE / 'source'
    source.mkdir()
    tracked = copy_checkout(source)
    wheels = {
        distribution: build(distribution, source, tracked)
        for distribution in DISTRIBUTIONS
        if (ROOT / distribution.directory / 'pyproject.toml').exists()
    }
    kept = wheelhouse(list(wheels.values()))
    for distribution, wheel in wheels.items():
        use(distribution, wheel, kept)

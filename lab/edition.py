# SPDX-License-Identifier: Apache-2.0
"""Another version of nova_rt beside the one that is installed.

The lab's Python environment is never changed. The other version has an
environment of its own with nothing in it but its wheel; the rest it has from
the lab's. Services run one or the other, as their commands say. ``lab up``
knows nothing of this, and so leads back to the installed version after a test
was killed.
"""

import dataclasses
from importlib import metadata
import io
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile

from lab import accounts, config, namespace, paths, setup_steps
from lab.console import LabError
from lab.service import Service

#: Sources that a wheel is built from, as in tools/bootstrap.sh.
_SOURCES = (
    'nova_rt', 'pyproject.toml', 'setup.cfg', 'requirements.txt', 'README.rst',
    'LICENSE',
)  # fmt: skip
_LOG = 'edition'
_WHEELS = paths.VAR / 'wheels'
_PYTHON = paths.VENV / 'bin' / 'python'
#: Programs of others that load nova_rt.
_HELPER = 'privsep-helper'


@dataclasses.dataclass(frozen=True)
class Edition:
    """A version of nova_rt, and the environment that has it.

    :ivar prefix: of the environment
    """

    prefix: pathlib.Path
    version: str

    def put_in(self, service: Service) -> Service:
        """Return a service of the lab that runs this version."""
        words = tuple(self._word(str(word)) for word in service.command)
        return dataclasses.replace(service, command=words)

    def _word(self, word: str) -> str:
        theirs = f'{paths.VENV}/bin/'
        if not word.startswith(theirs):
            return word
        return str(self.program(word.removeprefix(theirs)))

    def program(self, name: str) -> pathlib.Path:
        """Return a program that runs in this environment."""
        found = self.prefix / 'bin' / name
        if not found.exists():
            # A script of the lab's environment, under this one's Python.
            text = (paths.VENV / 'bin' / name).read_text()
            first, _, rest = text.partition('\n')
            if first != f'#!{paths.VENV}/bin/python':
                raise LabError(f'{name} is no script of {paths.VENV}: {first}')
            found.write_text(f'#!{self.prefix}/bin/python\n{rest}')
            found.chmod(0o755)
        return found

    def permit(self) -> None:
        """Allow user nova to run this version's privileged helper by sudo."""
        self.program(_HELPER)
        text = accounts.sudoers(accounts.RULES.read_text())
        config.put(
            namespace.PRIVATE_FILES['/etc/sudoers'],
            text.replace(f'{paths.VENV}/bin', f'{self.prefix}/bin'),
            0o440,
        )


def installed() -> Edition:
    """Return the version that is installed in the lab's environment."""
    return Edition(paths.VENV, metadata.version('nova_rt'))


def build(version: str, revision: str = '') -> pathlib.Path:
    """Build a wheel.

    :param version: that it says it is of
    :param revision: of git; else the sources of the checkout
    :returns: the wheel
    :raises LabError: if that fails
    """
    source = _WHEELS / 'source'
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    _get_sources(source, revision)
    setup_steps.run(
        _LOG,
        ['env', f'PBR_VERSION={version}', _PYTHON, '-m', 'build', '--wheel',
         '--no-isolation', '--outdir', _WHEELS, source],
    )  # fmt: skip
    shutil.rmtree(source)
    (wheel,) = _WHEELS.glob(f'nova_rt-{version}-*.whl')
    return wheel


def make(wheel: pathlib.Path) -> Edition:
    """Make an environment with a wheel in it.

    :raises LabError: if that fails
    """
    version = wheel.name.split('-')[1]
    prefix = paths.VAR / f'edition-{version}'
    shutil.rmtree(prefix, ignore_errors=True)
    setup_steps.run(_LOG, [_PYTHON, '-m', 'venv', '--without-pip', prefix])
    # Before the lab's packages are seen there: pip must not take leave of the
    # nova_rt among them.
    setup_steps.run(
        _LOG,
        [_PYTHON, '-m', 'pip', '--python', prefix / 'bin' / 'python',
         'install', '--no-deps', '--no-index', '--disable-pip-version-check',
         wheel],
    )  # fmt: skip
    minor = f'python{sys.version_info.major}.{sys.version_info.minor}'
    site = prefix / 'lib' / minor / 'site-packages'
    theirs = sysconfig.get_path('purelib')
    (site / 'lab.pth').write_text(
        f'import site; site.addsitedir({theirs!r})\n'
    )
    return Edition(prefix, version)


def _get_sources(target: pathlib.Path, revision: str) -> None:
    if not revision:
        for name in _SOURCES:
            found = paths.CHECKOUT / name
            if found.is_dir():
                shutil.copytree(
                    found, target / name,
                    ignore=shutil.ignore_patterns('__pycache__'),
                )  # fmt: skip
            else:
                shutil.copy(found, target / name)
        return
    words = ['git', '-c', f'safe.directory={paths.CHECKOUT}', 'archive']
    done = subprocess.run(
        [*words, revision, *_SOURCES],
        cwd=paths.CHECKOUT,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f'git archive {revision}: {done.stderr.decode()}')
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(target, filter='data')

# SPDX-License-Identifier: Apache-2.0
"""Debian packages of Nova, for a release of Debian that has none so new.

The packages of nova_rt depend on Nova as Debian packages it. Where Debian's
own Nova is older, the tests take these stand-ins: Debian's packages of its own
Nova, with their users, units, rules for sudo and maintainer scripts, but with
another version; and one package of Python modules, those of the environment
that ``make venv`` made, which provides everything that they replace.

They are for tests alone.
"""

from collections.abc import Iterable
import functools
import hashlib
from importlib import metadata
import pathlib
import re
import shutil
import stat
import sys

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.console import LabError, say
from tools.gate.places import CACHE, ROOT
from tools.install.commands import empty, run

#: Requirements that the modules must meet: those of nova_rt, of its packages,
#: of the client and of Tempest.
REQUIREMENTS = ('requirements.txt', 'doc/requirements.txt')
ALSO = ('pbr', 'python-openstackclient', 'setuptools', 'tempest')
#: libvirt's module is Debian's: it belongs to Debian's libvirt.
NOT_OURS = frozenset({'libvirt-python'})
#: Debian's epochs of what debian/control names with one.
EPOCHS = {
    'nova': '2', 'numpy': '1', 'oslo-config': '1', 'tempest': '1', 'webob': '1'
}  # fmt: skip
#: Debian's packages of Nova, and what they still depend on here. A test needs
#: no disk images and no networks.
NOVA = {
    'nova-common': 'adduser, dbconfig-common, debconf, lsb-base,'
    ' python3-nova (= {version}), sqlite3, sudo',
    'nova-compute': 'nova-common (= {version}), nova-compute-lxc',
    'nova-compute-lxc': 'libvirt-daemon-system, nova-common, python3-libvirt',
    'nova-scheduler': 'nova-common (= {version})',
}
# What Debian names after its module.
_DEBIAN = {'pyyaml': 'yaml'}
_CONTROL = """\
Package: python3-nova
Version: {version}
Architecture: all
Maintainer: nova_rt contributors <nova-rt@packages.debian.org>
Section: python
Priority: optional
Depends: python3 (>= {python}), python3 (<< {next})
Provides: {provides}
Conflicts: {others}
Replaces: {others}
Description: Nova and what it requires, for tests of nova_rt
 These modules are copies of a Python environment.
"""
_SCRIPT = """\
#!/usr/bin/python3
import sys
from {module} import {name}
sys.exit({call}())
"""


def debian_name(name: str) -> str:
    """Return Debian's name of the package of a Python distribution."""
    words = re.sub('[-_]+', '-', name.lower()).removeprefix('python-')
    return f'python3-{_DEBIAN.get(words, words)}'


def closure(wanted: Iterable[str]) -> list[metadata.Distribution]:
    """The distributions of the environment that these need, and themselves.

    :raises LabError: if one is not there
    """
    found: dict[str, metadata.Distribution] = {}
    # An extra may be asked for after its distribution was found without.
    done: set[tuple[str, str]] = set()
    names = [(canonicalize_name(name), '') for name in wanted]
    while names:
        name, extra = names.pop()
        if (name, extra) in done or name in NOT_OURS:
            continue
        done.add((name, extra))
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise LabError(
                f'{name} is not in the environment; run tools/bootstrap.sh'
            ) from None
        for text in found[name].requires or ():
            one = Requirement(text)
            if not one.marker or one.marker.evaluate({'extra': extra}):
                key = canonicalize_name(one.name)
                names += [(key, more) for more in ('', *one.extras)]
    return [found[name] for name in sorted(found)]


def _wanted() -> list[str]:
    lines = [
        line.partition('#')[0].strip()
        for file in REQUIREMENTS
        for line in (ROOT / file).read_text().splitlines()
    ]
    return [*ALSO, *(Requirement(line).name for line in lines if line)]


def _copy(distribution: metadata.Distribution, target: pathlib.Path) -> None:
    """Copy the modules of a distribution, as they lie in the environment."""
    for file in distribution.files or ():
        # Programs and manual pages are outside.
        if '..' in file.parts or '__pycache__' in file.parts:
            continue
        source = pathlib.Path(str(distribution.locate_file(file)))
        if source.is_file():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target / file)


def _programs(
    distribution: metadata.Distribution, target: pathlib.Path
) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for point in distribution.entry_points.select(group='console_scripts'):
        file = target / point.name
        name = point.attr.partition('.')[0]
        file.write_text(
            _SCRIPT.format(module=point.module, name=name, call=point.attr)
        )
        file.chmod(0o755)


def _provided(distribution: metadata.Distribution) -> list[str]:
    name = canonicalize_name(distribution.name)
    version = distribution.version
    if name in EPOCHS:
        version = f'{EPOCHS[name]}:{version}'
    names = [debian_name(distribution.name)]
    if name == 'alembic':
        names.append(name)
    if name == 'setuptools':
        names.append('python3-pkg-resources')
    return [f'{name} (= {version})' for name in names]


def _build_modules(target: pathlib.Path, version: str) -> None:
    tree = empty(target / 'python3-nova')
    provides = []
    for distribution in closure(_wanted()):
        name = canonicalize_name(distribution.name)
        _copy(distribution, tree / 'usr/lib/python3/dist-packages')
        if name != 'nova':
            provides += _provided(distribution)
            _programs(distribution, tree / 'usr/bin')
    # Nova's own programs are in Debian's packages; this one is not, there.
    (tree / 'DEBIAN').mkdir()
    minor = sys.version_info.minor
    others = ', '.join(one.partition(' ')[0] for one in provides)
    (tree / 'DEBIAN' / 'control').write_text(
        _CONTROL.format(
            version=version,
            python=f'3.{minor}',
            next=f'3.{minor + 1}',
            provides=', '.join(provides),
            others=others,
        )
    )


def control_of(text: str, fields: dict[str, str]) -> str:
    """Set fields of a control file; Pre-Depends and others stay."""
    for name, value in fields.items():
        text, count = re.subn(
            f'^{name}: .*$', f'{name}: {value}', text, flags=re.M
        )
        assert count == 1, name
    return text


def _build_nova(target: pathlib.Path, version: str, log: pathlib.Path) -> None:
    downloaded = empty(target / 'debian')
    run(['apt-get', 'download', *NOVA], log, downloaded)
    for name, depends in NOVA.items():
        (file,) = downloaded.glob(f'{name}_*.deb')
        run(['dpkg-deb', '--raw-extract', file, target / name], log)
        control = target / name / 'DEBIAN' / 'control'
        depends = depends.format(version=version)
        control.write_text(
            control_of(
                control.read_text(), {'Version': version, 'Depends': depends}
            )
        )
    shutil.rmtree(downloaded)


@functools.cache
def nova_version() -> str:
    """The version of all stand-ins, that of the environment's Nova."""
    return f'2:{metadata.version("nova")}-0~standin'


def packages(log: pathlib.Path) -> pathlib.Path:
    """Build the stand-ins, once for a state of the environment.

    :returns: the directory of the packages
    """
    parts = [pathlib.Path(__file__).read_bytes()]
    parts += [(ROOT / name).read_bytes() for name in REQUIREMENTS]
    parts.append((ROOT / 'constraints.txt').read_bytes())
    key = hashlib.sha256(b'\0'.join(parts)).hexdigest()[:16]
    kept = CACHE / f'standins-{key}'
    if kept.exists():
        return kept
    say('building packages of Nova, for Debian has none so new')
    part = empty(CACHE / f'standins-{key}.part')
    trees = empty(CACHE / f'standins-{key}.trees')
    _build_modules(trees, nova_version())
    _build_nova(trees, nova_version(), log)
    for tree in sorted(trees.iterdir()):
        for directory in tree.rglob('*'):
            if directory.is_dir():
                directory.chmod(stat.S_IMODE(directory.stat().st_mode) | 0o755)
        words = ['dpkg-deb', '--root-owner-group', '-Zgzip', '-z1', '--build']
        run([*words, tree, part], log)
    shutil.rmtree(trees)
    part.rename(kept)
    return kept

# SPDX-License-Identifier: Apache-2.0
"""tools/install: what it compares, and what debian/ says, without root."""

import io
import os
import pathlib
import re
import shutil
import tarfile
import tempfile
import tomllib
import unittest
from unittest import mock
import zipfile

from packaging.requirements import Requirement

from lab import paths
from tools.install import commands, packages, standins, trees, wheel

DEBIAN = paths.CHECKOUT / 'debian'
NOVA_RT = wheel.DISTRIBUTIONS[0]


def paragraphs():
    """The paragraphs of debian/control: fields by name."""
    text = (DEBIAN / 'control').read_text()
    text = ''.join(
        line for line in text.splitlines(True) if not line.startswith('#')
    )
    found = []
    for part in text.strip().split('\n\n'):
        fields = re.findall(r'^(\S+?):((?:.*\n?)(?: .*\n?)*)', part, re.M)
        found.append({name: value.strip() for name, value in fields})
    return found


def relations(text):
    """Names of packages with their bounds, without epochs."""
    found = {}
    for one in text.split(','):
        match = re.match(
            r'(\S+)(?: \(([<>=]+) (?:\d+:)?(\S+)\))?', one.strip()
        )
        if match:
            found.setdefault(match[1], set()).add((match[2], match[3]))
    return found


class WheelTest(unittest.TestCase):
    """Comparing what was built with git."""

    def test_what_is_missing_is_named(self):
        lines = wheel.differences(
            NOVA_RT, {'a.py', 'etc/x', '.gitignore'}, {'a.py', 'PKG-INFO'}
        )
        self.assertEqual(['nova_rt: the sdist lacks etc/x'], lines)

    def test_what_is_too_much_is_named(self):
        found = {'a.py', 'core', 'nova_rt.egg-info/PKG-INFO', 'AUTHORS'}
        self.assertEqual(
            ['nova_rt: the sdist has core, which is not in git'],
            wheel.differences(NOVA_RT, {'a.py'}, found),
        )

    def test_wheel_has_the_package_and_nothing_else(self):
        wanted = {'nova_rt/a.py', 'nova_rt/b.ini', 'lab/c.py'}
        found = {'nova_rt/a.py', 'nova_rt-1.dist-info/METADATA', 'lab/c.py'}
        self.assertEqual(
            [
                'nova_rt: the wheel lacks nova_rt/b.ini',
                'nova_rt: the wheel has lab/c.py',
            ],
            wheel.missing(NOVA_RT, wanted, found),
        )

    def test_files_of_a_distribution_in_a_directory(self):
        inner = wheel.Distribution('plug-in', 'plugin', 'p')
        self.assertEqual(
            {'p/a.py'}, inner.files(['nova_rt/a.py', 'plugin/p/a.py'])
        )

    def test_names_in_archives(self):
        top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        with tarfile.open(top / 'a.tar.gz', 'w:gz') as archive:
            member = tarfile.TarInfo('a-1/b/c.py')
            archive.addfile(member, io.BytesIO())
        with zipfile.ZipFile(top / 'a.whl', 'w') as archive:
            archive.writestr('b/', '')
            archive.writestr('b/c.py', '')
            archive.writestr(
                'a-1.dist-info/METADATA', 'Name: a\nRequires-Dist: x>1\n'
            )
        self.assertEqual({'b/c.py'}, wheel.names_in_sdist(top / 'a.tar.gz'))
        self.assertIn('b/c.py', wheel.names_in_wheel(top / 'a.whl'))
        self.assertNotIn('b/', wheel.names_in_wheel(top / 'a.whl'))
        self.assertEqual(b'Requires-Dist: x>1', wheel.required(top / 'a.whl'))


class TreesTest(unittest.TestCase):
    """Archives of trees that nobody uses any more do not pile up."""

    def test_prune(self):
        top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        names = [f'tree-build-{number:016x}.tar' for number in range(4)]
        others = [
            f'tree-build-more-{0:016x}.tar',
            f'tree-install-{0:016x}.tar',
            f'tree-build-{0:016x}.part',
        ]
        for time_s, name in enumerate([*names, *others]):
            (top / name).touch()
            os.utime(top / name, (time_s, time_s))
        # Used again.
        os.utime(top / names[1], (9, 9))
        with mock.patch.object(trees, 'CACHE', top):
            trees.prune('build')
        self.assertEqual(
            {names[1], names[3], *others},
            {file.name for file in top.iterdir()},
        )


class ControlTest(unittest.TestCase):
    """debian/ says what pyproject.toml and requirements.txt say."""

    def setUp(self):
        self.source, *binaries = paragraphs()
        self.binaries = {one['Package']: one for one in binaries}
        self.project = tomllib.loads(
            (paths.CHECKOUT / 'pyproject.toml').read_text()
        )

    def _requirements(self):
        for line in (
            (paths.CHECKOUT / 'requirements.txt').read_text().splitlines()
        ):
            text = line.partition('#')[0].strip()
            if text:
                yield Requirement(text)

    def test_requirements_are_dependencies(self):
        found = relations(self.binaries['python3-nova-rt']['Depends'])
        built = relations(self.source['Build-Depends-Indep'])
        for one in self._requirements():
            # Nova's release is filled in by debian/rules.
            if one.name == 'nova':
                self.assertIn('python3-nova', found)
                continue
            name = standins.debian_name(one.name)
            name = {'python3-alembic': 'alembic'}.get(name, name)
            with self.subTest(name):
                wanted = {
                    ('<<' if part.operator == '<' else '>=', part.version)
                    for part in one.specifier
                }
                self.assertEqual(wanted, found[name])
                self.assertIn(name, built)

    def test_plug_in(self):
        plugin = tomllib.loads(
            (paths.CHECKOUT / 'tempest_plugin/pyproject.toml').read_text()
        )
        name = 'python3-nova-rt-tempest-plugin'
        found = relations(self.binaries[name]['Depends'])
        for text in plugin['project']['dependencies']:
            one = Requirement(text)
            (part,) = one.specifier
            self.assertEqual(
                {('>=', part.version)}, found[standins.debian_name(one.name)]
            )

    def test_release_of_nova(self):
        (nova,) = (one for one in self._requirements() if one.name == 'nova')
        bounds = {part.operator: part.version for part in nova.specifier}
        rules = (DEBIAN / 'rules').read_text()
        release = bounds['>='].partition('.')[0]
        self.assertIn(f'-Vnova:Release=$(EPOCH):{release}~', rules)
        self.assertIn(f'-Vnova:Next=$(EPOCH):{bounds["<"]}~', rules)

    def test_build_system(self):
        found = relations(self.source['Build-Depends'])
        for text in self.project['build-system']['requires']:
            one = Requirement(text)
            (part,) = one.specifier
            self.assertEqual(
                {('>=', part.version)}, found[f'python3-{one.name}']
            )

    def test_every_program_is_in_one_package(self):
        lines = [
            line
            for file in DEBIAN.glob('*.install')
            for line in file.read_text().split()
        ]
        for name in self.project['project']['scripts']:
            with self.subTest(name):
                self.assertEqual(1, lines.count(f'usr/bin/{name}'))

    def test_every_program_has_its_manual_page(self):
        pages = {
            pathlib.Path(line).stem
            for file in DEBIAN.glob('*.manpages')
            for line in file.read_text().split()
        }
        self.assertEqual(set(self.project['project']['scripts']), pages)

    def test_every_file_for_operators_is_installed(self):
        text = (DEBIAN / 'rules').read_text() + ''.join(
            file.read_text() for file in DEBIAN.glob('*.install')
        )
        etc = paths.CHECKOUT / 'etc' / 'nova_rt'
        for file in sorted(etc.rglob('*')):
            name = str(file.relative_to(paths.CHECKOUT))
            # Two for tox, and the tests of the alerts.
            if file.is_dir() or '-generator' in name or '/tests/' in name:
                continue
            with self.subTest(name):
                self.assertTrue(
                    any(
                        part in text
                        for part in (name, str(pathlib.Path(name).parent))
                    )
                )


class StandinsTest(unittest.TestCase):
    """Packages for a Debian without Nova's release."""

    def test_names(self):
        for name, debian in {
            'PyMySQL': 'python3-pymysql',
            'PyYAML': 'python3-yaml',
            'oslo.config': 'python3-oslo.config',
            'prometheus_client': 'python3-prometheus-client',
            'python-dateutil': 'python3-dateutil',
            'SQLAlchemy': 'python3-sqlalchemy',
        }.items():
            self.assertEqual(debian, standins.debian_name(name))

    def test_closure(self):
        names = {one.name.lower() for one in standins.closure(['cliff'])}
        self.assertLessEqual({'cliff', 'stevedore'}, names)
        self.assertNotIn('nova', names)

    def test_extras(self):
        # Nova asks for oslo.service[threading].
        names = {one.name.lower() for one in standins.closure(['nova'])}
        self.assertIn('cotyledon', names)

    def test_what_is_not_there(self):
        with self.assertRaisesRegex(commands.Failed, 'no-such-thing'):
            standins.closure(['no-such-thing'])

    def test_fields_of_a_control_file(self):
        text = 'Package: x\nVersion: 1\nDepends: a,b\nDescription: y\n z\n'
        self.assertEqual(
            'Package: x\nVersion: 2\nDepends: c\nDescription: y\n z\n',
            standins.control_of(text, {'Version': '2', 'Depends': 'c'}),
        )


class FilesTest(unittest.TestCase):
    """Comparing the files of a machine."""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        for name in ('etc/a', 'etc/b', 'var/lib/dpkg/status', 'usr/c'):
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (self.top / name).write_text('x')

    def test_all_kinds_of_change(self):
        before = packages.files(self.top)
        (self.top / 'etc/a').unlink()
        (self.top / 'etc/b').write_text('y')
        (self.top / 'usr/c').chmod(0o600)
        (self.top / 'usr/d').symlink_to('c')
        (self.top / 'opt').mkdir()
        (self.top / 'var/lib/dpkg/status').write_text('y')
        self.assertEqual(
            [
                'gone: /etc/a',
                'changed: /etc/b',
                'left behind: /opt',
                'changed: /usr/c',
                'left behind: /usr/d',
            ],
            packages.changes(before, packages.files(self.top)),
        )

    def test_byte_code(self):
        before = packages.files(self.top)
        for name in ('six', 'nova_rt'):
            where = self.top / 'usr/lib/python3/dist-packages' / name
            (where / '__pycache__').mkdir(parents=True)
        lines = packages.changes(before, packages.files(self.top))
        self.assertIn(
            'left behind: /usr/lib/python3/dist-packages/nova_rt/__pycache__',
            lines,
        )
        self.assertNotIn('six/__pycache__', ' '.join(lines))

    def test_versions(self):
        version, upstream = packages.upstream_version()
        self.assertTrue(version.startswith(f'{upstream}-'))
        self.assertRegex(upstream, r'^\d+\.\d+\.\d+$')

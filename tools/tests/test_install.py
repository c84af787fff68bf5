# SPDX-License-Identifier: Apache-2.0
"""debian/ agrees with pyproject.toml; no root is needed."""

import pathlib
import re
import tomllib
import unittest

from packaging.requirements import Requirement

from lab import paths
from tools.install import standins

DEBIAN = paths.CHECKOUT / 'debian'


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


class ControlTest(unittest.TestCase):
    """debian/ agrees with pyproject.toml and requirements.txt."""

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

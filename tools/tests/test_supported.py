# SPDX-License-Identifier: Apache-2.0
"""The table of supported versions, compared with the things themselves."""

import re
import subprocess
import tomllib
import unittest

from nova_rt.cmd import nova_compat
from tools.gate.places import ROOT

PAGE = ROOT / 'doc' / 'source' / 'install' / 'supported.rst'


def read():
    """Part -> (checked, tried)."""
    rows = PAGE.read_text().split('\n   * - ')[2:]
    cells = [
        [' '.join(cell.split()) for cell in row.split('\n     -')]
        for row in rows
    ]
    return {part: (checked, tried) for part, checked, tried, _ in cells}


def installed(package):
    """The version of a package of Debian, without epoch and revision."""
    shown = subprocess.run(
        ['dpkg-query', '--show', '--showformat=${Version}', package],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return re.split('[-+~]', shown.rpartition(':')[2])[0]


class SupportedTest(unittest.TestCase):
    def setUp(self):
        self.rows = read()

    def test_nova(self):
        checked, tried = self.rows['Nova']
        releases = [
            text.removeprefix('release ')
            for text in nova_compat.TRIED.values()
            if text.startswith('release ')
        ]
        self.assertEqual(', '.join(releases), checked)
        self.assertEqual(
            len(set(nova_compat.TRIED.values())) - len(releases),
            {'': 0, 'one': 1}[tried.split(' ')[0]],
        )

    def test_python(self):
        text = (ROOT / 'pyproject.toml').read_text()
        project = tomllib.loads(text)['project']
        prefix = 'Programming Language :: Python :: 3.'
        named = [
            line.removeprefix(prefix)
            for line in project['classifiers']
            if line.startswith(prefix)
        ]
        found = ', '.join(self.rows['Python'])
        self.assertEqual(', '.join(f'3.{each}' for each in named), found)
        self.assertEqual('>=3.11', project['requires-python'])

    def test_packages(self):
        """Of the machine that runs the checks."""
        for part, package in (
            ('libvirt', 'libvirt-daemon'), ('systemd', 'systemd'),
            ('RabbitMQ', 'rabbitmq-server'),
            ('Database of nova-rt-conductor', 'mariadb-server'),
        ):  # fmt: skip
            with self.subTest(part):
                words = self.rows[part][0].replace(',', '').split()
                version = installed(package)
                self.assertTrue(
                    any(
                        f'{version}.'.startswith(f'{word}.') for word in words
                    ),
                    f'{version} is checked, and not {words}',
                )

    def test_kernels(self):
        bases = {
            re.split('-', path.name)[1]
            for path in (ROOT / 'kernel' / 'base').iterdir()
        }
        named = ', '.join(filter(None, self.rows['Kernel, ``v2-rt-max-cpu``']))
        self.assertLessEqual(set(named.split(', ')), bases)

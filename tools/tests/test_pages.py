# SPDX-License-Identifier: Apache-2.0
"""The commands and options that pages name exist."""

import pathlib
import re
import tomllib
import unittest

from keystoneauth1 import loading
import nova.conf

import nova_rt.conf
import nova_rt.privsep
from nova_rt_tempest_plugin import config as tempest_config

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(
    {
        *ROOT.glob('*.rst'),
        *ROOT.glob('doc/source/**/*.rst'),
        *ROOT.glob('lab/**/*.rst'),
        *ROOT.glob('kernel/**/*.rst'),
        *ROOT.glob('deploy/**/*.md'),
    }
)

#: Groups of which Nova registers only a part, or that services share.
_OF_LIBRARIES = {'oslo_policy', 'oslo_messaging_notifications', 'placement'}
_LITERAL = re.compile(r'``(.+?)``', re.DOTALL)
_OPTION = re.compile(r'\[([a-z_]+|DEFAULT)\] ([a-z][a-z_]+)')
_COMMAND = re.compile(r'(?:^|/)nova-rt-(manage|model|status) ([a-z][a-z -]*)')
_MAKE = re.compile(r'make (?:-C (\S+) )?([a-z][a-z0-9-]*)')


def find_literals(page):
    """Yield the machine text that a page shows: literals, lines of blocks."""
    text = page.read_text()
    for literal in _LITERAL.findall(text):
        yield ' '.join(literal.split())
    for line in text.splitlines():
        prompt = re.match(r'\s+[#$] (?:sudo )?(.*)', line)
        if prompt:
            yield prompt[1]
        elif page.suffix == '.md':
            yield from re.findall(r'`([^`]+)`', line)


def find_settings(page):
    """The settings of ours in blocks of ini, as pages name options."""
    group = None
    for line in page.read_text().splitlines():
        if line.startswith('.. '):
            group = None if not line.endswith(':: ini') else ''
        section = re.fullmatch(r'\s+\[(\w+)\]', line)
        setting = re.match(r'\s+([a-z_]+) = ', line)
        if group is not None and section:
            group = section[1]
        elif group and group.startswith('nova_rt') and setting:
            yield f'[{group}] {setting[1]}'


class PagesTest(unittest.TestCase):
    def assert_all(self, pattern, is_right, least):
        """Compare the matches of a pattern with the existing names.

        :param least: how many the pages have, at least
        """
        found = 0
        wrong = []
        for page in PAGES:
            for literal in (*find_literals(page), *find_settings(page)):
                for match in pattern.finditer(literal):
                    found += 1
                    if not is_right(*match.groups()):
                        wrong.append(f'{page.relative_to(ROOT)}: {literal}')
        self.assertEqual([], wrong, '\n'.join(wrong))
        self.assertGreaterEqual(found, least)

    def test_options(self):
        ours = {
            group.name: {opt.dest for opt in opts}
            for group, opts in nova_rt.conf.list_opts()
        }
        ours['nova_rt_privileged'] = set(nova_rt.privsep.rt_pctxt.conf)
        # tempest.conf has a group of the same name.
        ours['nova_rt'] |= {opt.dest for opt in tempest_config.OPTIONS}
        ours['nova_rt_nova'] |= {
            opt.dest
            for opt in loading.get_auth_plugin_conf_options('password')
        }

        def is_right(group, option):
            if group in ours:
                return option in ours[group]
            conf = nova.conf.CONF
            if group == 'DEFAULT':
                return option in conf
            if group in conf and group not in _OF_LIBRARIES:
                return option in conf[group]
            return 'nova' not in group

        self.assert_all(_OPTION, is_right, 40)

    def test_commands(self):
        project = tomllib.loads((ROOT / 'pyproject.toml').read_text())
        points = project['project']['entry-points']
        commands = {
            program: {
                name.replace('_', ' ') for name in points[f'nova_rt.{program}']
            }
            for program in ('manage', 'model')
        }
        commands['status'] = {'upgrade check', 'host check', 'host usage'}

        def is_right(program, words):
            return any(
                f'{words} '.startswith(f'{command} ')
                for command in commands[program]
            )

        self.assert_all(_COMMAND, is_right, 20)

    def test_make_targets(self):
        def is_right(directory, target):
            makefile = ROOT / (directory or '') / 'Makefile'
            lines = re.findall(
                r'^([a-z][a-z0-9 -]*):', makefile.read_text(), re.MULTILINE
            )
            return target in ' '.join(lines).split()

        self.assert_all(_MAKE, is_right, 40)


if __name__ == '__main__':
    unittest.main()

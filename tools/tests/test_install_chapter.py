# SPDX-License-Identifier: Apache-2.0
"""The installation chapter can be followed, and its faults are seen."""

import functools
import importlib.metadata
import re
import shlex
import tomllib
import unittest

import jinja2
import yaml

from lab import config, paths
from tools.install import blocks, chapter, chapter_cloud, ini, node, role

ETC = paths.CHECKOUT / 'etc' / 'nova_rt'
ROLE = role.ANSIBLE / 'roles' / 'nova_rt'
# What a Debian node has, beside what nova_rt and Nova bring.
DEBIAN = set(
    'awk cat cd chmod chown curl echo grep head install mv mysql rm sed'
    ' systemctl systemd-analyze tar test umask virsh visudo'
    ' /usr/lib/systemd/systemd-sysctl'.split()
)
UNITS = {
    file.stem
    for directory in (node.FILES, ETC / 'systemd')
    for file in directory.glob('*.service')
}


class TheChapterTest(unittest.TestCase):
    """The chapter itself."""

    def setUp(self):
        self.blocks = blocks.read(chapter.CHAPTER)
        self.console = [
            (block, command)
            for block in self.blocks
            if block.language == 'console'
            for command in block.commands()
        ]

    def test_lines_to_adapt_are_there(self):
        lines = {
            line
            for block in self.blocks
            for text in (
                [command.text for command in block.commands()]
                if block.language == 'console'
                else block.text.splitlines()
            )
            for line in text.splitlines()
        }
        for changes in (chapter.adapted('1'), chapter_cloud.ADAPTED):
            self.assertEqual(set(), set(changes) - lines)

    def test_commands_of_a_cloud_are_the_administrators(self):
        for block, command in self.console:
            if not command.root:
                self.assertFalse(block.places - {'cloud'}, command.text)

    def test_programs_exist(self):
        brought = {
            file.name
            for file in (paths.VENV / 'bin').iterdir()
            if file.is_file()
        }
        for _, command in self.console:
            for words in _pipeline(command.text):
                with self.subTest(command.text):
                    program = words[0]
                    if program.startswith('$nova/bin/'):
                        name = program.removeprefix('$nova/bin/')
                        self.assertIn(name, brought)
                    elif program == 'openstack':
                        self._assert_openstack(words[1:])
                    else:
                        self.assertIn(program, DEBIAN)

    def _assert_openstack(self, words):
        known = _openstack_commands()
        names = [
            '_'.join(words[:count]).replace('-', '_')
            for count in range(1, len(words) + 1)
        ]
        self.assertTrue(known.intersection(names), words)

    def test_programs_of_nova_rt_know_their_commands(self):
        with (paths.CHECKOUT / 'pyproject.toml').open('rb') as file:
            points = tomllib.load(file)['project']['entry-points']
        for _, command in self.console:
            for words in _pipeline(command.text):
                if words[0].endswith('/nova-rt-manage'):
                    name = '_'.join(words[-2:])
                    self.assertIn(name, points['nova_rt.manage'])

    def test_files_of_the_archive_exist(self):
        found = [
            word
            for _, command in self.console
            for word in re.findall(r'(?<!/)etc/nova_rt/\S+', command.text)
        ]
        self.assertTrue(found)
        for name in found:
            self.assertTrue((paths.CHECKOUT / name).is_file(), name)

    def test_units_exist(self):
        options = ('is-active', 'restart', 'enable', 'disable')
        for _, command in self.console:
            words = command.text.split()
            if words[0] == 'systemctl' and words[1] in options:
                units = [word for word in words[2:] if word[0] != '-']
                self.assertLessEqual(set(units), UNITS, command.text)

    def test_pipelines_are_novas(self):
        paste = (paths.VENV / 'etc/nova/api-paste.ini').read_text()
        (block,) = (
            block
            for block in self.blocks
            if block.file == '/etc/nova/api-paste.ini'
        )
        self.assertEqual(
            ini.parse(config.with_hint_filter(paste)),
            ini.parse(ini.edit(paste, block.text)),
        )

    def test_conductor_answers_prometheus(self):
        """At the port in the example of prometheus.yml, or an alert fires."""
        example = yaml.safe_load(
            (ETC / 'prometheus' / 'prometheus.yml').read_text()
        )
        (targets,) = [
            config['static_configs'][0]['targets']
            for config in example['scrape_configs']
            if config['job_name'] == 'nova_rt_conductor'
        ]
        (block,) = [
            block
            for block in self.blocks
            if block.file == '/etc/nova/nova-rt-conductor.conf'
        ]
        for text in (
            block.text,
            (paths.CHECKOUT / 'debian/nova-rt-conductor.conf').read_text(),
            (ROLE / 'templates/nova-rt-conductor.conf.j2').read_text(),
        ):
            (port,) = re.findall(
                r'(?m)^\[nova_rt_conductor\]\nmetrics_port = (\d+)$', text
            )
            self.assertEqual([f'localhost:{port}'], targets)


@functools.cache
def _openstack_commands():
    points = importlib.metadata.entry_points()
    return {
        point.name
        for group in points.groups
        if group.startswith('openstack.')
        for point in points.select(group=group)
    }


def _pipeline(text):
    # The words of each simple command in a line; assignments are left out.
    text = text.replace('\\\n', ' ')
    inner = re.findall(r'\$\(([^()]*)\)', text)
    text = re.sub(r'\$\([^()]*\)', 'value', text)
    for part in (text, *inner):
        lexer = shlex.shlex(part, posix=True, punctuation_chars='|&;<>')
        lexer.whitespace_split = True
        words = []
        for word in [*lexer, '|']:
            if word in ('|', '||', '&&', ';'):
                if words and not re.fullmatch(r'[a-z_]+=.*', words[0]):
                    yield words
                words = []
            else:
                words.append(word)


class RoleTest(unittest.TestCase):
    """The Ansible role, without Ansible."""

    def setUp(self):
        (specs,) = yaml.safe_load(
            (ROLE / 'meta/argument_specs.yml').read_text()
        )['argument_specs'].values()
        self.options = specs['options']

    def test_every_variable_is_described(self):
        used = set()
        for file in ROLE.rglob('*'):
            if file.suffix in ('.yml', '.j2'):
                used |= set(
                    re.findall(r'(?<![\w/])nova_rt_\w+', file.read_text())
                )
        # Sections of nova-rt-conductor, and a filter of Ansible.
        others = {'nova_rt_database', 'nova_rt_nova', 'nova_rt_cpus'}
        self.assertEqual(set(self.options), used - others)

    def test_text_is_no_boolean(self):
        """-e and INI inventories give text, and "false" is true."""
        booleans = [
            name
            for name, option in self.options.items()
            if option['type'] == 'bool'
        ]
        self.assertIn('nova_rt_restart_compute', booleans)
        names = '|'.join(booleans)
        bare = re.compile(
            rf'(when:|-|if|not|and|or|\{{\{{) ({names})(?! \| bool|:|\w)'
        )
        for place in ('tasks', 'handlers', 'templates', 'vars'):
            for file in (ROLE / place).iterdir():
                for line in file.read_text().splitlines():
                    self.assertIsNone(bare.search(line), f'{file}: {line}')

    def test_readme_has_every_variable(self):
        readme = (ROLE / 'README.md').read_text()
        for name in self.options:
            self.assertIn(f'`{name}`', readme)

    def test_every_file_is_there(self):
        for file in (ROLE / 'tasks').iterdir():
            for name in re.findall(
                r"nova_rt_files ~ '/([^']+)'", file.read_text()
            ):
                self.assertTrue((ETC / name).is_file(), name)

    def holds(self, file, name, key, **variables):
        """Say whether the conditions of a task hold, as Ansible would."""
        (task,) = [
            task
            for task in yaml.safe_load((ROLE / 'tasks' / file).read_text())
            if task['name'] == name
        ]
        found = task.get('ansible.builtin.assert', task)[key]
        environment = jinja2.Environment()
        environment.filters['bool'] = lambda value: value in (True, 'yes')
        return all(
            environment.compile_expression(each)(**variables)
            for each in (found if isinstance(found, list) else [found])
        )

    def test_kernel_is_asked_once_it_can_answer(self):
        """In check mode nova-rt-sched does not run yet."""
        for check, sched, socket, asks in (
            (False, True, False, True),
            (True, False, False, True),
            (True, True, True, True),
            (True, True, False, False),
        ):
            found = self.holds(
                'compute.yml',
                'Check that the kernel of this host offers bandwidth',
                'when',
                ansible_check_mode=check,
                nova_rt_restart_compute=True,
                nova_rt_sched=sched,
                _nova_rt_installed={'rc': 0},
                _nova_rt_sched_socket=(
                    {'stat': {'exists': socket}} if sched else {}
                ),
            )
            self.assertEqual(asks, found)

    def test_one_of_the_rules_is_needed(self):
        """Without both, nova-compute starts none of its helpers."""
        for ours, stock, passes in (
            (False, False, True),  # In a file of another name.
            (False, True, True),
            (True, True, True),
            (True, False, False),
        ):
            rules = [{'stat': {'exists': each}} for each in (ours, stock)]
            found = self.holds(
                'validate.yml',
                'Check that nova-compute can start its helpers without exact '
                'rules',
                'that',
                _nova_rt_rules={'results': rules},
            )
            self.assertEqual(passes, found)

    def test_both_files_of_nova_compute_are_needed(self):
        """Before anything is changed."""
        text = (ROLE / 'tasks/validate.yml').read_text()
        self.assertIn('loop: [nova.conf, nova-compute.conf]', text)
        for exists in (True, False):
            found = self.holds(
                'validate.yml',
                'Check that both files of nova-compute are there',
                'that',
                item={'stat': {'exists': exists}},
            )
            self.assertEqual(exists, found)

    def test_what_is_notified_is_handled(self):
        handlers = {
            handler['name']
            for handler in yaml.safe_load(
                (ROLE / 'handlers/main.yml').read_text()
            )
        }
        notified = set()
        for file in (ROLE / 'tasks').iterdir():
            notified |= set(
                re.findall(r'Restart nova[\w-]+', file.read_text())
            )
        self.assertEqual(handlers, notified)

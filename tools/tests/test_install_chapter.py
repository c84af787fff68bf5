# SPDX-License-Identifier: Apache-2.0
"""The installation chapter can be followed, and its faults are seen."""

import functools
import importlib.metadata
import re
import shlex
import tomllib
import unittest

import docutils.core
import docutils.nodes
from docutils.parsers.rst import Directive, directives, roles
import jinja2
import yaml

from lab import config, paths
from nova_rt import conf
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


class _Seen(Directive):
    """A directive of Sphinx, for docutils alone."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = dict.fromkeys(
        ('class', 'caption', 'language', 'glob', 'maxdepth'),
        directives.unchanged,
    )

    def run(self):
        found = docutils.nodes.literal_block('\n'.join(self.content), '')
        found['options'] = self.options
        found['kind'] = self.name
        return [found]


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

    def test_docutils_sees_the_same_blocks(self):
        for name in ('code-block', 'literalinclude', 'toctree'):
            directives.register_directive(name, _Seen)
        for name in ('doc', 'ref'):
            roles.register_local_role(
                name, lambda *args, **more: ([docutils.nodes.inline()], [])
            )
        document = docutils.core.publish_doctree(
            chapter.CHAPTER.read_text(),
            settings_overrides={'report_level': 5, '_disable_config': True},
        )
        seen = [
            (found['options'].get('class', ''), found.rawsource)
            for found in document.findall(docutils.nodes.literal_block)
            if found.get('kind') in ('code-block', 'literalinclude')
        ]
        self.assertEqual(len(self.blocks), len(seen))
        for block, (words, text) in zip(self.blocks, seen, strict=True):
            self.assertEqual(block.words, frozenset(words.split()))
            if text:
                self.assertEqual(block.text, text + '\n')

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

    def test_places(self):
        for place in ('controller', 'compute', 'cloud'):
            with self.subTest(place):
                self.assertTrue(chapter.select(self.blocks, place))

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

    def test_options_of_nova_rt_exist(self):
        known = {
            (group.name, option.dest)
            for group, options in conf.list_opts()
            for option in options
        }
        for block in self.blocks:
            if block.file.endswith('.conf') and block.language == 'ini':
                for section, name in ini.parse(block.text):
                    if section.startswith('nova_rt'):
                        self.assertIn((section, name), known)


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
        self.defaults = yaml.safe_load(
            (ROLE / 'defaults/main.yml').read_text()
        )

    def test_every_default_is_described(self):
        self.assertEqual(set(), set(self.defaults) - set(self.options))

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

    def task(self, file, name):
        """Find one of its tasks."""
        (task,) = [
            task
            for task in yaml.safe_load((ROLE / 'tasks' / file).read_text())
            if task['name'] == name
        ]
        return task

    def holds(self, conditions, **variables):
        """Say whether all conditions hold, as Ansible would."""
        environment = jinja2.Environment()
        environment.filters['bool'] = lambda value: value in (True, 'yes')
        return all(
            environment.compile_expression(each)(**variables)
            for each in conditions
        )

    def test_kernel_is_asked_once_it_can_answer(self):
        """In check mode nova-rt-sched does not run yet."""
        task = self.task(
            'compute.yml',
            'Check that the kernel of this host offers bandwidth',
        )
        for check, sched, socket, asks in (
            (False, True, False, True),
            (True, False, False, True),
            (True, True, True, True),
            (True, True, False, False),
        ):
            there = {'stat': {'exists': socket}} if sched else {}
            self.assertEqual(
                asks,
                self.holds(
                    task['when'],
                    ansible_check_mode=check,
                    nova_rt_restart_compute=True,
                    nova_rt_sched=sched,
                    _nova_rt_installed={'rc': 0},
                    _nova_rt_sched_socket=there,
                ),
            )

    def test_one_of_the_rules_is_needed(self):
        """Without both, nova-compute starts none of its helpers."""
        task = self.task(
            'validate.yml',
            'Check that nova-compute can start its helpers without exact '
            'rules',
        )
        for ours, stock, passes in (
            (False, False, True),  # In a file of another name.
            (False, True, True),
            (True, True, True),
            (True, False, False),
        ):
            found = [{'stat': {'exists': each}} for each in (ours, stock)]
            self.assertEqual(
                passes,
                self.holds(
                    [task['ansible.builtin.assert']['that']],
                    _nova_rt_rules={'results': found},
                ),
            )

    def test_both_files_of_nova_compute_are_needed(self):
        """Before anything is changed."""
        looks = self.task(
            'validate.yml', 'Find the configuration of nova-compute'
        )
        self.assertEqual(['nova.conf', 'nova-compute.conf'], looks['loop'])
        task = self.task(
            'validate.yml', 'Check that both files of nova-compute are there'
        )
        for exists in (True, False):
            self.assertEqual(
                exists,
                self.holds(
                    [task['ansible.builtin.assert']['that']],
                    item={'stat': {'exists': exists}},
                ),
            )

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

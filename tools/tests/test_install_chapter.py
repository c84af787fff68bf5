# SPDX-License-Identifier: Apache-2.0
"""The installation chapter can be followed, and its faults are seen."""

import functools
import importlib.metadata
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import textwrap
import tomllib
import unittest

import docutils.core
import docutils.nodes
from docutils.parsers.rst import Directive, directives, roles
import yaml

from lab import config, paths
from nova_rt import conf
from tools.install import blocks, chapter, chapter_cloud, ini, node, role

ETC = paths.CHECKOUT / 'etc' / 'nova_rt'
ROLE = role.ANSIBLE / 'roles' / 'nova_rt'
# What a Debian node has, beside what nova_rt and Nova bring.
DEBIAN = set(
    'awk cat cd chmod chown curl echo grep head install mv mysql rm sed'
    ' systemctl systemd-analyze tar test umask virsh visudo'.split()
)
UNITS = {
    file.stem
    for directory in (node.FILES, ETC / 'systemd')
    for file in directory.glob('*.service')
}


def text_of(body):
    """A chapter, written with less indentation."""
    return textwrap.dedent(body).lstrip('\n')


class Directory:
    """A host that is a directory, with commands that run beside it."""

    def __init__(self, root):
        self.root = root

    def run(self, script, log):
        with log.open('ab') as output:
            return subprocess.run(
                ['bash', '-c', script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                check=False,
            ).returncode

    def path(self, name):
        return self.root / name.lstrip('/')


class ChapterTestCase(unittest.TestCase):
    """Has a directory for a chapter and a host."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.host = Directory(self.directory / 'host')
        self.host.root.mkdir()
        self.log = self.directory / 'log'

    def read(self, body):
        file = self.directory / 'chapter.rst'
        file.write_text(text_of(body))
        return blocks.read(file)

    def follow(self, body, changes=None, place='controller'):
        state = str(self.directory / 'state')
        follower = chapter.Follower(self.host, self.log, changes or {}, state)
        follower.follow(chapter.select(self.read(body), place))
        follower.finish()
        return follower

    def assert_wrong(self, word, body, **more):
        with self.assertRaises(blocks.Wrong) as raised:
            self.follow(body, **more)
        self.assertIn(word, str(raised.exception))


class ReadTest(ChapterTestCase):
    """The parser finds blocks as Sphinx does, and refuses unclear ones."""

    def test_block(self):
        (found,) = self.read("""
            Title
            =====

            1. An item:

               .. code-block:: ini
                  :class: controller edit
                  :caption: /etc/nova/nova.conf

                  [DEFAULT]
                  a = 1

                  [other]
                  b = 2

               After it.
            """)
        self.assertEqual('Title', found.section)
        self.assertEqual({'controller', 'edit'}, found.words)
        self.assertEqual({'controller'}, found.places)
        self.assertEqual('/etc/nova/nova.conf', found.file)
        self.assertEqual('[DEFAULT]\na = 1\n\n[other]\nb = 2\n', found.text)

    def test_commands(self):
        (found,) = self.read(r"""
            .. code-block:: console
               :class: compute

               # first
               $ second \
                   --more
               its output
               # third
            """)
        first, second, third = found.commands()
        self.assertEqual((True, 'first', ()), (first.root, first.text, ()))
        self.assertEqual(4, first.line)
        self.assertFalse(second.root)
        self.assertEqual(
            ['second', '--more'], second.text.replace('\\\n', '').split()
        )
        self.assertEqual(('its output',), second.output)
        self.assertEqual(8, third.line)

    def test_unclear_blocks(self):
        for word, body in (
            ('where', '.. code-block:: console\n\n   # true\n'),
            ('what is', '.. code-block:: ini\n   :class: compuet\n\n   a\n'),
            (
                'which file',
                '.. code-block:: ini\n   :class: controller\n\n   a = 1\n',
            ),
            (
                'no prompt',
                '.. code-block:: console\n   :class: controller\n\n   true\n',
            ),
            (
                'or the file',
                '.. code-block:: console\n   :class: controller\n'
                '   :caption: /etc/x\n\n   # true\n',
            ),
        ):
            with self.subTest(word):
                self.assert_wrong(word, body)


class FollowTest(ChapterTestCase):
    """A chapter that is wrong is caught."""

    def test_good(self):
        self.host.path('/etc').mkdir()
        self.host.path('/etc/a.conf').write_text('# kept\n[one]\nx = 1,2\n')
        follower = self.follow(
            """
            .. code-block:: console
               :class: controller

               # word=example
               # cd etc

            .. code-block:: ini
               :class: controller edit
               :caption: /etc/a.conf

               [one]
               x = ...,3

            .. code-block:: console
               :class: controller compute

               # echo $word >made
               # cat a.conf
               x = 1,2,3

            .. code-block:: console
               :class: compute

               # false
            """,
            {'word=example': 'word=adapted'},
        )
        self.assertEqual('adapted\n', self.host.path('/etc/made').read_text())
        self.assertEqual(
            '# kept\n[one]\nx = 1,2,3\n',
            self.host.path('/etc/a.conf').read_text(),
        )
        self.assertEqual((4, 1), (follower.commands, follower.files))

    def test_block_is_followed_once(self):
        body = """
            .. code-block:: console
               :class: controller compute

               # echo x >>made
            """
        follower = self.follow(body)
        follower.follow(chapter.select(self.read(body), 'compute'))
        self.assertEqual('x\n', self.host.path('made').read_text())

    def test_command_that_fails(self):
        body = """
            .. code-block:: console
               :class: controller

               # true
               # false | true
               # touch after
            """
        self.assert_wrong("line 5: 'false | true'", body)
        self.assertFalse(self.host.path('after').exists())

    def test_command_that_does_not_exist(self):
        body = """
            .. code-block:: console
               :class: controller

               # nova-rt-scheduller --help
            """
        self.assert_wrong('nova-rt-scheduller', body)

    def test_variable_that_is_not_set(self):
        body = """
            .. code-block:: console
               :class: controller

               # echo $nowhere/bin/pip
            """
        self.assert_wrong('unbound variable', body)

    def test_output_that_does_not_come(self):
        body = """
            .. code-block:: console
               :class: controller

               # echo inactive
               active
            """
        self.assert_wrong("did not print 'active'", body)

    def test_file_that_is_not_there(self):
        body = """
            .. code-block:: ini
               :class: controller edit
               :caption: /etc/nova/nvoa.conf

               a = 1
            """
        self.assert_wrong('there is no /etc/nova/nvoa.conf', body)

    def test_value_with_nothing_to_keep(self):
        self.host.path('/etc').mkdir()
        self.host.path('/etc/a.conf').write_text('[one]\ny = 1\n')
        body = """
            .. code-block:: ini
               :class: controller edit
               :caption: /etc/a.conf

               [one]
               x = ...,3
            """
        self.assert_wrong('nothing to keep', body)

    def test_line_that_is_no_longer_adapted(self):
        body = """
            .. code-block:: console
               :class: controller

               # version=2
            """
        self.assert_wrong('no longer has', body, changes={'version=1': 'x'})


class IniTest(unittest.TestCase):
    """Options are set where an operator would set them."""

    def test_edit(self):
        before = text_of("""
            # a comment
            [DEFAULT]
            a = 1
            #a = 0
            many = 1
            many = 2
            z = 9

            [last]
            b = 1
            """)
        after = text_of("""
            # a comment
            [DEFAULT]
            a = 1
            #a = 0
            many = 3
            many = 4
            z = 9
            new = 1

            [last]
            b = 2

            [own]
            c = 1
            """)
        wanted = (
            '[own]\nc = 1\n[last]\nb = 2\n'
            '[DEFAULT]\nmany = 3\nmany = 4\nnew = 1\n'
        )
        self.assertEqual(after, ini.edit(before, wanted))
        self.assertEqual(after, ini.edit(after, wanted))


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
        # The database of nova-rt-conductor, and a filter of Ansible.
        others = {'nova_rt_database', 'nova_rt_cpus'}
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

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.app and base."""

from importlib import metadata
import logging
import os
import pathlib
import subprocess
import sys

from cliff import commandmanager
import fixtures
from oslo_config import cfg
from oslotest import base

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd.cli import base as commands
from nova_rt.manage import app
from nova_rt.tests.fixtures import manage

HOSTILE = '\x1b]0;owned\x07 \u202ereversed\nnext line'
ESCAPED = '\\x1b]0;owned\\x07 \\u202ereversed\\x0anext line'


class Rows(commands.Lister):
    """Print hostile rows."""

    def take_action(self, parsed_args):
        self.exit_code = 1
        return ('Text', 'Number', 'List'), [(HOSTILE, 7, [HOSTILE, 1])]


class One(commands.ShowOne):
    """Print one hostile thing."""

    def take_action(self, parsed_args):
        return ('Text', 'Nothing'), (HOSTILE, None)


class Fails(commands.Command):
    """Fail."""

    def take_action(self, parsed_args):
        raise commands.CannotRun(f'no: {HOSTILE}')


class Breaks(commands.Command):
    """Fail in a way that nobody thought of."""

    def take_action(self, parsed_args):
        raise RuntimeError(HOSTILE)


class AppTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        manager = commandmanager.CommandManager('nova_rt.no_such_group')
        for command in (Rows, One, Fails, Breaks):
            manager.add_command(command.__name__.lower(), command)
        self.manager = manager

    def run_one(self, *words):
        return manage.run(self.conf, *words, commands=self.manager)

    def assert_clean(self, text):
        for line in text.splitlines():
            self.assertTrue(line.isprintable(), line)

    def test_every_format_escapes(self):
        for form in ('table', 'json', 'yaml', 'csv', 'value'):
            result = self.run_one('rows', '-f', form)
            self.assert_clean(result.out)
            self.assertIn('owned', result.out)
            self.assertEqual(1, result.code)
        for form in ('table', 'json', 'yaml', 'shell', 'value'):
            result = self.run_one('one', '-f', form)
            self.assert_clean(result.out)
            self.assertIn('owned', result.out)
            self.assertEqual(0, result.code)

    def test_numbers_stay_numbers(self):
        (row,) = self.run_one('rows', '-f', 'json').data
        self.assertEqual(
            {'Text': ESCAPED, 'Number': 7, 'List': [ESCAPED, 1]}, row
        )

    def test_failures_are_one_clean_line(self):
        for name, code in (('fails', 2), ('breaks', 1)):
            result = self.run_one(name)
            self.assertEqual((code, ''), (result.code, result.out))
            self.assert_clean(result.err)
            self.assertEqual(1, result.err.count('\n'))
            self.assertIn(ESCAPED, result.err)
        result = self.run_one('fails')

    def test_log_file(self):
        """It may be read on a terminal, too."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'log')
        self.run_one('--log-file', str(path), 'fails')
        self.assert_clean(path.read_text())
        self.assertIn(f'no: {ESCAPED}', path.read_text())

    def test_traceback(self):
        result = self.run_one('--debug', 'breaks')
        self.assertEqual(1, result.code)
        self.assert_clean(result.err)
        self.assertIn('Traceback', result.err)

    def test_usage(self):
        for words in (
            (),
            ('nonsense',),
            ('help', 'nonsense'),
            ('one', '--nonsense'),
        ):
            result = self.run_one(*words)
            self.assertEqual(2, result.code)
            self.assertNotIn('Traceback', result.out + result.err)

    def test_help(self):
        for words, text in (
            (('--help',), 'Print hostile rows'),
            (('rows', '--help'), '--sort-column'),
            (('help', 'rows'), '--sort-column'),
        ):
            result = self.run_one(*words)
            self.assertEqual((0, ''), (result.code or 0, result.err))
            self.assertIn(text, result.out)

    def test_handlers_are_taken_away(self):
        before = list(logging.getLogger().handlers)
        self.run_one('one')
        self.run_one('fails')
        self.assertEqual(before, logging.getLogger().handlers)


class ProgramTest(base.BaseTestCase):
    """The program, started as operators start it."""

    def run_program(self, *words, code='pass', **variables):
        top = pathlib.Path(app.__file__).parents[3]
        return subprocess.run(
            [sys.executable, '-c',
             f'import sys; from nova_rt.manage import app; '
             f'code = app.main(sys.argv[1:]); {code}; sys.exit(code)',
             *words],
            env={**os.environ, 'PYTHONPATH': str(top), **variables},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def test_is_quick(self):
        """Neither the help nor a flavor loads Nova or a database."""
        heavy = ('print([name for name in ("nova", "sqlalchemy", "rich", '
                 '"cmd2", "libvirt") if name in sys.modules])')  # fmt: skip
        points = metadata.entry_points(group=app.COMMANDS)
        modules = {point.module for point in points}
        self.assertNotEqual(set(), modules)
        # As --help loads them all.
        load = f'import {", ".join(sorted(modules))}; {heavy}'
        result = self.run_program(
            'flavor', 'specs', '--reservation=10/1000', '--vcpus=1', code=load
        )
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual('[]', result.stdout.splitlines()[-1])

    def test_configuration(self):
        path = pathlib.Path(self.create_tempfiles([(
            'own', '[nova_rt]\nmin_period_us = 5000\n')])[0])  # fmt: skip
        words = ('flavor', 'specs', '--reservation=1400/2000', '--vcpus=1')
        self.assertEqual(0, self.run_program(*words).returncode)
        result = self.run_program('--config-file', str(path), *words)
        self.assertEqual(2, result.returncode)
        self.assertIn('5000 to', result.stderr)
        result = self.run_program('--config-file', '/nowhere', *words)
        self.assertEqual(2, result.returncode)
        self.assertIn('/nowhere', result.stderr)
        self.assertEqual(1, result.stderr.count('\n'))

    def test_configuration_of_the_conductor(self):
        """Only its file has the database."""
        home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (home / '.nova').mkdir()
        (home / '.nova' / 'nova.conf').touch()
        (home / '.nova' / 'nova-rt-conductor.conf').write_text(
            f'[nova_rt_database]\nconnection = sqlite:///{home}/db\n'
        )
        result = self.run_program('db', 'check', HOME=str(home))
        self.assertNotIn('is not set', result.stderr)
        self.assertIn('revision', result.stdout + result.stderr)
        result = self.run_program(
            '--config-file', str(home / '.nova/nova.conf'), 'db', 'check',
            HOME=str(home),
        )  # fmt: skip
        self.assertEqual(2, result.returncode)
        self.assertIn('is not set', result.stderr)

# SPDX-License-Identifier: Apache-2.0
"""Tempest on the lab: its configuration, and what becomes of outcomes."""

import configparser
import contextlib
import io
import json
import pathlib
import re
import tempfile
import unittest
from unittest import mock

from lab import catalog, compare, paths, second, tempest

TESTS = 'tempest.api.compute.'


class ReportTest(unittest.TestCase):
    """Ours must not do worse than Nova's own."""

    def setUp(self):
        self.results = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        self.enterContext(mock.patch.object(paths, 'RESULTS', self.results))

    def report(self, ours, stock=None, at_least=1):
        outcomes = {compare.OURS: ours}
        if stock is not None:
            outcomes[compare.STOCK] = stock
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = compare.report(outcomes, at_least, 'found')
        saved = json.loads((self.results / 'found.json').read_text())
        text = (self.results / 'found.txt').read_text()
        self.assertTrue(said.getvalue().startswith(text))
        return code, saved, text

    def test_verdicts(self):
        for ours, stock, code, word in (
            ('success', 'success', 0, None),
            ('skip', 'skip', 0, None),
            ('success', 'fail', 0, 'better'),
            ('fail', 'success', 1, 'failed'),
            ('fail', 'fail', 1, 'failed'),
            ('skip', 'success', 1, 'different'),
            ('skip', 'fail', 1, 'different'),
            ('success', 'skip', 1, 'different'),
            (None, 'success', 1, 'different'),
            ('success', None, 1, 'different'),
        ):
            with self.subTest(ours=ours, stock=stock):
                found = [
                    {'a': 'success'} | ({'b': each} if each else {})
                    for each in (ours, stock)
                ]
                got, saved, text = self.report(*found)
                self.assertEqual(code, got)
                for each in ('better', 'failed', 'different'):
                    wanted = ['b'] if each == word else []
                    self.assertEqual(wanted, saved[each])
                line = f'{word.upper()}  b' if word else 'b'
                self.assertTrue(text.splitlines()[2].endswith(f'  {line}'))

    def test_too_few_passed(self):
        for other in ('success', 'skip', 'fail'):
            found = {'a': 'success', 'b': 'success'}, {
                'a': 'success', 'b': other,
            }  # fmt: skip
            code, saved, _ = self.report(*found, at_least=2)
            self.assertEqual(other != 'success', bool(code))
            self.assertEqual(2 if other == 'success' else 1, saved['passed'])

    def test_ours_alone(self):
        self.assertEqual(0, self.report({'a': 'success', 'b': 'skip'})[0])
        self.assertEqual(1, self.report({'a': 'success', 'b': 'fail'})[0])
        self.assertEqual(1, self.report({'a': 'skip'})[0])

    def test_tests_that_run(self):
        for name, chosen in (
            ('servers.test_server_actions.ServerActionsTestJSON', True),
            ('admin.test_migrations.MigrationsAdminTest', True),
            ('admin.test_migrations_negative.MigrationsTest', False),
            ('servers.test_servers_negative.ServersTest', False),
        ):
            test = f'{TESTS}{name}.test_it'
            self.assertEqual(chosen, bool(re.match(compare.REGEX, test)))


class ConfigurationTest(unittest.TestCase):
    """The configuration that the lab writes for Tempest, read back."""

    def write(self, computes, **options):
        workspace = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        wanted = mock.patch.object(
            second, 'wanted', return_value=computes == 2
        )
        place = mock.patch.object(tempest, 'WORKSPACE', workspace)
        with wanted, place:
            tempest.write(mock.MagicMock(), **options)
        found = configparser.ConfigParser(interpolation=None)
        found.read(workspace / 'tempest.conf')
        return found

    def test_flavors(self):
        found = self.write(1)['compute']
        self.assertEqual('plain.small', found['flavor_ref'])
        found = self.write(1, flavors=tempest.RT_FLAVORS)['compute']
        self.assertEqual('rt.micro', found['flavor_ref'])
        self.assertEqual('rt.tiny', found['flavor_ref_alt'])
        known = {name for name, *_ in catalog.PLAIN_FLAVORS}
        self.assertLessEqual(set(tempest.PLAIN_FLAVORS), known)
        known = {name for name, *_ in catalog.RT_FLAVORS}
        self.assertLessEqual(set(tempest.RT_FLAVORS), known)

    def test_restarts_happen_in_this_lab(self):
        # A lab may lie elsewhere; the environment of Tempest does not say so.
        for computes in (1, 2):
            with self.subTest(computes=computes):
                found = self.write(computes)['nova_rt']['restart_commands']
                lines = found.split(',')
                self.assertEqual(3, len(lines))
                for line in lines:
                    self.assertIn(f'NOVA_RT_LAB={paths.WORK} ', line)
                    self.assertIn(' -m lab restart ', line)

    def test_one_host_never_dies(self):
        found = self.write(1)
        self.assertNotIn('mortal_host', found['nova_rt'])
        self.assertEqual('1', found['compute']['min_compute_nodes'])

    def test_two_hosts(self):
        found = self.write(2)
        self.assertEqual('2', found['compute']['min_compute_nodes'])
        self.assertTrue(
            found['compute-feature-enabled'].getboolean('cold_migration')
        )
        options = found['nova_rt']
        self.assertEqual(second.HOST, options['mortal_host'])
        for name, command in (
            ('kill_command', 'kill'),
            ('revive_command', 'up'),
        ):
            self.assertTrue(options[name].endswith(f' -m lab {command}'))
            self.assertIn(f'NOVA_RT_LAB={paths.WORK} ', options[name])

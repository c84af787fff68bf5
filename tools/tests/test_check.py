# SPDX-License-Identifier: Apache-2.0
"""tools/check.py: parts that run or are recorded, and the last lines."""

import contextlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from tools import check
from tools.gate import parts, places, records


class KernelPiecesTest(unittest.TestCase):
    """The long form's pieces of the kernel's tests."""

    def test_every_group_is_in_one(self):
        scripts = places.ROOT / 'kernel' / 'scripts'
        groups = subprocess.run(
            [
                sys.executable,
                '-B',
                '-c',
                'import check; print(*{run.group for run in check.RUNS})',
            ],
            cwd=scripts,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        pieces = [g for p in parts.KERNEL_PIECES.values() for g in p]
        self.assertEqual(sorted(groups), sorted(pieces))


class CheckTestCase(unittest.TestCase):
    """Parts of commands of the shell, and records of their own."""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        for target, name, value in (
            (places, 'LOGS', self.top / 'logs'),
            (places, 'GREEN', self.top / 'green'),
            (places, 'TESTED', self.top / 'tested.toml'),
            (check, 'HEARTBEAT_S', 60),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        for name, value in (
            ('beside_the_checkout', lambda name: self.top),
            ('with_the_lab', lambda names, everything: names),
            ('lab_is', lambda *words: True),
        ):
            patch = mock.patch.object(check, name, side_effect=value)
            patch.start()
            self.addCleanup(patch.stop)

    def shell(self, text, **kwargs):
        return check.Step(['sh', '-c', text], **kwargs)

    def run_check(self, table, *words, ci='false', form='GATE'):
        """Run these parts; the exit code and the lines that are printed."""
        output = io.StringIO()
        with (
            mock.patch.object(check, form, table),
            mock.patch.dict('os.environ', {'CI': ci}),
            contextlib.redirect_stdout(output),
        ):
            code = check.main(list(words))
        return code, output.getvalue().splitlines()


class OutcomeTest(CheckTestCase):
    """The outcome of parts, and the last line."""

    def test_ends(self):
        (self.top / 'output').write_text(' - Passed: 4\n - Failed: 0\n')
        for script, least, limit_s, more, wanted in (
            ('true', 0, 60, {}, (2, 0, 0)),
            ('exit 1', 0, 60, {}, (1, 1, 0)),
            ('exit 69', 0, 60, {}, (1, 1, 0)),
            ('exit 69', 0, 60, {'without': 'no source'}, (1, 0, 1)),
            ('exit 1', 0, 60, {'without': 'no source'}, (1, 1, 0)),
            ('exec sleep 60', 0, 1, {}, (1, 1, 0)),
            (f'cat {self.top}/output', 4, 60, {'tests': True}, (5, 0, 0)),
            (f'cat {self.top}/output', 5, 60, {'tests': True}, (5, 1, 0)),
        ):
            with (
                self.subTest(script, least=least, **more),
                mock.patch.object(check, 'LIMIT_S', limit_s),
            ):
                step = self.shell(script, **more)
                code, lines = self.run_check({
                    'kernel': check.Part('x', [step], at_least=least),
                    'style': check.Part('x', [self.shell('true')]),
                })  # fmt: skip
                self.assertEqual(wanted[1], code)
                words = '{} passed, {} failed, {} skipped'.format(*wanted)
                self.assertEqual(words, lines[-1])
                skipped = 'kernel: skipped, no source' in lines
                self.assertEqual(wanted[2], skipped)

    def test_fetching_is_what_may_be_missing(self):
        first = parts.GATE['kernel'].steps[0]
        self.assertEqual(
            (['kernel/scripts/fetch.sh'], 'no source'),
            (first.command, first.without),
        )


class RecordsTest(CheckTestCase):
    """Records: content that has passed is not run again."""

    def setUp(self):
        super().setUp()
        self.counter = self.top / 'counter'
        self.input = self.top / 'input'
        self.input.write_text('one')
        for name, value in (
            ('_files', lambda: ['input']),
            ('_digest', lambda name: self.input.read_text()),
        ):
            patch = mock.patch.object(records, name, side_effect=value)
            patch.start()
            self.addCleanup(patch.stop)

    def _table(self, name='unit', word='true', **kwargs):
        steps = [self.shell(f'echo >>{self.counter}; {word}')]
        return {name: check.Part('x', steps, inputs=('input',), **kwargs)}

    def _runs(self):
        return len(self.counter.read_text().splitlines())

    def test_the_same(self):
        table = self._table()
        self.run_check(table)
        code, lines = self.run_check(table)
        self.assertEqual((0, 1), (code, self._runs()))
        self.assertRegex(
            lines[-2],
            r'^unit: from records, 20.*commit .*: 1 passed, 0 failed',
        )
        self.assertEqual('0 passed, 0 failed, 0 skipped', lines[-1])
        # A record of a record would never grow old.
        self.run_check(table)
        self.assertEqual(1, len(records._passed()))

    def test_another_content(self):
        self.run_check(self._table())
        self.input.write_text('two')
        self.run_check(self._table())
        self.assertEqual(2, self._runs())

    def test_a_failure_is_no_record(self):
        table = self._table(word='test -e ' + str(self.top / 'there'))
        self.run_check(table)
        (self.top / 'there').touch()
        self.assertEqual(0, self.run_check(table)[0])
        self.assertEqual(2, self._runs())

    def test_files_that_change_meanwhile(self):
        table = self._table(word=f'echo two >{self.input}')
        self.run_check(table)
        self.input.write_text('one')
        self.run_check(table)
        self.assertEqual(2, self._runs())

    def test_what_runs_in_ci_whatever_is_recorded(self):
        table = self._table(in_ci=True)
        self.run_check(table)
        self.run_check(table, ci='true')
        self.assertEqual(2, self._runs())
        self.run_check(table)
        self.assertEqual(2, self._runs())

    def test_what_is_named_runs(self):
        for words in ([], ['unit']):
            self.run_check(self._table(), *words)
        self.assertEqual(2, self._runs())

    def test_the_long_form_ignores_the_records_of_the_gate(self):
        table = self._table()
        self.run_check(table)
        self.run_check(table, '--full', form='FULL')
        self.assertEqual(2, self._runs())

    def test_the_long_form_goes_on_where_it_stopped(self):
        table = self._table() | {
            'tools': check.Part('x', [check.Step(['false'])])
        }
        with mock.patch.object(records, 'tree', return_value='one'):
            self.run_check(table, '--full', form='FULL')
            _, lines = self.run_check(table, '--full', form='FULL')
        self.assertEqual(1, self._runs())
        self.assertIn('shown already of this tree: unit', lines)
        with mock.patch.object(records, 'tree', return_value='two'):
            self.run_check(table, '--full', form='FULL')
        self.assertEqual(2, self._runs())

    def test_kernel_that_passed_on_another_machine(self):
        table = {
            **self._table('kernel', portable=True),
            **self._table('model', portable=True),
            **self._table('unit'),
        }
        with mock.patch.object(parts, 'GATE', table):
            with self.assertRaisesRegex(LookupError, 'this kernel'):
                records.note_tested()
            self.run_check(table, 'kernel')
            with self.assertRaisesRegex(LookupError, 'this model'):
                records.note_tested()
            self.run_check(table, 'model')
            self.assertNotIn('unit', records.note_tested())
            shutil.rmtree(self.top / 'green')
            # One that ran elsewhere stays.
            self.run_check(table, 'model')
            records.note_tested()
        shutil.rmtree(self.top / 'green')
        before = self._runs()
        _, lines = self.run_check(table)
        self.assertEqual(before + 1, self._runs())
        for name in ('kernel', 'model'):
            self.assertRegex('\n'.join(lines), f'{name} .* tested.toml')
        self.input.write_text('two')
        self.run_check(table)
        self.assertEqual(before + 4, self._runs())

    def test_a_record_that_is_cut_off(self):
        self.run_check(self._table())
        with (self.top / 'green/passed.jsonl').open('a') as file:
            file.write('{"at": "20')
        self.assertEqual(0, self.run_check(self._table())[0])


class InputsTest(unittest.TestCase):
    def test_every_input_exists(self):
        for form in (parts.GATE, parts.FULL):
            for name, part in form.items():
                for each in part.inputs:
                    self.assertTrue(
                        (places.ROOT / each).exists(), (name, each)
                    )


class ListsTest(unittest.TestCase):
    """The lists of tests that only one of the two forms runs."""

    SOURCES = {
        'functional-threading.long': 'nova_rt/tests/functional',
        'functional-eventlet.gate': 'nova_rt/tests/functional',
        'e2e.long': 'lab/tests',
        'tempest-plugin.gate': 'tempest_plugin',
        'host.long': 'nova_rt/tests/host',
    }

    def test_each_line_names_tests_that_exist(self):
        files = sorted((places.ROOT / parts.LISTS).iterdir())
        self.assertEqual(sorted(self.SOURCES), [each.name for each in files])
        for file in files:
            names = list(self._names(self.SOURCES[file.name]))
            for line in file.read_text().splitlines():
                if line and not line.startswith('#'):
                    self.assertTrue(
                        any(re.search(line, name) for name in names),
                        f'{file.name}: {line}',
                    )

    def _names(self, where):
        for path in sorted((places.ROOT / where).rglob('test_*.py')):
            module = str(path.relative_to(places.ROOT))[:-3].replace('/', '.')
            found = '-'
            for line in path.read_text().splitlines():
                if named := re.match(r'class (\w+)', line):
                    found = named[1]
                    yield f'{module}.{found}.inherited'
                elif named := re.match(r'    def (test\w*)', line):
                    yield f'{module}.{found}.{named[1]}'

    def test_what_is_promised_is_in_the_gate(self):
        text = (places.ROOT / parts.LISTS / 'e2e.long').read_text()
        for name in (
            'test_attacks', 'test_privileges', 'test_refusals',
            'test_reservation', r'test_reports\.StoryTest',
            r'test_user_namespaces\.UserNamespacesTest\.test_each_server',
        ):  # fmt: skip
            self.assertNotIn(name, text)

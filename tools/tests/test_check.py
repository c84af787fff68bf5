# SPDX-License-Identifier: Apache-2.0
"""tools/check.py: what it runs, runs again or takes from records, and says."""

import contextlib
import io
import json
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

TOTALS = """
{{0}} one.Test.test_good [0.1s] ... ok
{failed}Totals
 - Passed: {passed}
 - Failed: {number}
"""


def stestr(passed, *failed):
    """Return what stestr prints of its tests."""
    lines = [f'{{1}} {name} [0.2s] ... FAILED\n' for name in failed]
    return TOTALS.format(
        passed=passed, number=len(failed), failed=''.join(lines)
    )


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
            (places, 'SERVICE_LOGS', self.top / 'log'),
            (places, 'GREEN', self.top / 'green'),
            (places, 'TESTED', self.top / 'tested.toml'),
            (places, 'SHOWN', self.top / 'shown.toml'),
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

    def row(self, lines, name):
        begin = next(i for i, line in enumerate(lines) if line[:5] == 'part ')
        return next(
            line for line in lines[begin:] if line.startswith(f'{name} ')
        )

    def last_run(self):
        return records.runs()[-1]


class ServiceLogsTest(CheckTestCase):
    """Logs of the lab, which the next lab begins anew."""

    def setUp(self):
        super().setUp()
        (self.top / 'log' / 'nova').mkdir(parents=True)
        self.written = self.top / 'log' / 'nova' / 'compute.log'
        self.kept = self.top / 'logs' / 'e2e.services' / 'nova' / 'compute.log'

    def run_one(self, text, name='e2e'):
        self.written.write_text(text)
        part = check.Part('x', 60, [self.shell('false')])
        code, lines = self.run_check({name: part})
        self.assertEqual(1, code)
        return '\n'.join(lines)

    def test_are_kept_of_the_last_failure(self):
        for text in ('one', 'two'):
            self.assertIn('e2e.services', self.run_one(text))
            self.assertEqual(text, self.kept.read_text())

    def test_of_targets_that_use_the_lab(self):
        for name in parts.USES_THE_LAB - parts.ON_THE_LAB:
            self.assertIn(f'{name}.services', self.run_one('x', name))

    def test_only_of_what_needs_the_lab(self):
        self.assertNotIn('services', self.run_one('x', 'unit'))
        self.assertFalse(self.kept.exists())

    def test_that_are_not_there(self):
        part = check.Part('x', 60, [self.shell('false')])
        shutil.rmtree(self.top / 'log')
        code, lines = self.run_check({'e2e': part})
        self.assertEqual(1, code)
        self.assertIn('cannot be kept', '\n'.join(lines))


class MissingSourceTest(CheckTestCase):
    """A part whose first step ends with EX_UNAVAILABLE."""

    def _run(self, code, without='no source'):
        self.marker = self.top / 'went-on'
        steps = [
            self.shell(f'exit {code}', without=without),
            check.Step(['touch', str(self.marker)]),
        ]
        return self.run_check({
            'style': check.Part('x', 60, [check.Step(['true'])]),
            'kernel': check.Part('x', 60, steps),
        })  # fmt: skip

    def test_table_and_last_lines_say_so(self):
        _, lines = self._run(69)
        self.assertFalse(self.marker.exists())
        self.assertEqual(
            ['kernel: skipped, no source', '1 passed, 0 failed, 1 skipped'],
            lines[-2:],
        )
        self.assertRegex(
            self.row(lines, 'kernel'),
            r'^kernel +skipped +\d+ s +60 s  no source$',
        )

    def test_a_failure_to_fetch_is_no_skip(self):
        result, lines = self._run(1)
        self.assertEqual(1, result)
        self.assertEqual('1 passed, 1 failed, 0 skipped', lines[-1])

    def test_only_where_a_step_may_be_missing(self):
        result, lines = self._run(69, without='')
        self.assertEqual(1, result)
        self.assertEqual('1 passed, 1 failed, 0 skipped', lines[-1])

    def test_passed(self):
        result, lines = self._run(0)
        self.assertEqual(0, result)
        self.assertTrue(self.marker.exists())
        self.assertEqual('2 passed, 0 failed, 0 skipped', lines[-1])

    def test_fetching_is_what_may_be_missing(self):
        first = parts.GATE['kernel'].steps[0]
        self.assertEqual(
            (['kernel/scripts/fetch.sh'], 'no source'),
            (first.command, first.without),
        )


class AgainTest(CheckTestCase):
    """Tests that fail where a second run is allowed."""

    def _part(self, first, second, again='{}', **kwargs):
        """A part of which the second run prints something else."""
        for name, text in (('first', first), ('second', second)):
            (self.top / name).write_text(text)
        script = (
            f'cd {self.top}; printf "%s\\n" "$*" >>asked; '
            'if [ -e ran ]; then cat second; else touch ran; cat first; fi'
        )
        step = check.Step(
            ['sh', '-c', script, 'sh', '--exclude-list=x'],
            tests=True,
            again=again,
        )
        return {'e2e': check.Part('x', 60, [step], **kwargs)}

    def test_passes_then(self):
        name = 'two.Test.test_odd[id-1]'
        code, lines = self.run_check(
            self._part(stestr(4, name), stestr(1), at_least=5)
        )
        self.assertEqual(0, code)
        self.assertEqual(
            [f'e2e: unstable, {name}', '5 passed, 0 failed, 0 skipped'],
            lines[-2:],
        )
        self.assertRegex(self.row(lines, 'e2e'), '^e2e +unstable ')
        self.assertEqual([name], self.last_run()['unstable'])
        (line,) = (self.top / 'green/unstable.jsonl').read_text().splitlines()
        found = json.loads(line)
        self.assertEqual((name, 'e2e'), (found['test'], found['part']))
        self.assertIn('FAILED', found['output'][0])
        asked = (self.top / 'asked').read_text().splitlines()
        self.assertEqual('--exclude-list=x', asked[0])
        self.assertTrue(re.search(asked[1], name), asked[1])
        self.assertFalse(re.search(asked[1], name.replace('odd', 'oddity')))

    def test_fails_again(self):
        name = 'two.Test.test_odd'
        code, lines = self.run_check(
            self._part(stestr(4, name), stestr(0, name))
        )
        self.assertEqual(1, code)
        self.assertEqual('0 passed, 1 failed, 0 skipped', lines[-1])
        self.assertFalse((self.top / 'green/unstable.jsonl').exists())

    def _assert_final(self, table):
        code, _ = self.run_check(table)
        self.assertEqual(1, code)
        self.assertEqual(
            1, len((self.top / 'asked').read_text().split('\n')[:-1])
        )

    def test_three_are_too_many(self):
        names = [f'two.Test.test_{n}' for n in range(3)]
        self._assert_final(self._part(stestr(4, *names), stestr(3)))

    def test_not_where_a_failure_is_final(self):
        self._assert_final(
            self._part(stestr(4, 'two.Test.test_odd'), stestr(1), again='')
        )

    def test_not_the_setting_up_of_a_class(self):
        self._assert_final(
            self._part(stestr(4, 'setUpClass (two.Test)'), stestr(1))
        )

    def test_not_on_a_lab_that_is_broken(self):
        with mock.patch.object(check, 'lab_is', return_value=False):
            self._assert_final(
                self._part(stestr(4, 'two.Test.test_odd'), stestr(1))
            )

    def test_only_on_the_real_stack(self):
        stack = {'host', 'e2e', 'tempest-plugin'}
        with_two = {'e2e-two', 'tempest-plugin-two'}
        for form, wanted in (
            (parts.GATE, stack),
            (parts.FULL, stack | with_two),
        ):
            self.assertEqual(
                wanted,
                {
                    name
                    for name, part in form.items()
                    if any(step.again for step in part.steps)
                },
            )

    def test_twice_lately_fails_the_long_form(self):
        for _ in range(2):
            records.append('runs.jsonl', {'unstable': ['two.Test.test_odd']})
        good = {'unit': check.Part('x', 60, [check.Step(['true'])])}
        self.assertEqual(0, self.run_check(good)[0])
        code, lines = self.run_check(good, '--full', form='FULL')
        self.assertEqual(1, code)
        self.assertIn('two.Test.test_odd', lines[-1])


class RecordsTest(CheckTestCase):
    """Records of what has passed: the same content is not run again."""

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
        return {name: check.Part('x', 60, steps, inputs=('input',), **kwargs)}

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
        self.assertEqual('recorded', self.last_run()['parts']['unit']['word'])

    def test_another_content(self):
        self.run_check(self._table())
        self.input.write_text('two')
        self.run_check(self._table())
        self.assertEqual(2, self._runs())

    def test_another_command(self):
        self.run_check(self._table())
        self.run_check(self._table(word='exit 0'))
        self.assertEqual(2, self._runs())

    def test_a_failure_is_no_record(self):
        table = self._table(word='test -e ' + str(self.top / 'there'))
        self.run_check(table)
        (self.top / 'there').touch()
        self.assertEqual(0, self.run_check(table)[0])
        self.assertEqual(2, self._runs())

    def test_files_that_change_meanwhile(self):
        table = self._table()
        with mock.patch.object(records, 'tree', side_effect=['one', 'two']):
            self.run_check(table)
        last = self.last_run()
        self.assertEqual(
            ('', ''), (last['tree'], last['parts']['unit']['key'])
        )
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
            'tools': check.Part('x', 60, [check.Step(['false'])])
        }
        with mock.patch.object(records, 'tree', return_value='one'):
            self.run_check(table, '--full', form='FULL')
            _, lines = self.run_check(table, '--full', form='FULL')
        self.assertEqual(1, self._runs())
        self.assertIn('shown already of this tree: unit', lines)
        with mock.patch.object(records, 'tree', return_value='two'):
            self.run_check(table, '--full', form='FULL')
        self.assertEqual(2, self._runs())

    def test_long_form_on_several_machines(self):
        one, two = self._table('unit'), self._table('tools')
        with (
            mock.patch.object(parts, 'FULL', one | two),
            mock.patch.object(records, 'tree', return_value='one'),
        ):
            for table in (one, two):
                self.run_check(table, '--full', form='FULL')
                _, (said,) = self.run_check({}, '--note-full')
                shutil.rmtree(self.top / 'green')
            self.assertTrue(said.endswith('shown.toml: 2 of 2 parts'), said)
            _, lines = self.run_check({}, '--shown')
        commit = records.commit()[:12]
        for name, line in zip(('unit', 'tools'), lines, strict=True):
            self.assertRegex(line, rf'^{name} +20\S+  {commit} +0 s  ')

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
            self.assertIn('tested.toml', self.row(lines, name))
        self.input.write_text('two')
        self.run_check(table)
        self.assertEqual(before + 4, self._runs())

    def test_a_record_that_is_cut_off(self):
        self.run_check(self._table())
        with (self.top / 'green/runs.jsonl').open('a') as file:
            file.write('{"at": "20')
        self.assertEqual(0, self.run_check(self._table())[0])


class TreeTest(unittest.TestCase):
    """The names that records have of content."""

    def test_files_that_git_does_not_know(self):
        top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        with mock.patch.object(places, 'ROOT', top):
            self.assertEqual('', records.tree())
            for words in (
                ['init', '--quiet'],
                ['-c', 'user.name=x', '-c', 'user.email=x@example.org',
                 'commit', '--quiet', '--allow-empty', '--message=x'],
            ):  # fmt: skip
                records._git(*words)
            empty = records.tree()
            (top / 'new').write_text('x')
            self.assertNotEqual(empty, records.tree())
            self.assertEqual('?? new', records._git('status', '--short'))
            (top / 'new').unlink()
            self.assertEqual(empty, records.tree())
            # A part writes it while it runs.
            written = top / 'doc/source/admin/faults.rst'
            written.parent.mkdir(parents=True)
            written.write_text('a table')
            self.assertEqual(empty, records.tree())
            written.with_name('other.rst').write_text('a page')
            self.assertNotEqual(empty, records.tree())

    def test_every_input_exists(self):
        for form in (parts.GATE, parts.FULL):
            for name, part in form.items():
                for each in part.inputs:
                    self.assertTrue(
                        (places.ROOT / each).exists(), (name, each)
                    )


class EndTest(CheckTestCase):
    """Early ends of a run, and how they are recorded."""

    def test_a_part_that_hangs(self):
        table = {
            'unit': check.Part('x', 60, [self.shell('exec sleep 60')]),
            'tools': check.Part('x', 60, [check.Step(['true'])]),
        }
        with mock.patch.object(check, 'LIMIT_S', 1):
            code, lines = self.run_check(table)
        self.assertEqual(1, code)
        self.assertEqual('1 passed, 1 failed, 0 skipped', lines[-1])
        self.assertFalse(self.last_run()['ok'])

    def test_a_slow_part_is_no_failure(self):
        table = {'unit': check.Part('x', 0, [check.Step(['true'])])}
        code, lines = self.run_check(table)
        self.assertEqual(0, code)
        self.assertEqual(
            ['unit: slow, no failure', '1 passed, 0 failed, 0 skipped'],
            lines[-2:],
        )

    def test_fewer_tests_than_there_were(self):
        (self.top / 'output').write_text(stestr(4))
        step = self.shell(f'cat {self.top}/output', tests=True)
        for at_least, wanted in ((4, 0), (5, 1)):
            part = check.Part('x', 60, [step], at_least=at_least)
            self.assertEqual(wanted, self.run_check({'unit': part})[0])

    def test_record(self):
        with mock.patch.object(records, 'tree', return_value='one'):
            self.run_check({'unit': check.Part('x', 60, [self.shell(':')])})
        found = self.last_run()
        self.assertEqual(
            ('one', 'gate', True, True),
            tuple(found[name] for name in ('tree', 'form', 'whole', 'ok')),
        )
        self.assertLessEqual(0, found['steal_percent'])

    def test_unknown_part(self):
        code, lines = self.run_check({}, 'nothing')
        self.assertEqual(2, code)
        self.assertIn('no such part: nothing', lines[0])


class WithTheLabTest(unittest.TestCase):
    """Handling of the lab before and after the parts."""

    def _parts(self, names, down, everything=False):
        with mock.patch.object(check, 'lab_is', return_value=down):
            return check.with_the_lab(names, everything)

    def test_all(self):
        # A lab whose processes died has left its database, with servers in it.
        for down in (True, False):
            self.assertEqual(
                ['lab-down', 'unit'], self._parts(['unit'], down, True)
            )

    def test_some_on_a_machine_without_a_lab(self):
        self.assertEqual(
            ['lab-down', 'unit', 'e2e', 'lab-down'],
            self._parts(['unit', 'e2e'], True),
        )
        self.assertEqual(['unit'], self._parts(['unit'], True))

    def test_some_on_the_lab_that_is_there(self):
        self.assertEqual(['e2e'], self._parts(['e2e'], False))


class ListsTest(unittest.TestCase):
    """The lists of tests that only one of the two forms runs."""

    SOURCES = {
        'functional-threading.long': 'nova_rt/tests/functional',
        'functional-eventlet.gate': 'nova_rt/tests/functional',
        'e2e.long': 'lab/tests',
        'tempest-plugin.gate': 'tempest_plugin',
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

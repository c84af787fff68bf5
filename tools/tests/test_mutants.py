# SPDX-License-Identifier: Apache-2.0
"""tools/mutants.py: the faults fit the sources, and are judged by the log."""

import pathlib
import re
import tempfile
import unittest
from unittest import mock

from tools import mutants
from tools.gate import parts, places


class TableTest(unittest.TestCase):
    """The faults of tools/gate/mutants.toml."""

    def test_every_part_of_the_gate_has_one(self):
        named = mutants.load().keys()
        self.assertEqual(set(), parts.GATE.keys() - named)
        self.assertEqual(set(), named - parts.GATE.keys() - parts.FULL.keys())

    def test_each_can_be_put_in(self):
        for part, mutant in mutants.load().items():
            with self.subTest(part), tempfile.TemporaryDirectory() as name:
                text = (places.ROOT / mutant.file).read_text()
                path = pathlib.Path(name) / mutant.file
                path.parent.mkdir(parents=True)
                path.write_text(text)
                mutant.put_into(pathlib.Path(name))
                self.assertNotEqual(text, path.read_text())
                re.compile(mutant.finds)

    def test_text_that_is_gone(self):
        mutant = mutants.Mutant('x', 'file', 'old', 'new', 'x')
        with tempfile.TemporaryDirectory() as name:
            for text in ('none', 'old and old'):
                (pathlib.Path(name) / 'file').write_text(text)
                with self.assertRaisesRegex(LookupError, 'file has'):
                    mutant.put_into(pathlib.Path(name))


class JudgeTest(unittest.TestCase):
    """A fault is found if the part fails by what it breaks."""

    def _run(self, code, log):
        with tempfile.TemporaryDirectory() as name:
            top = pathlib.Path(name)
            (top / 'unit.log').write_text(log)

            def run(command, **kwargs):
                word = code if '-m' in command else 0
                return mock.Mock(returncode=word)

            with (
                mock.patch.object(places, 'LOGS', top),
                mock.patch.object(places, 'RUN', top),
                mock.patch.object(mutants, '_copy'),
                mock.patch.object(mutants.Mutant, 'put_into'),
                mock.patch.object(mutants.subprocess, 'run', side_effect=run),
                mock.patch('builtins.print'),
            ):
                return mutants.main(['unit'])

    def test_found(self):
        self.assertEqual(
            0, self._run(1, '{0} unit.test_reservation.Test.x [1s] ... FAILED')
        )

    def test_passed(self):
        self.assertEqual(
            1, self._run(0, '{0} unit.test_reservation.Test.x [1s] ... FAILED')
        )

    def test_failed_by_something_else(self):
        self.assertEqual(
            1, self._run(1, '{0} unit.test_other.Test.x [1s] ... FAILED')
        )

    def test_unknown_part(self):
        with mock.patch('builtins.print') as printed:
            self.assertEqual(2, mutants.main(['no-part']))
        self.assertIn('no-part', str(printed.call_args))

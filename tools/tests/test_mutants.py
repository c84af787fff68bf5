# SPDX-License-Identifier: Apache-2.0
"""tools/mutants.py: the faults fit the sources, and are judged by the log."""

import pathlib
import re
import tempfile
import unittest

from tools import mutants
from tools.gate import parts, places


class TableTest(unittest.TestCase):
    """The faults of tools/gate/mutants.toml."""

    def test_every_part_of_the_gate_has_one(self):
        named = {n for n, each in mutants.load().items() if not each.tests}
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

    def test_tests_are_there(self):
        for name, mutant in mutants.load().items():
            for test in mutant.tests.split():
                with self.subTest(name):
                    path = test.split('.test_')[0].replace('.', '/')
                    module = test.split('.test_')[1].split('.')[0]
                    file = places.ROOT / path / f'test_{module}.py'
                    self.assertTrue(file.exists(), file)

    def test_text_that_is_gone(self):
        mutant = mutants.Mutant('x', 'file', 'old', 'new', 'x')
        with tempfile.TemporaryDirectory() as name:
            for text in ('none', 'old and old'):
                (pathlib.Path(name) / 'file').write_text(text)
                with self.assertRaisesRegex(LookupError, 'file has'):
                    mutant.put_into(pathlib.Path(name))

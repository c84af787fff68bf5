# SPDX-License-Identifier: Apache-2.0
"""tools/mutants.py: the faults fit the sources, and are judged by the log."""

import re
import unittest

from tools import mutants
from tools.gate import parts, places


class TableTest(unittest.TestCase):
    """The faults of tools/gate/mutants.toml."""

    def test_every_part_of_the_gate_has_one(self):
        named = {n for n, each in mutants.load().items() if not each.tests}
        self.assertEqual(set(), parts.GATE.keys() - named)
        self.assertEqual(set(), named - parts.GATE.keys() - parts.FULL.keys())

    def test_each_fits_the_sources(self):
        for name, mutant in mutants.load().items():
            with self.subTest(name):
                text = (places.ROOT / mutant.file).read_text()
                self.assertEqual(1, text.count(mutant.old))
                self.assertNotEqual(mutant.old, mutant.new)
                re.compile(mutant.finds)
                for test in mutant.tests.split():
                    path, _, names = test.partition('.test_')
                    module = f'test_{names.partition(".")[0]}.py'
                    place = places.ROOT / path.replace('.', '/')
                    self.assertTrue((place / module).exists(), test)

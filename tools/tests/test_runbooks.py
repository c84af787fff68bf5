# SPDX-License-Identifier: Apache-2.0
"""The runbooks of the manual can be followed, as far as that needs no lab."""

import inspect
import re
import subprocess
import unittest

from tools.install import blocks, runbooks


class PageTest(unittest.TestCase):
    """Properties on which the program that follows the runbooks relies."""

    def setUp(self):
        super().setUp()
        self.blocks = blocks.read(runbooks.PAGE)

    def test_every_block_is_of_commands(self):
        for block in self.blocks:
            self.assertEqual('console', block.language, block.line)
            self.assertEqual(1, len(block.places), block.line)

    def test_every_section_is_followed(self):
        source = inspect.getsource(runbooks)
        titles = {block.section for block in self.blocks}
        self.assertEqual(5, len(titles))
        for title in titles:
            self.assertIn(f"'{title}'", source)

    def test_lines_to_adapt_are_there(self):
        lines = {
            command.text
            for block in self.blocks
            for command in block.commands()
        }
        adapted = re.findall(
            r"^ +'([^']+=[^']*|cd /root)': f'", inspect.getsource(runbooks),
            re.MULTILINE,
        )  # fmt: skip
        self.assertGreaterEqual(len(adapted), 3)
        for line in adapted:
            self.assertIn(line, lines)

    def test_every_service_gets_the_other_version(self):
        for title in ('Rolling upgrade', 'Roll-back'):
            restarted = [
                name
                for block in self.blocks
                for command in block.commands()
                if block.section == title
                and command.text.startswith('systemctl restart ')
                for name in command.text.split()[2:]
            ]
            self.assertCountEqual(runbooks.OURS, restarted, title)

    def test_bash_understands_them(self):
        for block in self.blocks:
            text = '\n'.join(command.text for command in block.commands())
            done = subprocess.run(
                ['bash', '-n'], input=text, text=True, check=False,
                capture_output=True,
            )  # fmt: skip
            self.assertEqual('', done.stderr, block.line)

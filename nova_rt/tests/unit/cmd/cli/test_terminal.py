# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.cli.terminal."""

import sys
import unicodedata

from oslotest import base

from nova_rt.cmd.cli import terminal


class EscapeTest(base.BaseTestCase):
    def test_texts(self):
        for text, expected in (
            ('', ''),
            ('plain 1/2 ~', 'plain 1/2 ~'),
            ('größer, 中', 'größer, 中'),
            ('\x1b[31mred\x1b[0m', '\\x1b[31mred\\x1b[0m'),
            ('a\nb\tc\rd\0', 'a\\x0ab\\x09c\\x0dd\\x00'),
            ('\x7f', '\\x7f'),
            # CSI in one character, on terminals that take C1.
            ('\x9b2J', '\\x9b2J'),
            # Right to left from here on: hides what is really there.
            ('\u202egnp.exe', '\\u202egnp.exe'),
            ('\u2028', '\\u2028'),
            # Looks like a space.
            ('\xa0', '\\xa0'),
            ('\ud800', '\\ud800'),
            ('\U000e0041', '\\U000e0041'),
        ):
            self.assertEqual(expected, terminal.escape(text))

    def test_every_character(self):
        """None comes through that a terminal acts upon."""
        everything = ''.join(map(chr, range(sys.maxunicode + 1)))
        left = {unicodedata.category(c) for c in terminal.escape(everything)}
        self.assertEqual(set(), {each for each in left if each[0] == 'C'})
        self.assertEqual(set(), left & {'Zl', 'Zp'})
        self.assertTrue(terminal.escape(everything).isprintable())

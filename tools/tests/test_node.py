# SPDX-License-Identifier: Apache-2.0
"""The choice of the lab's nodes."""

import pathlib
import tempfile
import unittest
from unittest import mock

from lab import node


class ChoiceTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.enterContext(
            mock.patch.object(node, 'own_release', return_value='12')
        )

    def test_long_form(self):
        for text, wanted in (
            ('hcbs', 'hcbs:12'),
            ('hcbs=2', 'hcbs:12,hcbs:12'),
            ('hcbs:13', 'hcbs:13'),
            ('hcbs,hcbs:13=2', 'hcbs:12,hcbs:13,hcbs:13'),
            ('stock,hcbs:13', 'stock:12,hcbs:13'),
        ):
            with self.subTest(text=text):
                self.assertEqual(wanted, node.parse(text))
                self.assertEqual(wanted, node.parse(node.parse(text)))

    def test_refused(self):
        for text in (
            '', 'hcbs=0', 'hcbs=5', 'hcbs=3,hcbs:13=2', 'hcbs:11', 'hcbs:',
            'hcbs=x', 'other', 'hcbs,', 'hcbs 2', 'stockhcbs',
        ):  # fmt: skip
            with self.subTest(text=text):
                self.assertRaises(ValueError, node.parse, text)

    def test_nodes(self):
        file = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()), 'choice'
        )
        self.enterContext(mock.patch.object(node, '_CHOICE', file))
        self.assertEqual([], node.nodes())
        file.write_text(node.parse('hcbs,stock:13'))
        first, other = node.nodes()
        self.assertEqual(('12', '13'), (first.release, other.release))
        self.assertEqual(('hcbs', 'stock'), (first.kind, other.kind))
        self.assertEqual('nova-rt-node', first.host)
        self.assertEqual('nova-rt-node-2', other.host)
        self.assertEqual(2, node.count(node.choice()))

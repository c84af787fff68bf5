# SPDX-License-Identifier: Apache-2.0
"""The choice of the lab's nodes."""

import pathlib
import tempfile
import unittest
from unittest import mock

from lab import __main__ as command
from lab import cloud, node, preflight, second


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


class DemoTest(unittest.TestCase):
    """``python -m lab demo`` gives a new lab the compute that it needs."""

    def setUp(self):
        super().setUp()
        for owner, name, value in (
            (node, 'own_release', '12'),
            (preflight, 'require_root', None),
        ):
            self.enterContext(
                mock.patch.object(owner, name, return_value=value)
            )

    def _lab(self, *arguments, computes=None, interface=True):
        with (
            mock.patch('sys.argv', ['lab', 'demo', *arguments]),
            mock.patch.object(second, 'computes', return_value=computes),
            mock.patch.object(
                preflight, 'has_interface', return_value=interface
            ),
            mock.patch.object(cloud, 'up_and_run', return_value=0) as run,
        ):
            self.assertEqual(0, command.main())
        ((module, arguments, *choice),) = (
            call.args for call in run.mock_calls
        )
        self.assertEqual(('lab', ['_demo']), (module, arguments))
        return choice

    def test_new_lab(self):
        self.assertEqual([None, None], self._lab())
        self.assertEqual([0, 'hcbs:12'], self._lab(interface=False))
        self.assertEqual(
            [0, 'hcbs:13'], self._lab('--node', 'hcbs:13', interface=False)
        )
        self.assertEqual([0, 'hcbs:12'], self._lab('--node', 'hcbs'))

    def test_lab_that_is_up(self):
        self.assertEqual([None, None], self._lab(computes=1, interface=False))
        self.assertEqual(
            [None, 'hcbs:12'], self._lab('--node', 'hcbs', computes=1)
        )

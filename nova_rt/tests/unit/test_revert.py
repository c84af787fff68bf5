# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.revert."""

import fixtures
from oslotest import base

from nova_rt import revert


class Fault(Exception):
    """The block fails."""


class OnErrorTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.undone = []

    def change(self, *steps, fails=True):
        with revert.on_error() as undo:
            for step in steps:
                undo.add(*step)
            if fails:
                raise Fault

    def test_the_last_step_first(self):
        steps = [(self.undone.append, number) for number in (1, 2, 3)]
        self.assertRaises(Fault, self.change, *steps)
        self.assertEqual([3, 2, 1], self.undone)

    def test_nothing_fails(self):
        self.change((self.undone.append, 1), fails=False)
        self.assertEqual([], self.undone)

    def test_a_way_back_that_fails(self):
        """The error of the block is raised, and the others are undone."""
        log = self.useFixture(fixtures.FakeLogger())
        self.assertRaises(
            Fault, self.change,
            (self.undone.append, 1), (self.undone.index, 7),
        )  # fmt: skip
        self.assertEqual([1], self.undone)
        self.assertIn('Could not undo a step', log.output)
        self.assertIn('ValueError', log.output)

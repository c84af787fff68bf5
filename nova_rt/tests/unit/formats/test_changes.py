# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.formats.changes."""

import dataclasses

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.formats.changes import Answer, Condition


@ddt.ddt
class AnswerTest(base.BaseTestCase):
    def test_round_trip(self):
        for answer in (
            Answer(Condition.APPLIED, actual='1400/2000'),
            Answer(Condition.DEFERRED, 'r', 600_000, 100_000, 'x', 'h'),
            Answer(Condition.INFEASIBLE, 'r', gone=True),
        ):
            found = dataclasses.asdict(answer)
            self.assertEqual(answer, Answer.read(found))
            # Of a newer host.
            self.assertEqual(answer, Answer.read(found | {'more': 1}))

    def test_the_least(self):
        self.assertEqual(
            Answer(Condition.APPLIED), Answer.read({'condition': 'Applied'})
        )

    @ddt.data(
        None,
        [],
        {},
        {'condition': 'Done'},
        {'condition': 1},
        {'condition': 'Applied', 'reason': None},
        {'condition': 'Applied', 'asked_ppm': '1'},
        {'condition': 'Applied', 'asked_ppm': -1},
        {'condition': 'Applied', 'free_ppm': 2**63},
        {'condition': 'Applied', 'gone': 1},
        {'condition': 'Applied', 'actual': 'x'},
        {'condition': 'Applied', 'actual': '2001/2000'},
        {'condition': 'Applied', 'host': 'a b'},
        {'condition': 'Applied', 'host': 'h' * 256},
    )
    def test_anything_else(self, found):
        self.assertRaises(exception.InvalidReport, Answer.read, found)

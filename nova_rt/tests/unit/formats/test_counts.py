# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.formats.counts."""

import json

import ddt
from oslotest import base

from nova_rt import events
from nova_rt.formats import counts
from nova_rt.formats.counts import Counts

UUID = 'd9bb2d4e-8b5f-4a9c-93f3-0c7a7a0d9a11'


@ddt.ddt
class CountsTest(base.BaseTestCase):
    def test_every_event_has_a_name(self):
        self.assertEqual(
            {
                'adapted', 'added', 'applied', 'boosted', 'changed', 'claimed',
                'drifted', 'dropped', 'frozen', 'promoted', 'refused',
                'released', 'repaired', 'stopped', 'unboosted', 'unverified',
            },
            set(counts.KINDS),
        )  # fmt: skip

    def test_round_trip(self):
        found = Counts()
        for event in (
            events.Stopped(UUID, 'x'),
            events.Refused(UUID, events.Action.CLAIM, 'x'),
            events.Refused(UUID, events.Action.CLAIM, 'x'),
            events.Refused(UUID, events.Action.MOVE, 'x'),
        ):
            found = found.add(event)
        read = Counts.decode(found.encode())
        self.assertEqual(1, read.by_kind['stopped'])
        self.assertEqual(3, read.by_kind['refused'])
        self.assertEqual(0, read.by_kind['claimed'])
        self.assertEqual((2, 1), (read.by_action['claim'],
                                  read.by_action['move']))  # fmt: skip
        self.assertEqual(read, Counts.decode(read.encode()))

    def test_sum(self):
        one = Counts().add(events.Stopped(UUID, 'x'))
        other = one.add(events.Refused(UUID, events.Action.MOVE, 'x'))
        self.assertEqual(
            Counts({'stopped': 2, 'refused': 1}, {'move': 1}), one.plus(other)
        )

    def test_adaptations(self):
        grown = counts.Adaptation.GROWN
        one = Counts(frozen=2).add_adaptation(grown)
        read = Counts.decode(one.encode())
        self.assertEqual((1, 0, 2), (
            read.by_adaptation['grown'], read.by_adaptation['shrunk'],
            read.frozen))  # fmt: skip
        # Of the present service: one that was restarted has frozen none.
        both = read.plus(Counts().add_adaptation(grown))
        self.assertEqual((2, 0), (both.by_adaptation['grown'], both.frozen))

    def test_options_of_the_host(self):
        old, new = Counts(host={'smt': False}), Counts(host={'smt': True})
        self.assertEqual(new.host, Counts.decode(new.encode()).host)
        self.assertEqual(new.host, new.plus(Counts()).host)
        self.assertEqual(new.host, old.plus(new).host)
        self.assertIsNone(Counts.decode(Counts().encode()).host)

    def test_names_that_nobody_knows_are_left_out(self):
        text = json.dumps(
            {'v': 1, 'events': {'a"}\n': 7, 'moved': 1}, 'refused': {'x': 1}}
        )
        found = Counts.decode(text)
        self.assertEqual(set(counts.KINDS), set(found.by_kind))
        self.assertEqual(set(counts.ACTIONS), set(found.by_action))

    @ddt.data(
        '', '[]', 'null', '{}', '{"v": 2, "events": {}, "refused": {}}',
        '{"v": 1, "events": {}}', '{"v": 1, "events": [], "refused": {}}',
        '{"v": 1, "events": {"claimed": -1}, "refused": {}}',
        '{"v": 1, "events": {"claimed": 1.5}, "refused": {}}',
        '{"v": 1, "events": {"claimed": true}, "refused": {}}',
        '{"v": 1, "events": {"claimed": NaN}, "refused": {}}',
        '{"v": 1, "events": {"claimed": 1e999}, "refused": {}}',
        '{"v": 1, "events": {"claimed": 9007199254740993}, "refused": {}}',
        '{"v": 1, "events": {"claimed": ' + '9' * 5000 + '}, "refused": {}}',
        '{"v": 1, "events": {}, "refused": {}, "host": 3}',
        '[' * 100_000,
    )  # fmt: skip
    def test_broken(self, text):
        self.assertRaises(ValueError, Counts.decode, text)

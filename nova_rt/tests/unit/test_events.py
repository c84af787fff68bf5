# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.events."""

import dataclasses
import threading

import fixtures
from oslotest import base

from nova_rt import events
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

STOPPED = events.Stopped('a', 'no reason')


class EventTest(base.BaseTestCase):
    def test_cannot_be_changed(self):
        self.assertRaises(
            dataclasses.FrozenInstanceError, setattr, STOPPED, 'uuid', 'b'
        )

    def test_every_event_has_a_server(self):
        for kind in events.TYPES:
            first = dataclasses.fields(kind)[0]
            self.assertEqual('uuid', first.name)

    def test_list_of_all(self):
        def leaves(kind):
            below = kind.__subclasses__()
            return set().union(*map(leaves, below)) if below else {kind}

        found = leaves(events.Event)
        self.assertEqual(found, set(events.TYPES))
        self.assertEqual(len(found), len(events.TYPES))

    def test_what_all_can_say(self):
        rec = Record(Request(Reservation(1400, 2000), 1), (3,))
        refused = events.Refused('a', events.Action.MOVE, 'never')
        for event, kind, held, details in (
            (events.Claimed('a', rec), 'claimed', rec, ''),
            (events.Drifted('a', rec, 'half'), 'drifted', rec, 'half'),
            (events.Repaired('a', rec, 'half'), 'repaired', rec, 'half'),
            (STOPPED, 'stopped', None, 'no reason'),
            (refused, 'refused', None, 'never'),
        ):
            with self.subTest(kind):
                self.assertEqual(kind, event.kind)
                self.assertEqual(held, event.held)
                self.assertEqual(details, event.details)

    def test_numbers_of_a_refusal_are_optional(self):
        refused = events.Refused('a', events.Action.MOVE, 'never')
        self.assertEqual((0, 0, ()), (
            refused.asked_ppm, refused.cpus, refused.free_ppm,
        ))  # fmt: skip


class SeamTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.dispatcher = events.Dispatcher()
        self.seen = []

    def broken(self, event):
        raise RuntimeError('listener is broken')

    def test_nobody_listens(self):
        self.dispatcher.emit(STOPPED)
        self.assertEqual(0, self.dispatcher.failures)

    def test_in_order(self):
        for name in 'abc':
            self.dispatcher.subscribe(
                lambda event, name=name: self.seen.append((name, event))
            )
        other = events.Stopped('b', 'no reason')
        self.dispatcher.emit(STOPPED)
        self.dispatcher.emit(other)
        self.assertEqual(
            [(name, event) for event in (STOPPED, other) for name in 'abc'],
            self.seen,
        )

    def test_one_that_raises_breaks_nobody(self):
        self.dispatcher.subscribe(self.broken)
        self.dispatcher.subscribe(self.seen.append)
        self.dispatcher.emit(STOPPED)
        self.dispatcher.emit(STOPPED)
        self.assertEqual([STOPPED, STOPPED], self.seen)
        self.assertEqual(2, self.dispatcher.failures)
        self.assertIn('listener is broken', self.log.output)
        self.assertIn('Stopped(uuid=', self.log.output)

    def test_subscribed_while_an_event_is_told(self):
        def subscribe(event):
            self.dispatcher.subscribe(self.seen.append)

        self.dispatcher.subscribe(subscribe)
        self.dispatcher.emit(STOPPED)
        self.assertEqual([], self.seen)
        self.dispatcher.emit(STOPPED)
        self.assertEqual([STOPPED], self.seen)

    def test_listener_that_emits(self):
        def repeat(event):
            if event is STOPPED:
                self.dispatcher.emit(events.Stopped('b', 'after a'))

        self.dispatcher.subscribe(repeat)
        self.dispatcher.subscribe(self.seen.append)
        self.dispatcher.emit(STOPPED)
        self.assertEqual(['b', 'a'], [event.uuid for event in self.seen])

    def test_many_threads(self):
        counter = events.Counter()
        self.dispatcher.subscribe(counter)
        self.dispatcher.subscribe(self.broken)
        start = threading.Barrier(8)

        def run():
            start.wait()
            for _ in range(200):
                self.dispatcher.emit(STOPPED)
                self.dispatcher.subscribe(lambda event: None)

        threads = [threading.Thread(target=run) for _ in range(8)]
        with fixtures.MonkeyPatch('nova_rt.events.LOG.exception', _ignore):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(1600, counter.get(events.Stopped))
        self.assertEqual(1600, self.dispatcher.failures)
        self.assertEqual(1602, len(self.dispatcher._listeners))


def _ignore(*args):
    """Do not log."""


class CounterTest(base.BaseTestCase):
    def test_by_type(self):
        counter = events.Counter()
        self.assertEqual(0, counter.get(events.Stopped))
        counter(STOPPED)
        counter(events.Stopped('b', 'no reason'))
        counter(events.Refused('a', events.Action.MOVE, 'never'))
        self.assertEqual(2, counter.get(events.Stopped))
        self.assertEqual(1, counter.get(events.Refused))
        self.assertEqual(0, counter.get(events.Repaired))

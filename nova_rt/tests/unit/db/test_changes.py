# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.changes."""

import dataclasses
import datetime

from nova_rt import exception
from nova_rt.db import changes
from nova_rt.formats.changes import Answer, Change, Condition, OnNoRoom
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures.history import MINUTE, NOW, make_uuid
from nova_rt.tests.unit.db import base

LEASE = datetime.timedelta(seconds=90)
APPLIED = Answer(Condition.APPLIED, host='a', actual='600/1000')
NO_ROOM = Answer(
    Condition.DEFERRED, 'no room', 600_000, 500_000, 'a rule', 'a'
)


def wish(number=1, *, runtime_us=600, host='a', at=NOW, generation=1):
    return Change(
        make_uuid(number), generation, Reservation(runtime_us, 1000), 7,
        OnNoRoom.DEFER, host, at, at, Answer(Condition.IN_PROGRESS, host=host),
    )  # fmt: skip


class ChangesTest(base.DatabaseTest):
    def take(self, now=NOW, freed=()):
        return [each.server for each in changes.take_due(now, LEASE, freed)]

    def test_a_life(self):
        change = wish()
        self.assertIsNone(changes.get(change.server))
        self.assertEqual(change, changes.ask(change, None))
        self.assertEqual(change, changes.get(change.server))
        taken = changes.take_due(NOW, LEASE)
        self.assertEqual([change], taken)
        changes.note(taken[0], NO_ROOM, NOW + MINUTE, MINUTE)
        found = changes.get(change.server)
        self.assertEqual((NO_ROOM, NOW + MINUTE), (found.answer, found.since))
        # The condition is the same.
        changes.note(found, NO_ROOM, NOW + 2 * MINUTE, MINUTE)
        self.assertEqual(NOW + MINUTE, changes.get(change.server).since)
        found = changes.get(change.server)
        changes.note(found, APPLIED, NOW + 3 * MINUTE, None)
        found = changes.get(change.server)
        self.assertEqual(
            (APPLIED, NOW + 3 * MINUTE), (found.answer, found.since)
        )
        self.assertEqual([], self.take(NOW + 999 * MINUTE))

    def test_clocks(self):
        """A new change is due for a conductor whose clock is behind."""
        changes.ask(wish(), None)
        changes.ask(wish(2), None)
        self.assertEqual(2, len(self.take(NOW - 9 * MINUTE)))
        changes.ask(wish(), None)
        self.assertEqual([make_uuid(1)], self.take(NOW - 9 * MINUTE))

    def test_since(self):
        """The time without a conductor is not the host's."""
        changes.ask(wish(), None)
        answer = Answer(Condition.IN_PROGRESS, 'a task')
        for minutes, since in (5, 5), (7, 5):
            now = NOW + minutes * MINUTE
            changes.note(changes.get(make_uuid(1)), answer, now, MINUTE)
            found = changes.get(make_uuid(1))
            self.assertEqual(NOW + since * MINUTE, found.since)

    def test_generations(self):
        first = changes.ask(wish(generation=5), None)
        self.assertEqual(5, first.generation)
        second = changes.ask(wish(generation=1, runtime_us=100), None)
        self.assertEqual(6, second.generation)
        # The answer to the first comes late.
        self.assertFalse(changes.note(first, APPLIED, NOW, None))
        self.assertEqual(second, changes.get(second.server))
        for known in (0, 5, 7):
            self.assertRaises(
                exception.GenerationConflict, changes.ask, wish(), known
            )
        self.assertEqual(7, changes.ask(wish(), 6).generation)

    def test_several(self):
        asked = [changes.ask(wish(number), None) for number in (1, 2)]
        self.assertEqual(
            {each.server: each for each in asked},
            changes.get_all([make_uuid(number) for number in (1, 2, 3)]),
        )
        self.assertEqual({}, changes.get_all([]))

    def test_open(self):
        asked = [changes.ask(wish(number), None) for number in (1, 2)]
        taken = changes.take_due(NOW, LEASE)
        changes.note(taken[0], Answer(Condition.APPLIED), NOW, None)
        self.assertEqual([asked[1].server], list(changes.get_open()))

    def test_two_writers(self):
        """Both have read the same: one of them changes nothing."""
        changes.ask(wish(), None)
        present = changes.get

        def read(server):
            found = present(server)
            # The other one comes in between.
            changes.get = present
            changes.ask(wish(runtime_us=100), None)
            return found

        self.addCleanup(setattr, changes, 'get', present)
        changes.get = read
        self.assertRaises(
            exception.GenerationConflict, changes.ask, wish(), None
        )
        found = present(make_uuid(1))
        self.assertEqual(
            (2, 100), (found.generation, found.desired.runtime_us)
        )

    def test_two_writers_one_after_another(self):
        """Each is told of its own change."""
        present = changes.get
        changes.ask(wish(), None)
        known = present(make_uuid(1))

        def read_late(server):
            # The other one has asked meanwhile.
            changes.get = present
            changes.ask(wish(runtime_us=100), None)
            return present(server)

        found = [lambda server: known, read_late]
        self.addCleanup(setattr, changes, 'get', present)
        changes.get = lambda server: found.pop(0)(server)
        asked = changes.ask(wish(), None)
        self.assertEqual(
            (2, 600), (asked.generation, asked.desired.runtime_us)
        )

    def test_two_first_writers(self):
        present = changes.get

        def read(server):
            changes.get = present
            changes.ask(wish(runtime_us=100, at=NOW - MINUTE), None)

        self.addCleanup(setattr, changes, 'get', present)
        changes.get = read
        self.assertRaises(
            exception.GenerationConflict, changes.ask, wish(), None
        )
        self.assertEqual(100, present(make_uuid(1)).desired.runtime_us)

    def test_oldest_first_and_once(self):
        for number, minutes in ((1, 2), (2, 0), (3, 1)):
            changes.ask(wish(number, at=NOW + minutes * MINUTE), None)
        now = NOW + 2 * MINUTE
        self.assertEqual([make_uuid(each) for each in (2, 3, 1)],
                         self.take(now))  # fmt: skip
        self.assertEqual([], self.take(now))
        # Who has taken them has died.
        self.assertEqual(3, len(self.take(now + LEASE)))

    def test_late_answers(self):
        """Only the one who has taken a change last may answer."""
        changes.ask(wish(), None)
        (first,) = changes.take_due(NOW, LEASE)
        (second,) = changes.take_due(NOW + LEASE, LEASE)
        now = NOW + LEASE
        self.assertFalse(changes.note(first, NO_ROOM, now, MINUTE))
        self.assertTrue(changes.note(second, APPLIED, now, None))
        for late in first, second:
            self.assertFalse(changes.note(late, NO_ROOM, now, MINUTE))
        # It was read after it had ended.
        ended = changes.get(first.server)
        self.assertIsNone(ended.due_at)
        self.assertFalse(changes.note(ended, NO_ROOM, now, MINUTE))
        self.assertEqual(APPLIED, changes.get(first.server).answer)
        self.assertEqual([], self.take(NOW + 999 * MINUTE))

    def test_renewed(self):
        changes.ask(wish(), None)
        (first,) = changes.take_due(NOW, LEASE)
        renewed = changes.renew(first, NOW + 2 * LEASE)
        self.assertEqual([], self.take(NOW + LEASE))
        self.assertIsNone(changes.renew(first, NOW + 9 * LEASE))
        self.assertEqual([make_uuid(1)], self.take(NOW + 2 * LEASE))
        self.assertIsNone(changes.renew(renewed, NOW + 9 * LEASE))

    def test_some_hosts(self):
        """Those that have waited for the longest time."""
        for number, host in enumerate('abcab'):
            changes.ask(
                wish(number, host=host, at=NOW - number * MINUTE), None
            )

        def take(**only):
            found = changes.take_due(NOW, LEASE, **only)
            return [each.host for each in found]

        self.assertEqual(['c'], take(busy={'a', 'b'}))
        self.assertEqual(['b', 'b'], take(most_hosts=1))
        self.assertEqual([], take(most_hosts=0))
        self.assertEqual(['a', 'a'], take())

    def test_moves(self):
        """Of two conductors, one notes a move."""
        changes.ask(wish(), None)
        (first,) = changes.take_due(NOW, LEASE)
        self.assertTrue(changes.note_move(first, '', ''))
        # It had read that no move was asked for.
        self.assertFalse(changes.note_move(first, 'req-create', ''))
        begun = dataclasses.replace(first, moved_after='')
        self.assertTrue(changes.note_move(begun, '', 'req-move'))
        self.assertFalse(changes.note_move(begun, None, ''))
        found = changes.get(first.server)
        self.assertEqual(('', 'req-move'), (found.moved_after, found.moved_by))
        (second,) = changes.take_due(NOW + LEASE, LEASE)
        held = dataclasses.replace(second, due_at=first.due_at)
        self.assertFalse(changes.note_move(held, None, ''))
        self.assertTrue(changes.note_move(second, None, ''))

    def test_freed(self):
        for number, host in ((1, 'a'), (2, 'b'), (3, 'a')):
            change = wish(number, host=host)
            change = changes.ask(change, None)
            answer = dataclasses.replace(NO_ROOM, host=host)
            if number == 3:
                answer = dataclasses.replace(APPLIED, host=host)
            changes.note(change, answer, NOW, MINUTE if number < 3 else None)
        self.assertEqual([], self.take())
        self.assertEqual([make_uuid(1)], self.take(freed={'a', 'c'}))
        self.assertEqual([make_uuid(2)], self.take(NOW + MINUTE))

    def test_host(self):
        changes.ask(wish(), None)
        changes.note_host(make_uuid(1), 'b')
        changes.note_host(make_uuid(2), 'b')
        self.assertEqual('b', changes.get(make_uuid(1)).host)
        # An answer that names none leaves it.
        answer = Answer(Condition.IN_PROGRESS, 'no answer')
        changes.note(changes.get(make_uuid(1)), answer, NOW, MINUTE)
        self.assertEqual('b', changes.get(make_uuid(1)).host)

    def test_gone(self):
        changes.ask(wish(), None)
        answer = Answer(Condition.INFEASIBLE, 'gone', gone=True)
        changes.note(wish(generation=9), answer, NOW, None)
        self.assertIsNotNone(changes.get(make_uuid(1)))
        changes.note(wish(), answer, NOW, None)
        self.assertIsNone(changes.get(make_uuid(1)))

    def test_purge(self):
        """Those that have not ended stay, however old."""
        asked = [changes.ask(wish(number), None) for number in (1, 2, 3)]
        changes.note(asked[0], APPLIED, NOW, None)
        changes.note(asked[1], APPLIED, NOW + MINUTE, None)
        self.assertEqual(0, changes.purge(NOW))
        self.assertEqual(1, changes.purge(NOW + MINUTE))
        self.assertIsNone(changes.get(make_uuid(1)))
        self.assertEqual(1, changes.purge(NOW + 9 * MINUTE))
        self.assertIsNotNone(changes.get(make_uuid(3)))

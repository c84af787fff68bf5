# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conductor.moves."""

import dataclasses
import datetime
from unittest import mock

from nova_rt import exception
from nova_rt.conductor import moves
from nova_rt.conductor.nova_api import (
    Action,
    Gone,
    NoAnswer,
    NotNow,
    Refused,
    Server,
)
from nova_rt.db import changes as db
from nova_rt.formats.changes import Answer, Condition, OnNoRoom
from nova_rt.tests.fixtures.history import make_uuid
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.test_changes import APPLIED, NO_ROOM, wish

BUSY = Answer(Condition.IN_PROGRESS, 'a task')
GONE = Answer(Condition.INFEASIBLE, 'there is no such server', gone=True)
CREATE = Action('create', 'req-create', 'owner', False)
MOVE = Action('migrate', 'req-move', 'us', False)
FAILED = dataclasses.replace(MOVE, failed=True)
REVERT = Action('revertResize', 'req-revert', 'owner', False)
RESIZE = Action('resize', 'req-resize', 'owner', False)
OTHERS = Action('migrate', 'req-other', 'operator', False)


class Nova:
    """Nova with one server.

    :ivar actions: the latest first
    :ivar done: requests that change something
    :ivar error: raised by those instead
    """

    user = 'us'

    def __init__(self):
        self.actions = [CREATE]
        self.server = Server('a', False, True)
        self.done = []
        self.error = None

    def list_actions(self, server):
        return list(self.actions)

    def find_reason(self, server, request):
        return f'No valid host was found for {request}'

    def find_server(self, server):
        if self.server is None:
            raise Gone('there is none')
        return self.server

    def migrate(self, server):
        self._do('migrate')
        self.actions.insert(0, MOVE)
        self.server = Server('a', False, False)

    def confirm(self, server):
        self._do('confirm')

    def _do(self, what):
        self.done.append(what)
        if self.error is not None:
            raise self.error


class MovesTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        self.nova = Nova()
        self.asked = []
        self.final = NO_ROOM
        self.moves = moves.Moves(self.ask, self.nova)
        self.wished(OnNoRoom.MIGRATE)

    def wished(self, on_no_room):
        db.ask(dataclasses.replace(wish(), on_no_room=on_no_room), None)

    def ask(self, change):
        self.asked.append(change.on_no_room)
        return self.final

    def change(self):
        return db.get(make_uuid(1))

    def follow(self, answer):
        return self.moves.follow(self.change(), answer)

    def assert_ended(self, text, answer):
        """The host was told that the server does not move."""
        self.assertEqual(
            (Condition.INFEASIBLE, 600_000, 500_000),
            (answer.condition, answer.asked_ppm, answer.free_ppm),
        )
        self.assertIn(text, answer.reason)
        self.assertIn(NO_ROOM.reason, answer.reason)
        self.assertEqual([OnNoRoom.FAIL], self.asked)

    def begin(self):
        answer = self.follow(NO_ROOM)
        self.assertEqual(Condition.IN_PROGRESS, answer.condition)
        self.assertEqual(['migrate'], self.nova.done)
        self.nova.done.clear()
        return answer

    def test_a_move(self):
        answer = self.begin()
        self.assertEqual('migrating from a', answer.reason)
        self.assertEqual(600_000, answer.asked_ppm)
        change = self.change()
        self.assertEqual(
            ('req-create', 'req-move'), (change.moved_after, change.moved_by)
        )
        self.assertIn('migrating', self.follow(BUSY).reason)
        self.nova.server = Server('b', True, True)
        self.assertIn('confirming', self.follow(BUSY).reason)
        self.assertEqual(['confirm'], self.nova.done)
        self.assertEqual(APPLIED, self.follow(APPLIED))
        self.assertEqual([], self.asked)

    def test_not_for_others(self):
        self.assertEqual(BUSY, self.follow(BUSY))
        self.assertEqual(GONE, self.follow(GONE))
        for on_no_room in OnNoRoom.FAIL, OnNoRoom.DEFER:
            self.wished(on_no_room)
            self.assertEqual(NO_ROOM, self.follow(NO_ROOM))
        self.assertEqual([], self.nova.done)
        self.assertIsNone(self.change().moved_after)

    def test_the_answer_was_lost(self):
        """The move is found by its user."""
        self.nova.error = NoAnswer('away')
        self.assertEqual('away', self.follow(NO_ROOM).reason)
        self.nova.error = None
        self.nova.actions[:0] = [OTHERS, MOVE]
        self.nova.server = Server('a', False, False)
        self.assertIn('migrating', self.follow(NO_ROOM).reason)
        self.assertEqual('req-move', self.change().moved_by)
        self.assertEqual(['migrate'], self.nova.done)

    def test_earlier_moves_are_not_ours(self):
        self.nova.actions.insert(0, MOVE)
        again = dataclasses.replace(MOVE, request='req-again')
        self.nova.migrate = lambda server: self.nova.actions.insert(0, again)
        self.follow(NO_ROOM)
        change = self.change()
        self.assertEqual(
            ('req-move', 'req-again'), (change.moved_after, change.moved_by)
        )

    def test_moves_of_others(self):
        """They are waited for, and not confirmed."""
        self.nova.error = NoAnswer('a fault')
        self.follow(NO_ROOM)
        self.nova.actions.insert(0, OTHERS)
        self.nova.server = Server('b', True, True)
        self.assertEqual(BUSY, self.follow(BUSY))
        self.assertEqual(['migrate'], self.nova.done)

    def test_later(self):
        """A move that has begun: its end, or that of its change."""
        self.begin()
        here, there = Server('a', False, True), Server('b', False, True)
        waiting = Server('b', True, True)
        lost = 'not its migration any more, request req-move'
        for actions, server, answer, text in (
            ([FAILED, CREATE], here, NO_ROOM, 'No valid host'),
            ([REVERT, FAILED, CREATE], here, NO_ROOM, 'was reverted'),
            ([MOVE, CREATE], there, NO_ROOM, 'once already'),
            # Nova has forgotten the move: there is no second one.
            ([RESIZE, CREATE], there, NO_ROOM, lost),
            ([], there, NO_ROOM, f'server {make_uuid(1)}, and {lost}'),
            # The host says what hinders it; nobody moves the server again.
            ([MOVE, CREATE], there, BUSY, None),
            # Others have resized it.
            ([RESIZE, MOVE, CREATE], waiting, BUSY, None),
        ):
            self.nova.actions, self.nova.server = actions, server
            found = self.follow(answer)
            if text is None:
                self.assertEqual(answer, found)
                self.assertEqual([], self.asked)
            else:
                self.assert_ended(text, found)
                self.asked.clear()
            self.assertEqual([], self.nova.done)
        # No host is large enough.
        self.nova.actions, self.nova.server = [FAILED, CREATE], here
        self.final = dataclasses.replace(
            NO_ROOM, condition=Condition.INFEASIBLE
        )
        self.assert_ended('No valid host', self.follow(NO_ROOM))
        # Asked for the last time, it has room.
        for self.final in APPLIED, BUSY, GONE:
            self.assertEqual(self.final, self.follow(NO_ROOM))

    def test_deleted_and_its_host_is_dead(self):
        """The change ends before its move, during it and after a purge."""
        silence = Answer(Condition.IN_PROGRESS, 'no answer')
        self.nova.error = NoAnswer('a fault')
        self.follow(NO_ROOM)
        self.nova.error = None
        self.nova.done.clear()
        self.assertEqual(silence, self.follow(silence))
        server = self.nova.server
        for begin in False, True:
            if begin:
                self.begin()
            self.nova.server = None
            found = self.follow(silence)
            self.assertEqual(
                (Condition.INFEASIBLE, 'there is none', True),
                (found.condition, found.reason, found.gone),
            )
            self.nova.server = server
        self.nova.list_actions = mock.Mock(side_effect=Gone('there is none'))
        self.assertTrue(self.follow(silence).gone)
        self.assertEqual([], self.asked)
        # If its host has it, the credentials do not suffice.
        self.assert_ended('there is none', self.follow(NO_ROOM))

    def test_purged_while_moving(self):
        """The host may have its wish yet."""
        self.begin()
        self.nova.actions = []
        self.nova.server = Server('b', True, True)
        self.final = BUSY
        self.assertEqual(BUSY, self.follow(BUSY))
        self.assertEqual([OnNoRoom.FAIL], self.asked)
        self.assertEqual([], self.nova.done)

    def test_locked(self):
        """It is tried again, and may be withdrawn."""
        self.nova.error = NotNow('the server is locked')
        answer = self.follow(NO_ROOM)
        self.assertEqual(
            (Condition.IN_PROGRESS, 'the server is locked'),
            (answer.condition, answer.reason),
        )
        self.assertIsNone(self.change().moved_after)
        self.wished(OnNoRoom.MIGRATE)
        self.nova.error = None
        self.nova.done.clear()
        self.begin()

    def test_two_conductors(self):
        """The slower one finds the move of the faster one."""

        def migrate(server):
            self.nova.actions.insert(0, MOVE)
            raise NotNow('it has a task')

        self.nova.migrate = migrate
        self.assertIn('migrating', self.follow(NO_ROOM).reason)
        self.assertEqual('req-move', self.change().moved_by)

    def test_taken_by_another(self):
        """It asks for no move, and forgets none that is not listed yet."""

        def take():
            due = self.change().due_at
            db.take_due(due, datetime.timedelta(seconds=90))

        list_actions, migrate = self.nova.list_actions, self.nova.migrate
        self.nova.list_actions = lambda server: take() or [CREATE]
        self.assertEqual(NO_ROOM, self.follow(NO_ROOM))
        self.assertEqual([], self.nova.done)
        self.assertIsNone(self.change().moved_after)

        self.nova.list_actions = list_actions
        older = self.change()
        db.note_move(older, 'req-create', '')
        older = self.change()
        take()
        self.assertEqual(NO_ROOM, self.moves.follow(older, NO_ROOM))
        self.assertEqual([], self.nova.done)

        def refuse(server):
            # The other one is faster; its migration is not listed yet.
            take()
            raise NotNow('it has a task')

        self.nova.migrate = refuse
        self.assertEqual(NO_ROOM, self.follow(NO_ROOM))
        self.assertEqual('req-create', self.change().moved_after)
        self.nova.migrate = migrate
        self.begin()

    def test_refused(self):
        self.nova.error = Refused('Nova: not allowed')
        self.assert_ended('not allowed', self.follow(NO_ROOM))

    def test_confirmed_by_others(self):
        self.begin()
        self.nova.server = Server('b', True, True)
        self.nova.error = Refused('it has not been resized')
        answer = self.follow(BUSY)
        self.assertEqual(Condition.IN_PROGRESS, answer.condition)
        self.assertIn('not been resized', answer.reason)

    def test_no_credentials(self):
        self.moves = moves.Moves(self.ask, None)
        self.assert_ended('auth_type', self.follow(NO_ROOM))
        self.assertEqual(BUSY, self.follow(BUSY))

    def test_replaced(self):
        """A newer change is not possible while it may be moving."""
        older = self.change()
        self.wished(OnNoRoom.DEFER)
        self.assertEqual(NO_ROOM, self.moves.follow(older, NO_ROOM))
        self.assertEqual([], self.nova.done)
        self.wished(OnNoRoom.MIGRATE)
        before = self.change()
        self.begin()
        with mock.patch.object(db, 'get', return_value=before):
            # The move was stored after it was read.
            self.assertRaises(
                exception.GenerationConflict, self.wished, OnNoRoom.FAIL
            )
        self.assertRaises(exception.BeingMoved, self.wished, OnNoRoom.FAIL)
        db.note(self.change(), APPLIED, self.change().asked_at, None)
        self.wished(OnNoRoom.FAIL)
        change = self.change()
        self.assertEqual((None, ''), (change.moved_after, change.moved_by))

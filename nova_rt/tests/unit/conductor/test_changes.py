# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conductor.changes."""

import dataclasses
import datetime
import threading
from unittest import mock

import fixtures
import kombu.exceptions
import oslo_messaging
import prometheus_client
import sqlalchemy as sa

from nova_rt.conductor import changes
from nova_rt.db import changes as db
from nova_rt.formats.changes import Answer, Condition, OnNoRoom
from nova_rt.tests.fixtures import conductor
from nova_rt.tests.fixtures.history import DAY, MINUTE, NOW, make_uuid
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.test_changes import APPLIED, NO_ROOM, wish

SECOND = datetime.timedelta(seconds=1)


class ChangesTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        self.now = NOW
        self.asked = []
        self.answers = {}
        self.changes = changes.Changes(self.ask, lambda: self.now)

    def ask(self, change):
        self.asked.append(change.server)
        applied = dataclasses.replace(APPLIED, host=change.host)
        return self.answers.get(change.server, applied)

    def take(self, *freed):
        for thread in self.changes.take(set(freed)):
            thread.join(60)
        asked, self.asked = self.asked, []
        return asked

    def state(self, number=1):
        return db.get(make_uuid(number)).answer.condition

    def counted(self, result):
        found = prometheus_client.REGISTRY.get_sample_value(
            'nova_rt_conductor_changes_total', {'result': result}
        )
        return found or 0

    def test_applied(self):
        before = self.counted('Applied')
        db.ask(wish(), None)
        self.assertEqual([make_uuid(1)], self.take())
        self.assertEqual(Condition.APPLIED, self.state())
        self.assertEqual([], self.take())
        self.assertEqual(before + 1, self.counted('Applied'))

    def test_taken_by_another(self):
        """An answer that comes too late is neither stored nor counted."""
        before = self.counted('Infeasible')
        db.ask(wish(), None)

        def ask(change):
            self.now += changes.LEASE_S * SECOND
            (taken,) = db.take_due(self.now, MINUTE)
            db.note(taken, APPLIED, self.now, None)
            return Answer(Condition.INFEASIBLE, 'it has no room')

        self.changes._ask = ask
        self.take()
        self.assertEqual(Condition.APPLIED, self.state())
        self.assertEqual(before, self.counted('Infeasible'))

    def test_silence(self):
        """A host that does not answer is not asked for its other changes."""
        for number in (1, 2, 3):
            db.ask(wish(number, host='ab'[number // 3]), None)
        silence = changes.Silence(Condition.IN_PROGRESS, 'no answer')
        self.answers[make_uuid(1)] = silence
        self.assertEqual({make_uuid(1), make_uuid(3)}, set(self.take()))
        for number in (1, 2):
            self.assertEqual(
                'no answer', db.get(make_uuid(number)).answer.reason
            )
        self.assertEqual(Condition.APPLIED, self.state(3))
        self.answers.clear()
        self.now += changes.AGAIN_S * SECOND
        self.assertEqual([make_uuid(1), make_uuid(2)], self.take())
        self.assertEqual(Condition.APPLIED, self.state(2))

    def test_slow_answers(self):
        """Others take those that wait for too long, not the one asked for."""
        for number in (1, 2, 3):
            db.ask(wish(number, at=NOW - (9 - number) * SECOND), None)
        others = []

        def ask(change):
            self.asked.append(change.server)
            self.now += changes.TIMEOUT_S * SECOND
            found = db.take_due(self.now, MINUTE)
            others.extend(each.server for each in found)
            return APPLIED

        self.changes._ask = ask
        self.assertEqual([make_uuid(1), make_uuid(2)], self.take())
        self.assertEqual([make_uuid(3)], others)
        self.assertEqual(Condition.APPLIED, self.state(2))

    def block(self, *hosts):
        """Let requests to hosts wait until the returned event."""
        over = threading.Event()
        self.addCleanup(over.set)

        def ask(change):
            if change.host in hosts:
                over.wait(60)
            return self.ask(change)

        self.changes._ask = ask
        return over

    def test_busy_host(self):
        """It has one thread, and is looked at again when that ends."""
        over = self.block('a')
        for number in (1, 2):
            db.ask(wish(number), None)
        (thread,) = self.changes.take(set())
        # Its lease ends, new changes come, and so do events.
        self.now += changes.LEASE_S * SECOND
        db.ask(wish(3), None)
        db.ask(wish(4, host='b'), None)
        self.assertEqual([make_uuid(4)], self.take('a'))
        self.assertEqual({'a'}, self.changes._freed)
        self.changes._awake = False
        over.set()
        thread.join(60)
        self.assertTrue(self.changes._awake)
        self.asked.clear()
        self.assertIn(make_uuid(3), self.take('a'))

    def test_no_thread_left(self):
        """It waits for none, and leaves changes to other workers."""
        over = self.block('a')
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.changes.THREADS', 1)
        )
        for number, host in enumerate('abc'):
            db.ask(wish(number, host=host), None)
        (thread,) = self.changes.take(set())
        self.assertEqual([], self.take('b'))
        self.assertEqual({'b'}, self.changes._freed)
        self.assertLess(db.get(make_uuid(1)).due_at, NOW)
        over.set()
        thread.join(60)
        self.asked.clear()
        self.assertEqual(2, len(self.take('b') + self.take()))

    def test_in_progress(self):
        """It is asked again, with the same generation."""
        db.ask(wish(), None)
        self.answers[make_uuid(1)] = Answer(Condition.IN_PROGRESS, 'a task')
        self.assertEqual([make_uuid(1)], self.take())
        self.assertEqual([], self.take())
        self.now += changes.AGAIN_S * SECOND
        del self.answers[make_uuid(1)]
        self.assertEqual([make_uuid(1)], self.take())
        self.assertEqual(Condition.APPLIED, self.state())

    def try_for(self, time):
        """Try a change until a time has passed.

        :returns: the seconds between two attempts
        """
        pauses = []
        end = self.now + time
        while self.now < end and self.take():
            due = db.get(make_uuid(1)).due_at or end
            pauses.append((due - self.now).total_seconds())
            self.now = due
        return pauses

    def test_pauses(self):
        """It is tried less and less often, and at last no more."""
        db.ask(wish(), None)
        # No conductor was there.
        self.now += 9 * DAY
        self.answers[make_uuid(1)] = Answer(Condition.IN_PROGRESS, 'a task')
        pauses = self.try_for(DAY + MINUTE * 20)
        self.assertEqual([10] * 11, pauses[:11])
        self.assertEqual(sorted(pauses[:-1]), pauses[:-1])
        self.assertEqual(600, pauses[-2])
        found = db.get(make_uuid(1))
        self.assertEqual(
            (Condition.INFEASIBLE, 'a task', None),
            (found.answer.condition, found.answer.reason, found.due_at),
        )
        self.assertLess(DAY, found.since - NOW - 9 * DAY)

    def test_moves_do_not_end(self):
        """They are followed at the same pace, unless their host is away."""
        change = dataclasses.replace(
            wish(), on_no_room=OnNoRoom.MIGRATE, moved_after='req-create'
        )
        db.ask(change, None)
        self.useFixture(
            fixtures.MockPatchObject(
                self.changes._moves, 'follow', lambda change, answer: answer
            )
        )
        busy = Answer(Condition.IN_PROGRESS, 'a task')
        self.answers[make_uuid(1)] = busy
        self.take()
        self.now += 2 * DAY
        self.take()
        self.assertEqual(
            changes.AGAIN_S * SECOND, db.get(make_uuid(1)).due_at - self.now
        )
        self.answers[make_uuid(1)] = changes.Silence(**vars(busy))
        self.now += MINUTE
        self.take()
        found = db.get(make_uuid(1))
        self.assertEqual(
            changes.MOST_AGAIN_S * SECOND, found.due_at - self.now
        )
        self.assertEqual(Condition.IN_PROGRESS, found.answer.condition)

    def test_moved_at_last(self):
        """Its new host is asked, however long the old one was away."""
        db.ask(wish(), None)
        self.answers[make_uuid(1)] = Answer(Condition.IN_PROGRESS, 'a task')
        self.take()
        self.now += 2 * DAY
        self.answers[make_uuid(1)] = Answer(
            Condition.IN_PROGRESS, 'the server has moved', host='b'
        )
        self.take()
        self.assertEqual(Condition.IN_PROGRESS, self.state())
        del self.answers[make_uuid(1)]
        self.take()
        self.assertEqual(Condition.APPLIED, self.state())

    def test_deferred(self):
        """Room on its host, or the time, makes it due; the oldest first."""
        for number in (2, 1):
            change = wish(number, at=NOW + number * SECOND)
            db.ask(change, None)
            self.answers[change.server] = NO_ROOM
        self.now += MINUTE
        both = [make_uuid(1), make_uuid(2)]
        self.assertEqual(both, self.take())
        self.assertEqual([], self.take('b'))
        self.assertEqual(both, self.take('a'))
        self.now += changes.DEFERRED_S * SECOND
        self.answers.clear()
        self.assertEqual(both, self.take())
        self.assertEqual(Condition.APPLIED, self.state(2))

    def test_fail(self):
        change = wish()
        object.__setattr__(change, 'on_no_room', OnNoRoom.FAIL)
        db.ask(change, None)
        self.answers[make_uuid(1)] = NO_ROOM
        self.take()
        answer = db.get(make_uuid(1)).answer
        self.assertEqual(
            (Condition.INFEASIBLE, 600_000, 500_000, 'a rule'),
            (answer.condition, answer.asked_ppm, answer.free_ppm, answer.rule),
        )
        self.assertEqual([], self.take('a'))

    def test_moved(self):
        db.ask(wish(), None)
        self.answers[make_uuid(1)] = Answer(Condition.IN_PROGRESS, host='b')
        self.take()
        self.assertEqual('b', db.get(make_uuid(1)).host)
        # At once.
        self.assertEqual([make_uuid(1)], self.take())

    def test_events(self):
        db.ask(wish(), None)
        self.changes.note('applied', make_uuid(1), 'b')
        self.assertEqual('b', db.get(make_uuid(1)).host)
        self.assertFalse(self.changes._awake)
        for kind in ('released', 'dropped', 'changed'):
            self.changes._freed.clear()
            self.changes.note(kind, make_uuid(2), 'c')
            self.assertEqual({'c'}, self.changes._freed)
        self.assertTrue(self.changes._awake)

    def test_no_database(self):
        """Hosts with more room are not forgotten; one error is logged."""
        log = self.useFixture(fixtures.FakeLogger())
        error = sa.exc.OperationalError('', {}, Exception('away'))
        with mock.patch.object(db, 'take_due', side_effect=error):
            for _ in range(2):
                self.assertEqual([], self.take('a'))
        self.assertEqual({'a'}, self.changes._freed)
        self.assertEqual(1, log.output.count('Changes of reservations wait'))
        db.ask(wish(), None)
        with mock.patch.object(db, 'note', side_effect=error):
            self.take()
        # The lease runs out.
        self.now += changes.LEASE_S * SECOND
        self.assertEqual([make_uuid(1)], self.take())
        self.assertEqual(Condition.APPLIED, self.state())

    def test_run(self):
        db.ask(wish(), None)
        asked = []

        def ask(change):
            asked.append(change.server)
            self.changes.stop()
            return APPLIED

        self.changes._ask = ask
        self.changes.wake()
        self.changes.run()
        # Nothing is begun after it was stopped.
        self.changes._work('a', [wish()])
        self.assertEqual([make_uuid(1)], asked)


class HostsTest(base.DatabaseTest):
    """The RPC, on a bus in this process."""

    def setUp(self):
        super().setUp()
        self.bus = self.useFixture(conductor.Bus())
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.changes.TIMEOUT_S', 1)
        )
        self.hosts = changes.Hosts(self.bus.conf)

    def serve(self, found):
        class Endpoint:
            target = oslo_messaging.Target(namespace='nova_rt', version='1.0')
            asked = []

            def change_reservation(self, context, **arguments):
                self.asked.append(arguments)
                return found

        server = oslo_messaging.get_rpc_server(
            oslo_messaging.get_rpc_transport(self.bus.conf),
            oslo_messaging.Target(topic='compute', server='a'),
            [Endpoint()], executor='threading',
        )  # fmt: skip
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)
        return Endpoint.asked

    def test_answer(self):
        asked = self.serve({'condition': 'Applied', 'actual': '600/1000'})
        self.assertEqual(
            Answer(Condition.APPLIED, actual='600/1000'),
            self.hosts.ask(wish()),
        )
        self.assertEqual(
            [{'server': make_uuid(1), 'generation': 1, 'flavor': 7,
              'reservation': '600/1000'}],
            asked,
        )  # fmt: skip

    def test_no_answer(self):
        answer = self.hosts.ask(wish())
        self.assertIsInstance(answer, changes.Silence)
        self.assertEqual(Condition.IN_PROGRESS, answer.condition)
        self.assertIn('no answer of nova-rt-compute on a', answer.reason)

    def test_an_answer_that_cannot_be_read(self):
        for found in {'condition': 'Done'}, ['Applied'], 5:
            with mock.patch.object(
                oslo_messaging.RPCClient, 'prepare'
            ) as prepare:
                prepare.return_value.call.return_value = found
                answer = self.hosts.ask(wish())
            self.assertNotIsInstance(answer, changes.Silence)
            self.assertEqual(Condition.IN_PROGRESS, answer.condition)
            self.assertIn('no answer of nova-rt-compute', answer.reason)

    def test_no_message_bus(self):
        """The errors of its client come through oslo.messaging."""
        with mock.patch.object(oslo_messaging.RPCClient, 'prepare') as prepare:
            call = prepare.return_value.call
            call.side_effect = kombu.exceptions.OperationalError('refused')
            answer = self.hosts.ask(wish())
        self.assertIsInstance(answer, changes.Silence)
        self.assertIn('refused', answer.reason)

    def test_cells(self):
        """Each host is asked on its message bus."""
        buses = {'a': 'fake:/1', 'b': 'fake:/2', 'c': 'fake:/2'}
        hosts = changes.Hosts(self.bus.conf, buses.__getitem__)
        with mock.patch.object(
            oslo_messaging,
            'get_rpc_transport',
            wraps=oslo_messaging.get_rpc_transport,
        ) as opened:
            self.serve({'condition': 'Applied'})
            opened.reset_mock()
            self.assertEqual(Condition.APPLIED, hosts.ask(wish()).condition)
            for host in 'bca':
                hosts.ask(wish(host=host))
        self.assertEqual(
            [mock.call(self.bus.conf, url=f'fake:/{bus}') for bus in (1, 2)],
            opened.call_args_list,
        )

    def test_unknown_bus(self):
        def find(host):
            raise ValueError('the database does not answer')

        answer = changes.Hosts(self.bus.conf, find).ask(wish())
        self.assertIsInstance(answer, changes.Silence)
        self.assertIn('the database does not answer', answer.reason)

    def test_exchange(self):
        """It is Nova's, unless another is set."""
        self.assertEqual('nova', self.bus.conf.control_exchange)

# SPDX-License-Identifier: Apache-2.0
"""Databases that are slow, full, read-only or gone, and events in crowds."""

import concurrent.futures
import dataclasses
import logging
import signal
import threading
import time
from unittest import mock

import fixtures
from oslo_messaging import NotificationResult
import sqlalchemy as sa

from nova_rt import exception
from nova_rt.conductor import manager, metrics
from nova_rt.db import api, models, retention, session
from nova_rt.tests.fixtures import database
from nova_rt.tests.fixtures.history import (
    DAY,
    MINUTE,
    NOW,
    UUID,
    event,
    make_uuid,
    take,
    trust_clock,
)
from nova_rt.tests.unit.db import base

EVENTS = [
    event(1, 'claimed'), event(2, 'applied'), event(3, 'drifted'),
    event(4, 'repaired'),
]  # fmt: skip


def count():
    try:
        return len(api.get_history(UUID))
    except exception.ServerNotFound:
        return 0


def in_crowd(*tasks):
    """Run functions at once, each in a thread; raises what they raise."""
    barrier = threading.Barrier(len(tasks))

    def run(task):
        barrier.wait(30)
        return task()

    with concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(run, tasks))


class CrowdTests:
    """Several conductors at once; each class below is a kind of server."""

    def test_events_of_one_server(self):
        """Everything at once, by several, in no order, more than once."""
        in_crowd(
            *(
                lambda each=each: api.add_event(each, NOW)
                for each in EVENTS * 3
            )
        )
        self.assertEqual(EVENTS[::-1], api.get_history(UUID))

    def test_events_of_many_hosts(self):
        def add(number):
            for turn in range(20):
                made = dataclasses.replace(
                    EVENTS[0], id=make_uuid(1000 * number + turn),
                    server=make_uuid(turn), host=f'host{number}',
                )  # fmt: skip
                api.add_event(made, NOW)

        in_crowd(*(lambda n=n: add(n) for n in range(8)))
        for turn in range(20):
            hosts = {each.host for each in api.get_history(make_uuid(turn))}
            self.assertEqual(8, len(hosts))

    def test_upkeep_beside_events(self):
        """Purging three times at once, while events come."""
        trust_clock(self)
        self.useFixture(fixtures.MonkeyPatch('nova_rt.db.retention.STEP', 9))
        for number in range(100):
            api.add_event(event(number, 'applied'), NOW)
        stop = threading.Event()
        added = []

        def keep_adding():
            while not stop.is_set():
                number = 100 + len(added)
                api.add_event(event(number, 'applied'), NOW + 2 * DAY)
                added.append(number)

        writer = threading.Thread(target=keep_adding)
        writer.start()
        try:
            in_crowd(*[lambda: list(api.purge(NOW + 2 * DAY, DAY))] * 3)
        finally:
            stop.set()
            writer.join()
        self.assertEqual(len(added), count())


class MariaDBCrowdTest(CrowdTests, base.DatabaseTest):
    server_class = database.MariaDB


class PostgreSQLCrowdTest(CrowdTests, base.DatabaseTest):
    server_class = database.PostgreSQL


class FaultTests:
    """A conductor whose database fails."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        quiet = logging.getLogger('oslo_db.sqlalchemy.exc_filters')
        self.addCleanup(quiet.setLevel, quiet.level)
        manager.quieten()
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.manager.PAUSE_S', 0.1)
        )
        self.events = manager.Events(
            threading.Event(), mock.Mock(), lambda: NOW
        )
        for each in EVENTS[:2]:
            self.assertEqual(
                NotificationResult.HANDLED, take(self.events, each)
            )

    def _fail(self):
        """Deliver events while the database takes none."""
        before = metrics.FAILED._value.get()
        for each in EVENTS[2:] * 2:
            self.assertEqual(
                NotificationResult.REQUEUE, take(self.events, each)
            )
        self.assertEqual(4, metrics.FAILED._value.get() - before)
        self.assertEqual(1, self.log.output.count('takes no events'))

    def _recover(self):
        """Deliver them again, as the queue does; nothing is lost."""
        deadline = time.monotonic() + 60
        left = list(EVENTS)
        while left:
            self.assertLess(time.monotonic(), deadline)
            if take(self.events, left[0]) == NotificationResult.HANDLED:
                left.pop(0)
        self.assertEqual(EVENTS[::-1], api.get_history(UUID))
        self.assertEqual(1, self.log.output.count('takes events again'))
        self.assertNotIn('Traceback', self.log.output)

    def test_restarted(self):
        self.server.stop()
        self._fail()
        self.server.start()
        self._recover()

    def test_gone_in_the_middle_of_a_transaction(self):
        """The half that was written is not there afterwards."""
        insert_once = session.insert_once

        def insert_and_die(*args):
            insert_once(*args)
            if self.server.process.poll() is None:
                self.server.stop()

        with fixtures.MonkeyPatch(
            'nova_rt.db.session.insert_once', insert_and_die
        ):
            self._fail()
        self.server.start()
        self._recover()

    def test_a_purge_that_loses_its_database(self):
        trust_clock(self)
        self.useFixture(fixtures.MonkeyPatch('nova_rt.db.retention.STEP', 9))
        for number in range(3, 63):
            api.add_event(event(number, 'applied'), NOW - 10 * MINUTE)
        upkeep = manager.Upkeep(DAY, lambda: NOW + 5 * DAY)
        delete = retention._delete_rows
        steps = []

        def delete_and_die(*args):
            steps.append(delete(*args))
            if len(steps) == 3:
                self.server.stop(signal.SIGKILL if self.can_be_killed
                                 else signal.SIGQUIT)  # fmt: skip
            return steps[-1]

        patch = fixtures.MonkeyPatch(
            'nova_rt.db.retention._delete_rows', delete_and_die
        )
        with patch:
            upkeep.run()
        self.assertEqual([9, 9, 9], steps)
        self.assertEqual(1, self.log.output.count('Could not delete'))
        self.server.start()
        self._wait()
        self.assertIn(count(), (62 - 27, 62 - 18))
        upkeep.run()
        self.assertEqual(0, count())

    def _wait(self):
        """Wait until the pool has noticed."""
        deadline = time.monotonic() + 60
        while True:
            try:
                api.ping()
                return
            except api.ERRORS:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def test_slow(self):
        """An event waits for another transaction with it, others go on."""
        begun, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def hold():
            with session.writer() as writer:
                table = models.EventRow.__table__
                row = dict.fromkeys(table.columns.keys(), '')
                del row['id'], row['runtime_us'], row['period_us']
                row.update(message_id=EVENTS[2].id, at=NOW, received_at=NOW)
                session.insert_once(writer, table, row, 'message_id')
                begun.set()
                go.wait(60)
                writer.rollback()

        holder = threading.Thread(target=hold)
        holder.start()
        self.assertTrue(begun.wait(60))
        late = threading.Thread(target=take, args=(self.events, EVENTS[2]))
        late.start()
        take(self.events, EVENTS[3])
        self.assertEqual(3, count())
        self.assertTrue(late.is_alive())
        go.set()
        holder.join()
        late.join(60)
        self.assertEqual(EVENTS[::-1], api.get_history(UUID))


class MariaDBFaultTest(FaultTests, base.DatabaseTest):
    server_class = database.MariaDB
    can_be_killed = True

    def test_a_value_that_is_never_taken(self):
        """It does not come back for ever."""
        with fixtures.MonkeyPatch('nova_rt.formats.history.clean', str):
            self.assertEqual(
                NotificationResult.HANDLED,
                take(self.events, event(3, 'drifted', details='\U0001f4a9')),
            )
        self.assertIn('Dropped an event', self.log.output)
        self.assertIn('Incorrect string value', self.log.output)

    def test_read_only(self):
        # Of an account like a service's: SUPER may write all the same.
        self.server.execute('CREATE USER IF NOT EXISTS service')
        self.server.execute('GRANT ALL ON `test%`.* TO service')
        session.configure(database.make_conf(
            self.database.url.replace('root@', 'service@')
        ))  # fmt: skip
        self.server.execute('SET GLOBAL read_only = 1')
        self.addCleanup(self.server.execute, 'SET GLOBAL read_only = 0')
        self._fail()
        self.server.execute('SET GLOBAL read_only = 0')
        self._recover()

    def test_full(self):
        """A table that has reached its size, as on a full disk."""
        full = sa.exc.OperationalError(
            'INSERT', {}, Exception(1114, 'The table is full')
        )

        def fail(connection, cursor, statement, *args):
            if statement.startswith(('INSERT', 'UPDATE', 'DELETE')):
                raise full

        engine = session.get_engine()
        sa.event.listen(engine, 'before_cursor_execute', fail)
        try:
            self._fail()
        finally:
            sa.event.remove(engine, 'before_cursor_execute', fail)
        self._recover()


class PostgreSQLFaultTest(FaultTests, base.DatabaseTest):
    server_class = database.PostgreSQL
    can_be_killed = False

    def test_read_only(self):
        self.server.execute(
            'ALTER SYSTEM SET default_transaction_read_only = on'
        )
        self.server.execute('SELECT pg_reload_conf()')
        self.addCleanup(self._allow)
        self._wait_until_read_only('on')
        self._fail()
        self._allow()
        self._recover()

    def _allow(self):
        for text in (
            'SET default_transaction_read_only = off',
            'ALTER SYSTEM RESET default_transaction_read_only',
            'SELECT pg_reload_conf()',
        ):
            self.server.execute(text)
        self._wait_until_read_only('off')

    def _wait_until_read_only(self, value):
        """Wait until new connections have the setting."""
        deadline = time.monotonic() + 60
        text = 'SHOW default_transaction_read_only'
        while self.server.execute(text) != [(value,)]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

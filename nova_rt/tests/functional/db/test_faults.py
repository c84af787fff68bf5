# SPDX-License-Identifier: Apache-2.0
"""Databases that are slow, full, read-only or gone, and reports in crowds."""

import concurrent.futures
import logging
import signal
import threading
import time

import fixtures
import sqlalchemy as sa

from nova_rt.conductor import manager, metrics
from nova_rt.db import api, hosts, retention, servers, session
from nova_rt.db.objects import Retention
from nova_rt.formats import messages
from nova_rt.tests.fixtures import database
from nova_rt.tests.fixtures.reports import (
    MINUTE,
    NOW,
    UUID,
    account,
    event,
    held,
    make_uuid,
    state,
)
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.usage import trust_clock

DAY = 24 * 60 * MINUTE
KEEP = Retention(usage=2 * DAY, history=DAY)
EVENTS = [
    event(1, 'claimed'), event(2, 'applied'), event(3, 'drifted'),
    event(4, 'repaired'),
]  # fmt: skip


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

    def test_reports_of_one_host(self):
        """Everything at once, by several, in no order, more than once."""
        tasks = []
        for _ in range(3):
            for last in 1, 3, 4:
                tasks.append(
                    lambda last=last: api.record_events(
                        'one', 1, EVENTS[:last], NOW
                    )
                )
            tasks.append(
                lambda: api.record_state(
                    'one', state(held(), event_seq=4), NOW
                )
            )
            for used_us in 1, 3, 2:
                tasks.append(
                    lambda used_us=used_us: api.record_usage(
                        'one', [account(n, used_us=used_us) for n in range(9)]
                    )
                )
        in_crowd(*tasks)
        api.record_events('one', 1, EVENTS, NOW)
        self.assertEqual(
            ['claimed', 'applied', 'drifted', 'repaired'],
            [each.kind for each in reversed(api.get_history(UUID))],
        )
        self.assertEqual('applied', api.get_server(UUID).state)
        self.assertEqual(1, api.get_host('one').repairs)
        (found,) = api.list_usage(NOW - DAY, NOW + DAY)
        self.assertEqual((9, 27), (found.hours, found.used_us))

    def test_reports_of_many_hosts(self):
        """Servers that are new to all hosts: each gets one number."""
        uuids = [make_uuid(number) for number in range(40)]

        def report(number):
            host = f'host{number}'
            order = uuids if number % 2 else uuids[::-1]
            servers = [held(uuid=uuid) for uuid in order]
            api.record_state(host, state(*servers), NOW)
            api.record_usage(host, [account(uuid=uuid) for uuid in order])

        in_crowd(*(lambda n=n: report(n) for n in range(8)))
        self.assertEqual(8 * 40, len(api.list_servers()))
        self.assertEqual(8 * 40, len(api.list_usage(NOW - DAY, NOW + DAY)))

    def test_upkeep_beside_reports(self):
        """Purging three times at once, while accounts come."""
        trust_clock(self)
        uuids = [make_uuid(number) for number in range(30)]

        def report(hours):
            api.record_usage(
                'one', [account(n, uuid) for uuid in uuids for n in hours]
            )

        report(range(96))
        stop = threading.Event()

        def keep_reporting():
            hour = 96
            while not stop.is_set():
                report([hour])
                hour += 1

        writer = threading.Thread(target=keep_reporting)
        writer.start()
        try:
            in_crowd(*[lambda: list(api.purge(NOW + 4 * DAY, KEEP))] * 3)
        finally:
            stop.set()
            writer.join()
        # From the hour behind that of NOW.
        span = NOW, NOW + 4 * DAY - 60 * MINUTE
        found = api.list_usage(*span)
        self.assertEqual(
            [(uuid, 47) for uuid in uuids],
            [(each.server, each.hours) for each in found],
        )

    def test_deadlocks_are_retried(self):
        """Two transactions that want each other's rows: both succeed."""
        api.record_events('one', 1, [event(1, 'claimed')], NOW)
        api.record_events('two', 1, [event(1, 'claimed')], NOW)
        met = threading.Barrier(2)
        tries = []

        @session.retried
        def lock_both(first, second):
            tries.append(first)
            with session.writer() as writer:
                hosts.lock_host(writer, first).repairs += 1
                writer.flush()
                if len(tries) <= 2:
                    met.wait(30)
                hosts.lock_host(writer, second).repairs += 1

        in_crowd(
            lambda: lock_both('one', 'two'), lambda: lock_both('two', 'one')
        )
        self.assertGreater(len(tries), 2)
        api.record_state('one', state(), NOW)
        self.assertEqual(2, api.get_host('one').repairs)


class MariaDBCrowdTest(CrowdTests, base.DatabaseTest):
    server_class = database.MariaDB


class PostgreSQLCrowdTest(CrowdTests, base.DatabaseTest):
    server_class = database.PostgreSQL


class FaultTests:
    """A conductor whose database fails."""

    STATE = messages.write_state(state(held(), event_seq=4))

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        quiet = logging.getLogger('oslo_db.sqlalchemy.exc_filters')
        self.addCleanup(quiet.setLevel, quiet.level)
        manager.quieten()
        self.manager = manager.Manager(lambda: NOW)
        self.manager.report_events({}, 'one', 1, self._events(2))
        self.usage = messages.write_usage([account()])

    def _events(self, last):
        return messages.write_events(EVENTS[:last])

    def _fail(self):
        """Report while the database takes nothing."""
        failed = metrics.FAILED.labels('report_events')._value
        before = failed.get()
        for _ in range(3):
            self.manager.report_events({}, 'one', 1, self._events(4))
            self.manager.report_state({}, 'one', 1, 1, self.STATE)
            self.assertIs(
                False, self.manager.report_usage({}, 'one', self.usage)
            )
        self.assertEqual(3, failed.get() - before)
        self.assertEqual(1, self.log.output.count('takes no reports'))

    def _recover(self):
        """Report as the compute does a minute later; nothing is lost."""
        deadline = time.monotonic() + 60
        while self.manager.get_position({}, 'one', 1) is None:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.assertEqual(
            {'epoch': 1, 'event_seq': 2},
            self.manager.get_position({}, 'one', 1),
        )
        self.manager.report_events({}, 'one', 1, self._events(4))
        self.manager.report_state({}, 'one', 1, 2, self.STATE)
        self.assertTrue(self.manager.report_usage({}, 'one', self.usage))
        self.assertEqual(
            ['claimed', 'applied', 'drifted', 'repaired'],
            [each.kind for each in reversed(api.get_history(UUID))],
        )
        self.assertEqual('applied', api.get_server(UUID).state)
        self.assertEqual(1, self.log.output.count('takes reports again'))
        self.assertNotIn('Traceback', self.log.output)

    def test_restarted(self):
        self.server.stop()
        self._fail()
        self.server.start()
        self._recover()

    def test_gone_in_the_middle_of_a_transaction(self):
        """The half that was written is not there afterwards."""
        find_servers = servers.find_servers

        def find_and_die(*args):
            found = find_servers(*args)
            if self.server.process.poll() is None:
                self.server.stop()
            return found

        patch = fixtures.MonkeyPatch(
            'nova_rt.db.reports.find_servers', find_and_die
        )
        with patch:
            self._fail()
        self.server.start()
        self._recover()

    def test_a_purge_that_loses_its_database(self):
        trust_clock(self)
        self.useFixture(fixtures.MonkeyPatch('nova_rt.db.retention.STEP', 9))
        api.record_usage('one', [account(n) for n in range(-60, 0)])
        upkeep = manager.Upkeep(
            Retention(DAY, 400 * DAY), lambda: NOW + 5 * DAY
        )
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
        (left,) = api.list_usage(NOW - 9 * DAY, NOW)
        self.assertIn(left.hours, (33, 42))
        upkeep.run()
        self.assertEqual([], api.list_usage(NOW - 9 * DAY, NOW))

    def _wait(self):
        """Wait until the pool has noticed."""
        deadline = time.monotonic() + 30
        while True:
            try:
                api.list_hosts()
                return
            except api.ERRORS:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def test_slow(self):
        """A report waits, others go on, and none is lost."""
        begun, go = threading.Event(), threading.Event()

        def hold():
            with session.writer() as writer:
                hosts.lock_host(writer, 'one')
                begun.set()
                go.wait(30)

        holder = threading.Thread(target=hold)
        holder.start()
        begun.wait(30)
        late = threading.Thread(
            target=self.manager.report_events,
            args=({}, 'one', 1, self._events(4)),
        )
        late.start()
        self.manager.report_state({}, 'two', 1, 1, self.STATE)
        self.assertEqual(['two'], [each.name for each in api.list_hosts()])
        self.assertTrue(late.is_alive())
        go.set()
        holder.join()
        late.join(30)
        self.assertEqual(4, len(api.get_history(UUID)))


class MariaDBFaultTest(FaultTests, base.DatabaseTest):
    server_class = database.MariaDB
    can_be_killed = True

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

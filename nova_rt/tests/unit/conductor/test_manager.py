# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conductor.manager, on a real database."""

import datetime
import threading

import fixtures
from oslo_db import exception as db_exception
import sqlalchemy as sa

from nova_rt.conductor import manager, messages, metrics
from nova_rt.db import api, models, retention, session
from nova_rt.tests.fixtures.reports import (
    MINUTE,
    NOW,
    UUID,
    event,
    held,
    host_sample,
    sample,
    state,
)
from nova_rt.tests.unit.db import base

STATE = messages.write_state(state(held(), event_seq=1))
EVENTS = messages.write_events([event(1, 'claimed')])
SAMPLES = messages.write_samples({UUID: [sample(-1)]}, [host_sample(-1)])
DAY = datetime.timedelta(days=1)


def counted(counter, method):
    return counter.labels(method)._value.get()


class ManagerTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.manager = manager.Manager(lambda: NOW)

    def test_takes_reports(self):
        before = counted(metrics.REPORTS, 'report_state')
        self.manager.report_events({}, 'one', 1, EVENTS)
        self.manager.report_state({}, 'one', 1, 1, STATE)
        self.manager.report_samples({}, 'one', SAMPLES)
        self.assertEqual('applied', api.get_server(UUID).state)
        self.assertEqual(1, len(api.get_history(UUID)))
        self.assertEqual(
            [sample(-1)], api.read_samples(UUID, NOW - DAY, NOW, 'raw')
        )
        self.assertEqual(
            {'epoch': 1, 'event_seq': 1},
            self.manager.get_position({}, 'one', 1),
        )
        self.assertEqual(1, counted(metrics.REPORTS, 'report_state') - before)
        self.assertEqual('', self.log.output)

    def test_what_cannot_be_read_is_said_once_for_each_host(self):
        before = counted(metrics.REFUSED, 'report_state')
        newer = {**STATE, 'v': 2}
        for host in 'one', 'two', 'one', 'two', 'one':
            self.manager.report_state({}, host, 1, 1, newer)
        self.assertEqual(2, self.log.output.count('it needs a conductor that'))
        self.assertEqual(5, counted(metrics.REFUSED, 'report_state') - before)
        self.manager.report_state({}, 'one', 1, 1, {**STATE, 'cpus': 3})
        self.assertIn('cpus is no dict', self.log.output)
        self.assertEqual([], api.list_hosts())

    def test_nothing_raises_whatever_comes(self):
        for bad in None, 'é', -1, [], {}, 2**70, 'a\nb':
            self.manager.report_state({}, bad, bad, bad, bad)
            self.manager.report_state({}, 'one', 1, bad, STATE)
            self.manager.report_state({}, bad, 1, 1, STATE)
            self.manager.report_events({}, 'one', bad, EVENTS)
            self.manager.report_events({}, 'one', 1, bad)
            self.manager.report_samples({}, 'one', bad)
            self.assertIsNone(self.manager.get_position({}, bad, bad))
        self.assertEqual([], api.list_hosts())
        self.assertNotIn('Traceback', self.log.output)

    def test_the_log_does_not_grow_with_what_hosts_invent(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.manager._MOST_REASONS', 3)
        )
        for number in range(9):
            self.manager.report_state({}, f'host{number}', 1, 1, None)
        self.assertEqual(3, self.log.output.count('Refused'))

    def test_samples_of_a_clock_that_is_wrong(self):
        for minutes in -2000, 30:
            wrong = messages.write_samples({UUID: [sample(minutes)]})
            self.manager.report_samples({}, 'one', wrong)
        self.assertEqual(1, self.log.output.count('clock is wrong'))
        self.assertEqual(
            [], api.read_samples(UUID, NOW - 9 * DAY, NOW + DAY, 'raw')
        )

    def test_a_database_that_fails(self):
        before = counted(metrics.FAILED, 'report_state')
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE hosts RENAME TO away'))
        for seq in 1, 2, 3:
            self.manager.report_state({}, 'one', 1, seq, STATE)
            self.assertIsNone(self.manager.get_position({}, 'one', 1))
        self.assertEqual(1, self.log.output.count('takes no reports'))
        self.assertEqual(3, counted(metrics.FAILED, 'report_state') - before)
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE away RENAME TO hosts'))
        self.manager.report_state({}, 'one', 1, 4, STATE)
        self.manager.report_state({}, 'one', 1, 5, STATE)
        self.assertEqual(1, self.log.output.count('takes reports again'))
        self.assertEqual('applied', api.get_server(UUID).state)


class UpkeepTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.now = NOW + 10 * MINUTE
        self.upkeep = manager.Upkeep(
            retention.from_options(self.database.conf), lambda: self.now
        )
        api.record_samples('one', {UUID: [sample(0), sample(1)]})

    def _count(self, resolution):
        return len(api.read_samples(UUID, NOW - DAY, NOW + DAY, resolution))

    def test_sums_up_and_deletes(self):
        self.upkeep.run()
        self.assertEqual((2, 1), (self._count('raw'), self._count('5min')))
        self.now = NOW + 3 * DAY
        self.upkeep.run()
        self.assertEqual((0, 1), (self._count('raw'), self._count('5min')))
        self.assertEqual(1, self._count('hour'))

    def test_is_done_by_one(self):
        self.assertTrue(api.take_lease('upkeep', self.now, 30 * MINUTE))
        self.upkeep.run()
        self.assertEqual(0, self._count('5min'))
        # Whoever had it was killed.
        self.now += 31 * MINUTE
        self.upkeep.run()
        self.assertEqual(1, self._count('5min'))

    def test_a_clock_that_was_ahead_does_not_block_it(self):
        ahead = self.now + 400 * DAY
        self.assertTrue(api.take_lease('upkeep', ahead, 30 * MINUTE))
        self.upkeep.run()
        self.assertEqual(1, self._count('5min'))

    def test_one_of_many_at_once(self):
        barrier = threading.Barrier(5)
        taken = []

        def take():
            barrier.wait()
            try:
                taken.append(api.take_lease('other', self.now, MINUTE))
            except db_exception.DBError:
                taken.append(False)  # SQLite has one writer.

        threads = [threading.Thread(target=take) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, taken.count(True))

    def test_stops_in_the_middle(self):
        self.useFixture(fixtures.MonkeyPatch('nova_rt.db.retention.STEP', 1))
        self.upkeep.run()
        self.now = NOW + 3 * DAY
        self.upkeep.run(lambda: True)
        self.assertEqual(1, self._count('raw'))
        self.upkeep.run()
        self.assertEqual(0, self._count('raw'))

    def test_a_database_that_fails_is_said_once(self):
        before = metrics.UPKEEP_FAILED._value.get()
        models.Base.metadata.tables['progress'].drop(session.get_engine())
        self.upkeep.run()
        self.upkeep.run()
        self.assertEqual(1, self.log.output.count('Could not sum up'))
        self.assertEqual(2, metrics.UPKEEP_FAILED._value.get() - before)


class AgesTest(base.DatabaseTest):
    def test_says_how_old_reports_are(self):
        now = datetime.datetime.now(datetime.UTC)
        api.record_state('one', state(), now - 5 * MINUTE)
        up, ages = metrics.Ages(api.list_hosts).collect()
        self.assertEqual(1, up.samples[0].value)
        (found,) = ages.samples
        self.assertEqual({'host': 'one'}, found.labels)
        self.assertAlmostEqual(300, found.value, delta=30)

    def test_without_a_database(self):
        with session.writer() as writer:
            writer.execute(sa.text('DROP TABLE host_cpus'))
        (up,) = metrics.Ages(api.list_hosts).collect()
        self.assertEqual(0, up.samples[0].value)

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conductor.manager, on a real database."""

import datetime

import fixtures
import oslo_messaging
import sqlalchemy as sa

from nova_rt.conductor import manager, metrics
from nova_rt.db import api, models, retention, session
from nova_rt.formats import messages
from nova_rt.tests.fixtures.reports import (
    MINUTE,
    NOW,
    UUID,
    account,
    event,
    held,
    state,
)
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.usage import trust_clock

STATE = messages.write_state(state(held(), event_seq=1))
EVENTS = messages.write_events([event(1, 'claimed')])
USAGE = messages.write_usage([account()])
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
        self.assertIs(True, self.manager.report_usage({}, 'one', USAGE))
        self.assertEqual('applied', api.get_server(UUID).state)
        self.assertEqual(1, len(api.get_history(UUID)))
        self.assertEqual(1, len(api.list_usage(NOW - DAY, NOW)))
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

    def test_whatever_comes_is_refused(self):
        for bad in None, 'é', -1, [], {}, 2**70, 'a\nb':
            self.manager.report_state({}, bad, bad, bad, bad)
            self.manager.report_state({}, 'one', 1, bad, STATE)
            self.manager.report_state({}, bad, 1, 1, STATE)
            self.manager.report_events({}, 'one', bad, EVENTS)
            self.manager.report_events({}, 'one', 1, bad)
            self.assertIs(False, self.manager.report_usage({}, 'one', bad))
            self.manager.report_samples({}, bad, bad)
            self.assertRaises(
                oslo_messaging.ExpectedException,
                self.manager.get_position, {}, bad, bad,
            )  # fmt: skip
        self.assertEqual([], api.list_hosts())
        self.assertNotIn('Traceback', self.log.output)

    def test_the_log_does_not_grow_with_what_hosts_invent(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.manager._MOST_REASONS', 3)
        )
        for number in range(9):
            self.manager.report_state({}, f'host{number}', 1, 1, None)
        self.assertEqual(3, self.log.output.count('Refused'))

    def test_usage_of_a_clock_that_is_wrong(self):
        """It is dropped, and holds up nothing else."""
        hours = [account(-15 * 24), account(), account(2), account(1)]
        for _ in range(2):
            usage = messages.write_usage(hours)
            self.assertIs(True, self.manager.report_usage({}, 'one', usage))
        self.assertEqual(1, self.log.output.count('clock is or was wrong'))
        (found,) = api.list_usage(NOW - 30 * DAY, NOW + 30 * DAY)
        self.assertEqual(2, found.hours)

    def test_an_epoch_that_lies_in_the_future(self):
        """It would shut out the host's next start."""
        wrong = int(NOW.timestamp()) + 86_500
        self.manager.report_state({}, 'one', wrong, 1, STATE)
        self.manager.report_events({}, 'one', wrong, EVENTS)
        self.assertRaises(
            oslo_messaging.ExpectedException,
            self.manager.get_position, {}, 'one', wrong,
        )  # fmt: skip
        self.assertEqual(3, self.log.output.count('see "host reset"'))
        self.assertEqual([], api.list_hosts())
        right = int(NOW.timestamp()) + 86_300
        self.manager.report_state({}, 'one', right, 1, STATE)
        self.assertEqual(1, len(api.list_hosts()))

    def test_samples_of_an_older_compute(self):
        self.manager.report_samples({}, 'one', {'v': 1, 'servers': {}})
        self.assertEqual('', self.log.output)

    def test_a_database_that_fails(self):
        before = counted(metrics.FAILED, 'report_state')
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE hosts RENAME TO away'))
        for seq in 1, 2, 3:
            self.manager.report_state({}, 'one', 1, seq, STATE)
            self.assertIsNone(self.manager.get_position({}, 'one', 1))
            self.assertIs(False, self.manager.report_usage({}, 'one', USAGE))
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
        trust_clock(self)
        self.upkeep = manager.Upkeep(
            retention.from_options(self.database.conf), lambda: self.now
        )
        api.record_usage('one', [account(), account(1)])

    def _count(self):
        return sum(each.hours for each in api.list_usage(NOW - DAY, NOW + DAY))

    def test_deletes(self):
        self.upkeep.run()
        self.assertEqual(2, self._count())
        self.now = NOW + 400 * DAY
        self.upkeep.run()
        self.assertEqual(1, self._count())

    def test_looks_at_each_server_once_a_day(self):
        """There may be millions of them, and few can go."""
        looks = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.db.retention._purge_servers',
                lambda: looks.append(self.now) or (),
            )
        )
        begin = self.now
        for hour in range(49):
            self.now = begin + hour * datetime.timedelta(hours=1)
            self.upkeep.run()
        self.assertEqual([begin, begin + DAY, begin + 2 * DAY], looks)

    def test_stops_in_the_middle(self):
        self.useFixture(fixtures.MonkeyPatch('nova_rt.db.retention.STEP', 1))
        self.now = NOW + 401 * DAY
        self.upkeep.run(lambda: True)
        self.assertEqual(1, self._count())
        self.upkeep.run()
        self.assertEqual(0, self._count())

    def test_a_database_that_fails_is_said_once(self):
        before = metrics.UPKEEP_FAILED._value.get()
        models.Base.metadata.tables['server_hours'].drop(session.get_engine())
        self.upkeep.run()
        self.upkeep.run()
        self.assertEqual(1, self.log.output.count('Could not delete'))
        self.assertEqual(2, metrics.UPKEEP_FAILED._value.get() - before)


class AgesTest(base.DatabaseTest):
    def test_says_how_old_reports_are(self):
        now = datetime.datetime.now(datetime.UTC)
        api.record_state('one', state(), now - 5 * MINUTE)
        up, ages = metrics.Ages(api.list_reports).collect()
        self.assertEqual(1, up.samples[0].value)
        (found,) = ages.samples
        self.assertEqual({'host': 'one'}, found.labels)
        self.assertAlmostEqual(300, found.value, delta=30)

    def test_without_a_database(self):
        with session.writer() as writer:
            writer.execute(sa.text('DROP TABLE hosts'))
        (up,) = metrics.Ages(api.list_reports).collect()
        self.assertEqual(0, up.samples[0].value)

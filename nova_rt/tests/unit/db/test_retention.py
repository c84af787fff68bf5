# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.retention."""

import datetime

import sqlalchemy as sa

from nova_rt import exception
from nova_rt.db import api, models, retention, session
from nova_rt.db.objects import Retention
from nova_rt.tests.fixtures.reports import (
    HOUR,
    NOW,
    UUID,
    account,
    event,
    held,
    make_uuid,
    state,
)
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.usage import ALL, DAY, count, trust_clock

OTHER = make_uuid(2)
HOURS = datetime.timedelta(hours=1)
KEEP = Retention(usage=90 * DAY, history=400 * DAY)


class PurgeTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        # That of a database is not in the year of these tests.
        trust_clock(self)

    def _purge(self, now):
        return list(api.purge(now, KEEP))

    def _fill(self, hours):
        api.record_usage('one', [account(hour) for hour in hours])

    def _left(self):
        return len(list(api.iterate_hours(*ALL, server=UUID)))

    def _delete_at_once(self, rows):
        before = retention.STEP
        retention.STEP = rows
        self.addCleanup(setattr, retention, 'STEP', before)

    def test_usage(self):
        self._delete_at_once(50)
        self._fill(range(-120, 0))
        self.assertEqual([], self._purge(NOW))
        deleted = self._purge(NOW + 90 * DAY - 10 * HOURS)
        self.assertEqual([50, 50, 11], deleted)
        # The hours that begin in the 90 days.
        self.assertEqual(9, self._left())

    def test_killed_in_the_middle(self):
        self._delete_at_once(10)
        self._fill(range(-95, 0))
        going = api.purge(NOW + 99 * DAY, KEEP)
        self.assertEqual([10, 10], [next(going), next(going)])
        going.close()
        self.assertEqual(75, self._left())
        self._purge(NOW + 99 * DAY)
        self.assertEqual(0, self._left())

    def test_history_and_servers(self):
        api.record_state('one', state(held()), NOW)
        events = [
            event(1, 'claimed', at=NOW - 401 * DAY),
            event(2, 'applied', at=NOW - 399 * DAY),
            event(3, 'claimed', OTHER, at=NOW - 500 * DAY),
            event(4, 'released', OTHER, at=NOW - 499 * DAY),
        ]
        for each in events:
            api.record_events('one', 1, [each], each.at)
        self._purge(NOW)
        self.assertEqual(
            ['applied'], [each.kind for each in api.get_history(UUID)]
        )
        self.assertEqual('applied', api.get_server(UUID).state)
        self.assertRaises(exception.ServerNotFound, api.get_server, OTHER)
        self.assertRaises(exception.ServerNotFound, api.get_history, OTHER)
        self.assertEqual(1, count(models.ServerRow))

    def test_a_server_stays_while_it_has_usage(self):
        self._fill([0])
        self._purge(NOW + DAY)
        self.assertEqual(1, count(models.ServerRow))

    def test_a_host_that_is_gone(self):
        api.record_state('gone', state(held()), NOW - 401 * DAY)
        api.record_events('gone', 1, [event(1, 'claimed', at=NOW - 402 * DAY)],
                          NOW - 401 * DAY)  # fmt: skip
        api.record_state('here', state(held(uuid=OTHER)), NOW)
        self._purge(NOW)
        self.assertEqual(['here'], [each.name for each in api.list_hosts()])
        self.assertEqual([OTHER], [each.uuid for each in api.list_servers()])
        self.assertEqual(1, count(models.ServerRow))
        self.assertEqual([], self._purge(NOW))

    def test_a_host_stays_while_it_has_usage(self):
        keep = Retention(usage=90 * DAY, history=2 * DAY)
        api.record_state('one', state(held()), NOW)
        self._fill([0])
        list(api.purge(NOW + 89 * DAY, keep))
        self.assertEqual(1, self._left())
        list(api.purge(NOW + 92 * DAY, keep))
        self.assertEqual(0, count(models.HostRow))
        self.assertEqual(0, count(models.ServerHourRow))

    def test_a_host_that_never_was(self):
        api.record_events('x', 1, [event(1, 'claimed', at=NOW)], NOW)
        api.record_usage('y', [])
        self._purge(NOW)
        self.assertEqual(1, count(models.HostRow))
        self._purge(NOW + 401 * DAY)
        self.assertEqual(0, count(models.HostRow))
        self.assertEqual(0, count(models.ServerRow))

    def test_an_event_is_as_old_as_its_receipt(self):
        """Not as a host says whose clock is years behind."""
        api.record_events(
            'one', 1, [event(1, 'claimed', at=NOW - 900 * DAY)], NOW
        )
        self._purge(NOW + 399 * DAY)
        self.assertEqual(1, len(api.get_history(UUID)))
        self._purge(NOW + 401 * DAY)
        self.assertRaises(exception.ServerNotFound, api.get_history, UUID)

    def test_an_event_without_receipt(self):
        api.record_events(
            'one', 1, [event(1, 'claimed', at=NOW - 9 * DAY)], NOW
        )
        with session.writer() as writer:
            writer.execute(
                sa.update(models.HistoryRow).values(received_at=None)
            )
        self._purge(NOW + 390 * DAY)
        self.assertEqual(1, len(api.get_history(UUID)))
        self._purge(NOW + 392 * DAY)
        self.assertRaises(exception.ServerNotFound, api.get_history, UUID)

    def test_everything_at_last(self):
        api.record_state('one', state(held()), NOW)
        self._fill([0])
        self._purge(NOW + 5 * 400 * DAY)
        for model in (models.HostRow, models.HostCPURow, models.ServerRow,
                      models.ReservationRow, models.ServerHourRow,
                      models.HistoryRow):  # fmt: skip
            self.assertEqual(0, count(model), model)


class ClockTest(base.DatabaseTest):
    """A clock that is wrong deletes nothing."""

    def setUp(self):
        super().setUp()
        self.now = datetime.datetime.now(datetime.UTC)
        self.old = self.now - 80 * DAY
        self._report(self.now)
        hour = api.to_hour(self.old) - HOUR
        api.record_usage('one', [account(hour + n) for n in range(9)])

    def _report(self, at):
        self.seq = getattr(self, 'seq', 0) + 1
        api.record_state('one', state(held(), seq=self.seq), at)

    def _purge(self, now):
        return sum(api.purge(now, KEEP))

    def test_all_agree(self):
        self.assertEqual(0, self._purge(self.now))

    def test_a_conductor_is_ahead(self):
        self.assertEqual(0, self._purge(self.now + 900 * DAY))

    def test_a_conductor_is_ahead_and_takes_reports(self):
        self._report(self.now + 900 * DAY)
        self.assertEqual(0, self._purge(self.now + 900 * DAY))

    def test_nothing_was_reported_for_long(self):
        keep = Retention(usage=10 * DAY, history=400 * DAY)
        self._report(self.old)
        self.assertEqual(0, sum(api.purge(self.now, keep)))
        self._report(self.now)
        self.assertEqual(9, sum(api.purge(self.now, keep)))

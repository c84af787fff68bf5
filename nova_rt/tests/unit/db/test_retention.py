# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.retention."""

import datetime

from nova_rt import exception
from nova_rt.db import api, retention
from nova_rt.tests.fixtures.history import (
    DAY,
    MINUTE,
    NOW,
    UUID,
    event,
    trust_clock,
)
from nova_rt.tests.unit.db import base

KEEP = 400 * DAY


def fill(count, at=NOW):
    """Add events that come a minute after each other."""
    for number in range(count):
        api.add_event(event(number, 'applied'), at + number * MINUTE)


def left():
    try:
        return len(api.get_history(UUID))
    except exception.ServerNotFound:
        return 0


class PurgeTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        # That of a database is not in the year of these tests.
        trust_clock(self)

    def _delete_at_once(self, rows):
        before = retention.STEP
        retention.STEP = rows
        self.addCleanup(setattr, retention, 'STEP', before)

    def test_in_steps(self):
        self._delete_at_once(5)
        fill(20)
        self.assertEqual([], list(api.purge(NOW + KEEP, KEEP)))
        deleted = list(api.purge(NOW + KEEP + 12 * MINUTE, KEEP))
        self.assertEqual([5, 5, 2], deleted)
        self.assertEqual(8, left())

    def test_killed_in_the_middle(self):
        self._delete_at_once(2)
        fill(10)
        going = api.purge(NOW + 2 * KEEP, KEEP)
        self.assertEqual([2, 2], [next(going), next(going)])
        going.close()
        self.assertEqual(6, left())
        self.assertEqual(6, sum(api.purge(NOW + 2 * KEEP, KEEP)))

    def test_an_event_is_as_old_as_its_receipt(self):
        """Not as a host says whose clock is years behind."""
        api.add_event(event(1, 'claimed', at=NOW - 900 * DAY), NOW)
        list(api.purge(NOW + 399 * DAY, KEEP))
        self.assertEqual(1, left())
        list(api.purge(NOW + 401 * DAY, KEEP))
        self.assertEqual(0, left())


class ClockTest(base.DatabaseTest):
    """A clock that is wrong deletes nothing."""

    def setUp(self):
        super().setUp()
        self.now = datetime.datetime.now(datetime.UTC)
        fill(3, self.now - 500 * DAY)

    def _purge(self, now):
        return sum(api.purge(now, KEEP))

    def test_all_agree(self):
        api.add_event(event(9, 'released'), self.now)
        self.assertEqual(3, self._purge(self.now))

    def test_a_conductor_is_ahead(self):
        api.add_event(event(9, 'released'), self.now)
        self._purge(self.now)
        self.assertEqual(0, self._purge(self.now + 900 * DAY))
        api.add_event(event(10, 'released'), self.now + 900 * DAY)
        self.assertEqual(0, self._purge(self.now + 900 * DAY))
        self.assertEqual(2, left())

    def test_nothing_has_come_for_long(self):
        self.assertEqual(0, self._purge(self.now))

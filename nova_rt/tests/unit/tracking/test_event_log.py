# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.tracking.event_log: operators search for its texts."""

import logging

import fixtures
from oslotest import base

from nova_rt import events
from nova_rt.reservation import record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking import event_log

RECORD = record.Record(Request(Reservation(1400, 2000), 2), (3, 7))


class EventLogTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(
            fixtures.FakeLogger(
                'nova_rt',
                format='%(levelname)s %(message)s',
                level=logging.INFO,
            )
        )
        counter = events.Counter()
        self.dispatcher = events.Dispatcher()
        self.dispatcher.subscribe(counter)
        self.dispatcher.subscribe(event_log.EventLog(counter))

    def assert_logged(self, expected, event):
        before = len(self.log.output)
        self.dispatcher.emit(event)
        self.assertEqual(expected, self.log.output[before:].rstrip('\n'))
        self.assertEqual(0, self.dispatcher.failures)

    def test_claimed(self):
        self.assert_logged(
            'INFO Claimed 700000 ppm (1400/2000) on CPU 3,7',
            events.Claimed('a', RECORD),
        )

    def test_applied(self):
        self.assert_logged(
            'INFO Applied reservation 1400/2000 on CPU 3,7',
            events.Applied('a', RECORD),
        )

    def test_drifted(self):
        self.assert_logged(
            'ERROR Reservation not held: it is red; applying it again',
            events.Drifted('a', RECORD, 'it is red'),
        )

    def test_repaired(self):
        for number in (1, 2):
            self.assert_logged(
                f'INFO Repaired reservation 1400/2000 on CPU 3,7; repair '
                f'{number} since the start of this service',
                events.Repaired('a', RECORD, 'it is red'),
            )

    def test_stopped(self):
        self.assert_logged(
            'ERROR Stopping this container: its reservation is not held: '
            'it is red',
            events.Stopped('a', 'it is red'),
        )

    def test_unverified(self):
        self.assert_logged(
            'ERROR Cannot verify or repair the reservation: it is red; the '
            'container runs on, and each check tries again',
            events.Unverified('a', 'it is red'),
        )

    def test_what_goes_on_is_logged_once(self):
        for event in (
            events.Drifted('a', RECORD, 'it is red', again=True),
            events.Unverified('a', 'it is red', again=True),
        ):
            self.assert_logged('', event)

    def test_refused(self):
        self.assert_logged(
            'WARNING Cannot claim reservation: full',
            events.Refused('a', events.Action.CLAIM, 'full'),
        )

    def test_not_logged(self):
        """Nova logs these, or nobody needs them."""
        for event in (
            events.Released('a', RECORD),
            events.Refused('a', events.Action.MOVE, 'never'),
        ):
            self.assert_logged('', event)

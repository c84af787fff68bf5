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

    def test_texts(self):
        repaired = 'INFO Repaired reservation 1400/2000 on CPU 3,7; repair %d'
        for event, text in (
            (
                events.Claimed('a', RECORD),
                'INFO Claimed 700000 ppm (1400/2000) on CPU 3,7',
            ),
            (
                events.Added('a', RECORD),
                'INFO Claimed another 700000 ppm (1400/2000) on CPU 3,7, for '
                'a resize',
            ),
            (
                events.Changed('a', RECORD, '1/2'),
                'INFO Changed reservation from 1/2 to 1400/2000 on CPU 3,7',
            ),
            (
                events.Frozen('a', 'it is odd'),
                'WARNING The reservation does not follow the load: it is odd',
            ),
            (
                events.Applied('a', RECORD),
                'INFO Applied reservation 1400/2000 on CPU 3,7',
            ),
            (
                events.Drifted('a', RECORD, 'it is red'),
                'ERROR Reservation not held: it is red; applying it again',
            ),
            *(
                (
                    events.Repaired('a', RECORD, 'it is red'),
                    f'{repaired % number} since the start of this service',
                )
                for number in (1, 2)
            ),
            (
                events.Stopped('a', 'it is red'),
                'ERROR Stopping this container: its reservation is not held: '
                'it is red',
            ),
            (
                events.Unverified('a', 'it is red'),
                'ERROR Cannot verify or repair the reservation: it is red; '
                'the container runs on, and each check tries again',
            ),
            (
                events.Refused('a', events.Action.CLAIM, 'full'),
                'WARNING Cannot claim reservation: full',
            ),
            # They go on.
            (events.Drifted('a', RECORD, 'it is red', again=True), ''),
            (events.Unverified('a', 'it is red', again=True), ''),
            # Nova logs these, or nobody needs them.
            (events.Released('a', RECORD), ''),
            (events.Refused('a', events.Action.MOVE, 'never'), ''),
        ):
            before = len(self.log.output)
            self.dispatcher.emit(event)
            self.assertEqual(text, self.log.output[before:].rstrip('\n'))
        self.assertEqual(0, self.dispatcher.failures)

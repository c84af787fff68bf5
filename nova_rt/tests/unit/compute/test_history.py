# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.history."""

import threading
import time

import fixtures
from oslo_context import context
from oslotest import base

from nova_rt import events
from nova_rt.compute import history, notifications
from nova_rt.formats import history as formats
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures.history import UUID, make_uuid

RECORD = Record.decode('v=1;q=1400;p=2000;n=2;e=limit;s=rr;r=1;c=3-4')
PATIENCE_S = 60


class Sender:
    """A message bus that can be away, or hang."""

    def __init__(self):
        self.away = False
        self.go = threading.Event()
        self.go.set()
        self.tries = 0
        self.sent = []

    def send(self, message_id, publisher, event_type, payload):
        assert self.go.wait(PATIENCE_S)
        self.tries += 1
        if self.away:
            raise OSError('no bus')
        self.sent.append(formats.read(message_id, event_type, payload))


class HistoryTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.dropped = []
        self.bus = Sender()
        self.history = history.History(
            self.bus, self.dropped.append, pause_s=0.01
        )
        self.listener = notifications.Announcer('one', self.history)
        # Whatever a test leaves, its thread ends.
        self.addCleanup(self.history.stop)
        self.addCleanup(self.bus.go.set)

    def happen(self, *numbers):
        for number in numbers:
            self.listener(events.Claimed(make_uuid(number), RECORD))

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def assert_sent(self, *numbers):
        self.assertEqual(
            [*map(make_uuid, numbers)],
            [each.server for each in self.bus.sent],
        )

    def test_in_order_with_rising_times(self):
        self.happen(*range(20))
        self.history.start()
        self.happen(*range(20, 40))
        self.wait_until(lambda: len(self.bus.sent) == 40)
        self.assert_sent(*range(40))
        times = [each.at for each in self.bus.sent]
        self.assertEqual(sorted({*times}), times)
        self.assertEqual(40, len({each.id for each in self.bus.sent}))
        self.assertEqual([], self.dropped)

    def test_a_clock_that_is_set_back(self):
        now = iter([5_000_000_000, 3_000_000_000, 3_000_001_000])
        self.useFixture(
            fixtures.MonkeyPatch('time.time_ns', lambda: next(now))
        )
        self.happen(1, 2, 3)
        self.history.start()
        self.history.stop()
        self.assertEqual(
            [0, 1, 2], [each.at.microsecond for each in self.bus.sent]
        )

    def test_who_asked(self):
        """The request is that of the thread in which it happens."""
        request = context.RequestContext(
            user_id='u', project_id='p', request_id='req-1'
        )
        self.addCleanup(request.update_store)
        self.happen(1)
        context._request_store.context = None
        self.happen(2)
        self.history.start()
        self.history.stop()
        self.assertEqual(
            [formats.Origin('req-1', 'u', 'p'), formats.Origin()],
            [each.origin for each in self.bus.sent],
        )

    def test_bus_away(self):
        self.bus.away = True
        self.history.start()
        self.happen(1, 2)
        self.wait_until(lambda: self.bus.tries > 5)
        self.bus.away = False
        self.wait_until(lambda: len(self.bus.sent) == 2)
        self.assert_sent(1, 2)
        self.happen(3)
        self.wait_until(lambda: len(self.bus.sent) == 3)
        self.assertEqual(1, self.log.output.count('Cannot send events'))
        self.assertEqual(1, self.log.output.count('sent to the history again'))
        self.assertEqual([], self.dropped)

    def test_nobody_waits_for_a_bus_that_hangs(self):
        self.bus.go.clear()
        self.history.start()
        self.happen(*range(100))
        self.assertEqual([], self.bus.sent)
        self.bus.go.set()
        self.wait_until(lambda: len(self.bus.sent) == 100)

    def test_too_many(self):
        """The oldest go; they are counted, and the log says it once."""
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.compute.history.MOST', 3)
        )
        self.happen(*range(9))
        self.history.start()
        self.wait_until(lambda: len(self.bus.sent) == 3)
        self.assert_sent(6, 7, 8)
        self.assertEqual(6, sum(self.dropped))
        self.assertEqual(1, self.log.output.count('More than 3 events wait'))

    def test_the_end_of_the_service(self):
        self.history.start()
        self.happen(*range(50))
        self.history.stop()
        self.assert_sent(*range(50))
        self.assertEqual([], self.dropped)

    def test_the_end_of_the_service_without_a_bus(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.compute.history.LAST_S', 0.1)
        )
        self.bus.away = True
        self.history.start()
        self.happen(1, 2)
        self.history.stop()
        self.assertEqual([2], self.dropped)
        self.assertIn('has not taken 2 events', self.log.output)
        self.history._thread.join(PATIENCE_S)
        self.assertFalse(self.history._thread.is_alive())

    def test_repeated_events_are_no_news(self):
        self.listener(events.Drifted(UUID, RECORD, 'x', again=True))
        self.history.start()
        self.history.stop()
        self.assertEqual([], self.bus.sent)

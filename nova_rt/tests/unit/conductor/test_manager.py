# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conductor.manager, on a real database."""

import threading
import time
from unittest import mock

import fixtures
from oslo_db import exception as db_exception
from oslo_messaging import NotificationResult
import sqlalchemy as sa

from nova_rt import exception
from nova_rt.conductor import manager, metrics, queue
from nova_rt.db import api, changes, models, retention, session
from nova_rt.formats.history import PREFIX
from nova_rt.tests.fixtures import conductor
from nova_rt.tests.fixtures.history import (
    DAY,
    MINUTE,
    NOW,
    UUID,
    event,
    make_uuid,
    payload,
    take,
    trust_clock,
)
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.test_changes import APPLIED, NO_ROOM, wish

PATIENCE_S = 60


def counted(counter):
    return counter._value.get()


def rename(old, new):
    with session.writer() as writer:
        writer.execute(sa.text(f'ALTER TABLE {old} RENAME TO {new}'))


class EventsTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.manager.PAUSE_S', 0.01)
        )
        self.events = manager.Events(
            threading.Event(), mock.Mock(), lambda: NOW
        )

    def kinds(self):
        return [each.kind for each in reversed(api.get_history(UUID))]

    def test_takes_events(self):
        before = counted(metrics.EVENTS)
        for number, kind in (2, 'applied'), (1, 'claimed'), (2, 'applied'):
            self.assertEqual(
                NotificationResult.HANDLED,
                take(self.events, event(number, kind)),
            )
        self.assertEqual(['claimed', 'applied'], self.kinds())
        self.assertEqual(3, counted(metrics.EVENTS) - before)
        self.assertEqual('', self.log.output)

    def test_what_cannot_be_read_is_dropped(self):
        before = counted(metrics.REFUSED)
        for bad in None, 'é', -1, [], {}, 2**70, payload(host=3):
            self.assertEqual(
                NotificationResult.HANDLED,
                self.events.info(
                    {}, 'a\nb', PREFIX + 'claimed', bad,
                    {'message_id': make_uuid(1)},
                ),
            )  # fmt: skip
        self.assertEqual(7, counted(metrics.REFUSED) - before)
        self.assertEqual(7, self.log.output.count('Dropped an event from a b'))
        self.assertEqual(7, self.log.output.count('\n'), self.log.output)
        self.assertIn('is not of the form', self.log.output)

    def test_what_can_never_be_stored_is_dropped(self):
        """Else it would be one error each time; the log has the event."""
        for error in (
            db_exception.DBDataError(Exception('out of range')),
            RuntimeError('ours'),
        ):
            with mock.patch.object(api, 'add_event', side_effect=error):
                self.assertEqual(
                    NotificationResult.HANDLED,
                    take(self.events, event(1, 'claimed')),
                )
        self.assertIn('Dropped an event', self.log.output)
        self.assertIn('RuntimeError: ours', self.log.output)
        self.assertEqual(2, self.log.output.count(UUID))

    def test_the_end_of_the_service(self):
        """Events in the process go back, and no database is asked."""
        stopping = threading.Event()
        stopping.set()
        self.assertEqual(
            NotificationResult.REQUEUE,
            take(manager.Events(stopping, mock.Mock()), event(1, 'claimed')),
        )
        self.assertRaises(exception.ServerNotFound, self.kinds)

    def test_a_database_that_fails(self):
        before = counted(metrics.FAILED)
        rename('history', 'away')
        for number in 1, 2, 3:
            self.assertEqual(
                NotificationResult.REQUEUE,
                take(self.events, event(number, 'applied')),
            )
        self.assertEqual(1, self.log.output.count('takes no events'))
        self.assertEqual(3, counted(metrics.FAILED) - before)
        rename('away', 'history')
        for number in 1, 2:
            take(self.events, event(number, 'applied'))
        self.assertEqual(1, self.log.output.count('takes events again'))
        self.assertEqual(2, len(self.kinds()))


class ListenerTest(base.DatabaseTest):
    """On a message bus in this process."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.manager.PAUSE_S', 0.05)
        )
        self.bus = self.useFixture(conductor.Bus())
        self.sender = queue.Sender(self.bus.conf)

    def send(self, made):
        self.sender.send(
            made.id, 'nova-compute:one', PREFIX + made.kind, payload(made)
        )

    def wait_for(self, *kinds):
        deadline = time.monotonic() + PATIENCE_S
        found = None
        while found != list(kinds):
            self.assertLess(time.monotonic(), deadline, found)
            time.sleep(0.02)
            with session.reader() as reader:
                row = models.EventRow
                found = list(
                    reader.scalars(sa.select(row.kind).order_by(row.at))
                )

    def test_events_wait_for_a_conductor(self):
        self.send(event(2, 'released'))
        self.send(event(1, 'claimed'))
        self.bus.start()
        self.wait_for('claimed', 'released')

    def test_messages_that_are_none(self):
        """They go, and those behind them come."""
        before = counted(metrics.REFUSED)
        bad = [
            {'priority': 7}, {}, {'priority': 'INFO'},
            {'priority': 'INFO', 'event_type': [], 'payload': 'x'},
        ]  # fmt: skip
        for message in bad:
            self.bus.send(message)
        self.send(event(1, 'claimed'))
        self.bus.start()
        self.wait_for('claimed')
        # One without a priority of ours is nobody's, and goes without a word.
        self.assertEqual(3, counted(metrics.REFUSED) - before)
        self.assertIn('no notification', self.log.output)

    def test_database_away(self):
        rename('history', 'away')
        before = counted(metrics.FAILED)
        self.bus.start(2)
        for number, kind in enumerate(('claimed', 'applied', 'released')):
            self.send(event(number, kind))
        deadline = time.monotonic() + PATIENCE_S
        while counted(metrics.FAILED) < before + 9:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        rename('away', 'history')
        self.wait_for('claimed', 'applied', 'released')

    def test_several_conductors_and_deliveries(self):
        for number in range(30):
            for _ in range(2):
                self.send(event(number, 'applied'))
        self.bus.start(3)
        self.wait_for(*['applied'] * 30)

    def test_options_of_the_queue(self):
        """Durable, whatever the cloud's own queues are."""
        bus = self.useFixture(
            conductor.Bus(url='rabbit://u:p@127.0.0.1:1/v?ssl=true')
        )
        driver = queue.make_transport(bus.conf)._driver
        ours = driver.conf.oslo_messaging_rabbit
        self.assertIs(True, ours.amqp_durable_queues)
        self.assertIs(False, ours.amqp_auto_delete)
        self.assertEqual(100, ours.rabbit_qos_prefetch_count)
        self.assertLess(10**6, ours.rabbit_quorum_delivery_limit)
        self.assertIs(True, ours.ssl)
        self.assertIs(False, bus.conf.oslo_messaging_rabbit.ssl)


class UpkeepTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.now = NOW + 10 * MINUTE
        trust_clock(self)
        self.upkeep = manager.Upkeep(
            retention.from_options(self.database.conf), lambda: self.now
        )
        for number in 0, 1:
            api.add_event(event(number, 'applied'), NOW + number * DAY)

    def count(self):
        with session.reader() as reader:
            return reader.scalar(sa.select(sa.func.count(models.EventRow.id)))

    def test_deletes(self):
        self.upkeep.run()
        self.assertEqual(2, self.count())
        self.now = NOW + 400.5 * DAY
        self.upkeep.run()
        self.assertEqual(1, self.count())

    def test_stops_in_the_middle(self):
        self.useFixture(fixtures.MonkeyPatch('nova_rt.db.retention.STEP', 1))
        self.now = NOW + 402 * DAY
        self.upkeep.run(lambda: True)
        self.assertEqual(1, self.count())
        self.upkeep.run()
        self.assertEqual(0, self.count())

    def test_a_database_that_fails_is_said_once(self):
        before = counted(metrics.UPKEEP_FAILED)
        models.Base.metadata.tables['history'].drop(session.get_engine())
        self.upkeep.run()
        self.upkeep.run()
        self.assertEqual(1, self.log.output.count('Could not delete'))
        self.assertEqual(2, counted(metrics.UPKEEP_FAILED) - before)


class MetricsTest(base.DatabaseTest):
    def test_ages(self):
        for number, answer in enumerate((NO_ROOM, NO_ROOM, APPLIED)):
            change = changes.ask(wish(number), None)
            changes.note(
                change, answer, NOW + number * MINUTE,
                None if answer is APPLIED else MINUTE,
            )  # fmt: skip
        (found,) = metrics.OpenChanges(
            changes.find_oldest, lambda: NOW + 5 * MINUTE
        ).collect()
        self.assertEqual(
            [({'condition': 'Deferred'}, 300)],
            [(each.labels, each.value) for each in found.samples],
        )
        (up,) = metrics.DatabaseUp(api.ping).collect()
        self.assertEqual(1, up.samples[0].value)

    def test_no_database(self):
        def fail():
            raise api.ERRORS[0]

        (found,) = metrics.OpenChanges(fail).collect()
        self.assertEqual([], found.samples)
        (up,) = metrics.DatabaseUp(fail).collect()
        self.assertEqual(0, up.samples[0].value)

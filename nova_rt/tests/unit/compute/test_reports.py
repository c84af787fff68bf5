# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.reports, with conductors and a database."""

import datetime
import threading
import time

import fixtures
from nova import exception as nova_exception
import oslo_messaging
from oslotest import base as test_base

from nova_rt import events
from nova_rt.compute import reports
from nova_rt.compute.backlog import Backlog
from nova_rt.compute.epoch import Epoch, epoch_path
from nova_rt.compute.spool import spool_path
from nova_rt.conductor import rpcapi
from nova_rt.db import api
from nova_rt.formats.reports import Position, ServerState
from nova_rt.host.interface import Usage
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures import conductor
from nova_rt.tests.fixtures.reports import NOW, RECORD, UUID, make_uuid
from nova_rt.tests.unit.compute.source import Source, make_meter, make_spool
from nova_rt.tests.unit.db import base

OTHER = make_uuid(2)
ALL = NOW - datetime.timedelta(3650), NOW + datetime.timedelta(3650)


class Silence:
    """A conductor that keeps what is sent to it."""

    def __init__(self):
        self.position = Position(0, 0)
        self.sent = []

    def get_position(self, epoch):
        if isinstance(self.position, Exception):
            raise self.position
        return self.position

    def __getattr__(self, method):
        return lambda *args: self.sent.append((method, *args))

    def of(self, method):
        return [args for name, *args in self.sent if name == method]


class ReporterTest(test_base.BaseTestCase):
    """The messages of a reporter, and when they are sent, without a bus."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.source = Source()
        self.backlog = Backlog()
        self.source.dispatcher.subscribe(self.backlog)
        self.conductor = Silence()
        self.top = self.useFixture(fixtures.TempDir()).path
        self.reporter = self._make()

    def _make(self):
        """Make the reporter of a start of the service."""
        self.epoch = Epoch(epoch_path(self.top, 'one'))
        return reports.Reporter(
            self.conductor,
            self.source,
            self.source,
            self.backlog,
            self.epoch,
            make_spool(self.top),
            '1.0',
            make_meter(self.source, self.top),
            60,
        )

    def _states(self):
        made = self.reporter.make_state()
        return {each.uuid: each.state for each in made.servers}

    def test_nothing_while_none_answers(self):
        self.conductor.position = oslo_messaging.MessagingTimeout()
        self.source.claim()
        for _ in range(3):
            self.reporter._safely(self.reporter.report)
            self.reporter._safely(self.reporter.report_news)
            self.reporter._safely(self.reporter.report_usage)
        self.assertEqual([], self.conductor.sent)
        self.assertEqual(1, self.log.output.count('Cannot report'))
        self.conductor.position = Position(0, 0)
        self.reporter.report()
        self.assertEqual(1, self.log.output.count('again'))
        self.assertEqual(1, len(self.conductor.of('report_events')))
        self.assertEqual(1, len(self.conductor.of('report_state')))

    def test_nothing_while_the_database_takes_nothing(self):
        self.conductor.position = None
        self.source.claim()
        self.reporter.report()
        self.reporter.report_news()
        self.assertEqual([], self.conductor.sent)

    def test_libvirt_does_not_answer(self):
        """That is no fault of the conductor, which has the events."""
        error = nova_exception.HypervisorUnavailable()
        with fixtures.MockPatchObject(
            self.source, 'list_running', side_effect=error
        ):
            self.source.claim()
            for _ in range(2):
                self.reporter._safely(self.reporter.report)
        self.assertEqual(2, len(self.conductor.of('report_events')))
        self.assertEqual([], self.conductor.of('report_state'))
        self.assertNotIn('to nova-rt-conductor', self.log.output)
        self.assertEqual(1, self.log.output.count('libvirt does not say'))
        self.reporter.report()
        self.assertEqual(1, len(self.conductor.of('report_state')))

    def test_no_picture_before_servers_are_known(self):
        self.source.adopted = False
        self.reporter.report()
        self.reporter.report_usage()
        self.assertEqual([], self.conductor.sent)

    def test_each_event_once_until_it_is_missed(self):
        self.reporter.report()
        self.source.claim()
        self.reporter.report_news()
        self.reporter.report_news()
        self.assertEqual(1, len(self.conductor.of('report_events')))
        # It did not come.
        self.reporter.report()
        self.assertEqual(2, len(self.conductor.of('report_events')))
        self.conductor.position = Position(self.epoch.number, 1)
        self.reporter.report()
        self.assertEqual(2, len(self.conductor.of('report_events')))
        self.assertEqual([], self.backlog.list_after(0))

    def test_many_events_in_parts(self):
        self.reporter.report()
        for _ in range(1201):
            self.source.dispatcher.emit(events.Stopped(UUID, 'x'))
        self.reporter.report_news()
        sizes = [
            len(message['events'])
            for _, message in self.conductor.of('report_events')
        ]
        self.assertEqual([500, 500, 201], sizes)

    def test_a_database_that_was_restored(self):
        """It asks for events that had come and are gone here."""
        self.reporter.report()
        for _ in range(4):
            self.source.claim()
        self.reporter.report_news()
        self.conductor.position = Position(self.epoch.number, 4)
        self.reporter.report()
        self.conductor.position = Position(self.epoch.number, 2)
        self.source.run()
        self.reporter.report()
        _, message = self.conductor.of('report_events')[-1]
        self.assertEqual(4, message['dropped'])
        self.assertEqual([5], [each['seq'] for each in message['events']])

    def test_the_conductor_knows_a_higher_epoch(self):
        """Our file was lost, and the clock is behind."""
        self.source.claim()
        self.conductor.position = Position(self.epoch.number + 1000, 0)
        before = self.epoch.number
        self.reporter.report()
        self.assertEqual(before + 1001, self.epoch.number)
        ((epoch, message),) = self.conductor.of('report_events')
        self.assertEqual(
            (before + 1001, 1), (epoch, message['events'][0]['seq'])
        )

    def test_what_servers_do(self):
        self.source.claim()
        self.assertEqual({UUID: ServerState.CLAIMED}, self._states())
        self.source.run()
        self.assertEqual({UUID: ServerState.APPLIED}, self._states())
        self.source.dispatcher.emit(events.Drifted(UUID, RECORD, 'x'))
        self.assertEqual({UUID: ServerState.DRIFTED}, self._states())
        self.source.dispatcher.emit(events.Repaired(UUID, RECORD, 'x'))
        self.assertEqual({UUID: ServerState.APPLIED}, self._states())
        self.source.dispatcher.emit(events.Stopped(UUID, 'x'))
        self.source.running.clear()
        self.assertEqual({UUID: ServerState.STOPPED}, self._states())
        self.source.run()
        # Its user stops it, which is no event.
        self.source.running.clear()
        self.assertEqual({UUID: ServerState.CLAIMED}, self._states())
        self.source.release()
        self.assertEqual({}, self._states())

    def test_servers_of_before_this_start(self):
        self.source.records = {UUID: RECORD, OTHER: RECORD}
        self.source.running = {UUID}
        self.assertEqual(
            {UUID: ServerState.APPLIED, OTHER: ServerState.CLAIMED},
            self._states(),
        )

    def test_sums(self):
        self.source.claim()
        self.source.claim(
            OTHER,
            Record.decode('v=1;q=100;p=1000;n=1;e=limit;s=rr;r=1;c=3'),
        )
        self.source.host_ppm = 950_000
        made = self.reporter.make_state()
        self.assertEqual(800_000, made.cpus[3].reserved_ppm)
        self.assertEqual(700_000, made.cpus[4].reserved_ppm)
        self.assertEqual(1_500_000, made.host_cpu.reserved_ppm)

    def test_earlier_events_that_cannot_be_sent(self):
        """They keep nothing else from being sent."""
        self.source.claim()
        self.reporter.stop()
        self.reporter = self._make()
        self.conductor.report_earlier_events = None
        self.reporter.report()
        self.assertEqual(1, len(self.conductor.of('report_state')))
        self.assertIn('events of earlier starts', self.log.output)
        self.conductor.report_earlier_events = lambda *args: True
        self.reporter.report()
        self.assertEqual({}, self.reporter._news._earlier)

    def test_a_listener_never_waits(self):
        """Not even while a report hangs in the bus."""
        begun, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def hang(epoch):
            begun.set()
            go.wait(120)

        self.conductor.get_position = hang
        self.reporter.start()
        self.addCleanup(self.reporter.stop)
        self.assertTrue(begun.wait(60))
        before = time.monotonic()
        for _ in range(1000):
            self.source.dispatcher.emit(events.Stopped(UUID, 'x'))
        self.assertLess(time.monotonic() - before, 1)
        self.assertEqual(0, self.source.dispatcher.failures)

    def test_conductor_of_the_version_before(self):
        """Usage is kept, and nothing else is held up."""
        answers = [None, None, True, True]
        self.conductor.report_usage = lambda usage: answers.pop(0)
        self.reporter.report()
        self.source.claim()
        for _ in range(10):
            self.reporter.report_usage()
        self.assertEqual(1, self.log.output.count('older than this service'))
        self.assertEqual(2, len(answers))
        self.reporter.report_news()
        self.assertEqual(1, len(self.conductor.of('report_events')))


class BusTest(base.DatabaseTest):
    """The whole way: host, bus, conductors, database."""

    def setUp(self):
        super().setUp()
        self.bus = self.useFixture(conductor.Bus())
        self.source = Source()
        self.top = self.useFixture(fixtures.TempDir()).path
        self._start()

    def _start(self):
        """Start the compute service."""
        backlog = Backlog()
        self.source.dispatcher = events.Dispatcher()
        self.source.dispatcher.subscribe(backlog)
        self.reporter = reports.Reporter(
            rpcapi.ConductorAPI(self.bus.transport, 'one', timeout_s=1),
            self.source,
            self.source,
            backlog,
            Epoch(epoch_path(self.top, 'one')),
            make_spool(self.top),
            '1.0',
            make_meter(self.source, self.top),
            1,
        )

    def _settle(self, states, kinds=None):
        """Wait until the database says this."""
        deadline = time.monotonic() + 60
        while True:
            found = {
                each.uuid: each.state
                for each in api.list_servers(include_released=True)
            }
            kinds_found = self._kinds() if found and kinds else None
            if found == states and kinds_found == kinds:
                break
            if time.monotonic() > deadline:
                self.assertEqual((states, kinds), (found, kinds_found))
            time.sleep(0.05)

    def _kinds(self):
        return [each.kind for each in reversed(api.get_history(UUID))]

    def test_a_story(self):
        self.bus.start()
        self.reporter.start()
        self.addCleanup(self.reporter.stop)
        self.source.claim()
        self.source.run()
        self._settle({UUID: 'applied'})
        self.source.release()
        self._settle({UUID: 'released'}, ['claimed', 'applied', 'released'])
        # Asked for, and sent, when the thread started.
        self.assertEqual('1.0', api.get_host('one').version)

    def test_usage_and_a_conductor_of_the_version_before(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.rpcapi.VERSION', '1.0')
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.conductor.manager.Manager.target',
                oslo_messaging.Target(namespace='nova_rt', version='1.0'),
            )
        )
        self.bus.start()
        api_of_host = rpcapi.ConductorAPI(self.bus.transport, 'one', 5)
        self.assertEqual(Position(0, 0), api_of_host.get_position(1))
        self.assertIsNone(api_of_host.report_usage({'v': 1, 'hours': []}))

    def test_reports_that_are_refused(self):
        """The host's own log has the reason."""
        log = self.useFixture(fixtures.FakeLogger())
        self.bus.start()
        self.reporter._epoch.raise_to(int(time.time()) + 2 * 86_400)
        self.reporter._safely(self.reporter.report)
        self.reporter._safely(self.reporter.report)
        self.assertEqual(
            1, log.output.count('nova-rt-conductor: its epoch lies in the ')
        )
        self.assertIn('see "host reset"', log.output)
        self.assertNotIn('Traceback', log.output)

    def test_no_conductor_for_a_while(self):
        self.source.claim()
        self.source.run()
        self.reporter._safely(self.reporter.report)
        self.bus.start()
        self.reporter.report()
        self._settle({UUID: 'applied'}, ['claimed', 'applied'])
        self.bus.stop()
        self.source.release()
        self.reporter._safely(self.reporter.report)
        self.bus.start()
        self.reporter.report()
        self._settle({UUID: 'released'}, ['claimed', 'applied', 'released'])

    def test_the_service_is_started_anew(self):
        self.bus.start()
        self.source.claim()
        self.source.run()
        self.reporter.report()
        self._settle({UUID: 'applied'})
        self._start()
        self.source.release()
        self.reporter.report()
        self._settle({UUID: 'released'}, ['claimed', 'applied', 'released'])

    def test_the_service_is_started_anew_while_no_conductor_is_there(self):
        """No event is lost, and none comes twice."""
        self.bus.start()
        self.source.claim()
        self.reporter.report()
        self._settle({UUID: 'claimed'}, ['claimed'])
        self.bus.stop()
        self.source.run()
        self.reporter._news.keep()
        for _ in range(2):
            self._start()
            self.source.dispatcher.emit(events.Stopped(UUID, 'x'))
            # As the service ends.
            self.reporter.stop()
        self._start()
        self.source.release()
        self.bus.start()
        self.reporter.report()
        kinds = ['claimed', 'applied', 'stopped', 'stopped', 'released']
        self._settle({UUID: 'released'}, kinds)
        self.assertEqual(0, api.get_host('one').lost_events)
        self.reporter.report()
        self._start()
        self.reporter.report()
        self._settle({UUID: 'released'}, kinds)
        self.assertEqual({}, make_spool(self.top).read(9))

    def test_the_spool_is_bounded(self):
        """Whatever is dropped is counted."""
        for name in ('backlog', 'news'):
            self.useFixture(
                fixtures.MonkeyPatch(f'nova_rt.compute.{name}.BACKLOG', 10)
            )
        for _ in range(4):
            for _ in range(25):
                self.source.dispatcher.emit(events.Refused(UUID, 'claim', 'x'))
                self.reporter._news.keep()
            lines = spool_path(self.top, 'one').read_text().splitlines()
            self.assertLessEqual(len(lines), 2 * 10 + 10 + 1)
            self._start()
        self.bus.start()
        self.reporter.report()
        deadline = time.monotonic() + 60
        while not api.list_reports() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(10, len(api.get_history(UUID)))
        # Of the last start that had events.
        self.assertEqual(15, api.get_host('one').lost_events)

    def test_usage(self):
        self.bus.start()
        self.reporter.report_usage()
        self.source.claim()
        self.source.run()
        self.reporter.report()
        self._settle({UUID: 'applied'})
        self.source.usages[UUID] = {3: Usage(1, 0, 5), 4: Usage(1, 0, 5)}
        self.reporter.report_usage()
        self._start()
        self.reporter.report()
        self.source.usages[UUID] = {3: Usage(9, 2, 95), 4: Usage(9, 2, 95)}
        self.reporter.report_usage()
        (found,) = api.list_usage(*ALL)
        self.assertEqual(
            (190, 18, 4), (found.used_us, found.periods, found.throttled)
        )
        self.assertGreater(found.reserved_us, 0)

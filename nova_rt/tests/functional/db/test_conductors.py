# SPDX-License-Identifier: Apache-2.0
"""Conductors as processes, on RabbitMQ and MariaDB, that are killed."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import fixtures
import kombu
import sqlalchemy as sa

from nova_rt import events
from nova_rt.compute import history, notifications
from nova_rt.conductor import metrics, queue
from nova_rt.db import api, models, session
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures import conductor, database, rabbitmq
from nova_rt.tests.fixtures.history import make_uuid
from nova_rt.tests.unit.db import base

RECORD = Record.decode('v=1;q=1400;p=2000;n=2;e=limit;s=rr;r=1;c=3-4')
PATIENCE_S = 120
TOP = pathlib.Path(__file__).parents[4]


class Conductor(fixtures.Fixture):
    """nova-rt-conductor."""

    def __init__(self, bus, url):
        super().__init__()
        topic = bus.conf.nova_rt.history_topic
        self._text = (
            f'[DEFAULT]\ntransport_url = {bus.conf.transport_url}\n'
            f'[nova_rt]\nhistory_topic = {topic}\n'
            f'[nova_rt_database]\nconnection = {url}\n'
            'max_retries = 1\nretry_interval = 1\n'
            '[nova_rt_conductor]\nworkers = 2\n'
        )

    def _setUp(self):
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (path / 'conf').write_text(self._text)
        self.log = path / 'log'
        with self.log.open('w') as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    '-m',
                    'nova_rt.cmd.conductor',
                    '--config-file',
                    path / 'conf',
                ],
                env={
                    **os.environ,
                    'PYTHONPATH': str(TOP),
                    'TMPDIR': str(path),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.addCleanup(self.kill)

    def kill(self):
        """End all its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class ConductorsTest(base.DatabaseTest):
    server_class = database.MariaDB
    SERVERS = 200

    def setUp(self):
        super().setUp()
        self.rabbit = self.useFixture(rabbitmq.RabbitMQ())
        self.bus = self.useFixture(conductor.Bus(url=self.rabbit.url))
        self.dropped = []
        self.history = self._make_history()
        self.history.start()
        self.addCleanup(self.history.stop)
        self.dispatcher = events.Dispatcher()
        self.dispatcher.subscribe(notifications.Announcer('one', self.history))

    def _make_history(self):
        sender = queue.Sender(self.bus.conf)
        # Its thread would look for RabbitMQ in all later tests.
        self.addCleanup(sender._transport.cleanup)
        return history.History(sender, self.dropped.append, pause_s=1)

    def _start(self):
        return self.useFixture(Conductor(self.bus, self.database.url))

    def _emit(self, kind, number):
        self.dispatcher.emit(kind(make_uuid(number), RECORD))

    def _live(self, done):
        """Servers come; every other one goes."""
        for number in range(self.SERVERS):
            self._emit(events.Claimed, number)
            time.sleep(0.03)
            self._emit(events.Applied, number)
            if number % 2:
                time.sleep(0.03)
                self._emit(events.Released, number)
        done.set()

    def _wait_for_stories(self):
        """Wait until all is there; then look whether anything is twice."""
        wanted = {
            make_uuid(number): ['claimed', 'applied', 'released'][
                : 2 + number % 2
            ]
            for number in range(self.SERVERS)
        }
        deadline = time.monotonic() + PATIENCE_S
        found = None
        while found != wanted:
            self.assertLess(
                time.monotonic(), deadline, lambda: self._differ(found, wanted)
            )
            time.sleep(0.5)
            with contextlib.suppress(*api.ERRORS):
                found = self._read()
        self.assertEqual([], self.dropped)

    @staticmethod
    def _read():
        row = models.EventRow
        found = {}
        with session.reader() as reader:
            for server, kind in reader.execute(
                sa.select(row.server, row.kind).order_by(row.at)
            ):
                found.setdefault(server, []).append(kind)
        return found

    @staticmethod
    def _differ(found, wanted):
        return {
            uuid: (found or {}).get(uuid)
            for uuid in wanted
            if (found or {}).get(uuid) != wanted[uuid]
        }

    def test_killed_while_servers_come_and_go(self):
        first, second = self._start(), self._start()
        done = threading.Event()
        living = threading.Thread(target=self._live, args=(done,))
        living.start()
        for fault in (
            first.kill, self.server.stop, self.server.start, self.rabbit.stop,
            self.rabbit.start, self._start, second.kill,
        ):  # fmt: skip
            time.sleep(2)
            fault()
        living.join()
        self._wait_for_stories()

    def test_no_conductor_for_a_whole_life(self):
        """The bus keeps all over its own restart, and the sender is gone."""
        self.SERVERS = 20
        self._live(threading.Event())
        self.history.stop()
        self.assertEqual([], self.dropped)
        self.rabbit.stop()
        self.rabbit.start()
        self._start()
        self._wait_for_stories()

    def test_quorum_queue(self):
        """Of a cloud that has them; an event is returned often."""
        self.bus.conf.set_override(
            'rabbit_quorum_queue', True, 'oslo_messaging_rabbit'
        )
        self.bus.conf.set_override('history_topic', 'quorum', 'nova_rt')
        sender = self._make_history()
        self.dispatcher = events.Dispatcher()
        self.dispatcher.subscribe(notifications.Announcer('one', sender))
        self.SERVERS = 4
        self._live(threading.Event())
        sender.start()
        sender.stop()
        self.assertEqual([], self.dropped)
        self.assertIsNone(queue.check(self.bus.conf))
        before = metrics.FAILED._value.get()
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE history RENAME TO away'))
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.conductor.manager.PAUSE_S', 0.01)
        )
        self.bus.start(2, threads=4)
        deadline = time.monotonic() + PATIENCE_S
        # RabbitMQ 4 gives up after 20 of one message, unless told otherwise.
        while metrics.FAILED._value.get() - before < 50 * self.SERVERS:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE away RENAME TO history'))
        self._wait_for_stories()

    def test_garbage_in_the_queue(self):
        """Whatever anybody puts there, events behind it come."""
        self.SERVERS = 2
        self._emit(events.Claimed, 0)
        self._emit(events.Claimed, 1)
        amqp = self.rabbit.url.replace('rabbit://', 'amqp://')
        connection = kombu.Connection(amqp)
        self.addCleanup(connection.release)
        self._wait_for_messages(connection, 2)
        garbage = [
            b'\xff', '{}', {'oslo.version': '2.0'},
            {'oslo.version': '2.0', 'oslo.message': 'x'},
            {'oslo.version': '2.0', 'oslo.message': '[]'},
            {'oslo.version': '2.0', 'oslo.message': '{"priority": 1}'},
            {'oslo.version': '9.0', 'oslo.message': '{}'},
        ]  # fmt: skip
        for body in garbage:
            connection.Producer().publish(body, routing_key=self.bus.topic)
        for number, kind in (
            (0, events.Applied), (1, events.Applied), (1, events.Released),
        ):  # fmt: skip
            self._emit(kind, number)
        self._wait_for_messages(connection, 5 + len(garbage))
        running = self._start()
        self._wait_for_stories()
        self._wait_for_messages(connection, 0)
        self.assertIsNone(running.process.poll())

    def _wait_for_messages(self, connection, number):
        """Wait until so many wait in the queue, delivered ones apart."""
        queued = kombu.Queue(self.bus.topic, no_declare=True)
        found = None
        deadline = time.monotonic() + PATIENCE_S
        while found != number:
            self.assertLess(time.monotonic(), deadline, found)
            time.sleep(0.2)
            with contextlib.suppress(connection.channel_errors):
                found = (
                    queued(connection.channel())
                    .queue_declare(passive=True)
                    .message_count
                )

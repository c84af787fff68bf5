# SPDX-License-Identifier: Apache-2.0
"""Tests of nova-rt-conductor, as a process."""

import datetime
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import fixtures
from oslotest import base

from nova_rt.db import changes
from nova_rt.tests.fixtures import database
from nova_rt.tests.unit.db.test_changes import wish

TOP = pathlib.Path(__file__).parents[4]

#: What RabbitMQ says where a compute host with rabbit_quorum_queue came first.
REFUSED = (
    "Exchange.declare: (406) PRECONDITION_FAILED - inequivalent arg 'durable' "
    "for exchange 'nova_rt_history' in vhost '/': received 'false' but "
    "current is 'true'"
)
#: The program with a bus that says so.
REFUSING = """
import sys
from nova_rt.cmd import conductor
import oslo_messaging
def listen(*args):
    raise oslo_messaging.MessageDeliveryFailure({0!r})
oslo_messaging.transport.Transport._listen_for_notifications = listen
sys.exit(conductor.main())
"""


class ConductorTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def _start(
        self,
        url,
        program=('-m', 'nova_rt.cmd.conductor'),
        sections=(),
        **options,
    ):
        lines = ['[DEFAULT]', 'transport_url = fake:/',
                 '[nova_rt_conductor]']  # fmt: skip
        lines += [f'{name} = {options[name]}' for name in options]
        lines += ['[nova_rt_database]', 'max_retries = 1']
        lines += [f'connection = {url}'] if url else []
        lines += sections
        (self.top / 'conf').write_text('\n'.join(lines))
        with (self.top / 'log').open('w') as log:
            process = subprocess.Popen(
                [sys.executable, *program, '--config-file', self.top / 'conf'],
                env={**os.environ, 'PYTHONPATH': str(TOP),
                     'TMPDIR': str(self.top)},
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.top,
            )  # fmt: skip
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.kill)
        return process

    def _log(self):
        return (self.top / 'log').read_text()

    def test_starts_and_stops(self):
        made = self.useFixture(database.Database())
        with socket.socket() as found:
            found.bind(('127.0.0.1', 0))
            port = found.getsockname()[1]
        process = self._start(made.url, metrics_port=port, workers=2)
        url = f'http://127.0.0.1:{port}/metrics'
        deadline = time.monotonic() + 60
        while True:
            try:
                page = urllib.request.urlopen(url, timeout=5)
                break
            except OSError:
                self.assertIsNone(process.poll(), self._log())
                self.assertLess(time.monotonic(), deadline, self._log())
                time.sleep(0.2)
        text = page.read().decode()
        self.assertIn('nova_rt_conductor_database_up 1.0', text)
        self.assertIn('nova_rt_conductor_events_total 0.0', text)
        # Two workers, metrics, and one that deletes for all of them.
        children = pathlib.Path(f'/proc/{process.pid}/task').glob('*/children')
        self.assertEqual(
            4, sum(len(file.read_text().split()) for file in children)
        )
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(60), self._log())
        self.assertNotIn('Traceback', self._log())
        self.assertEqual([], list(self.top.glob('nova-rt-conductor*')))

    def test_cells(self):
        """Nova's mapping of cells is read if its database is known."""
        made = self.useFixture(database.Database())
        changes.ask(wish(at=datetime.datetime.now(datetime.UTC)), None)
        nova = ['[api_database]', f'connection = sqlite:///{self.top}/empty']
        process = self._start(made.url, sections=nova)
        deadline = time.monotonic() + 60
        while not (said := changes.get(wish().server).answer.reason):
            self.assertIsNone(process.poll(), self._log())
            self.assertLess(time.monotonic(), deadline, self._log())
            time.sleep(0.2)
        self.assertIn('the database does not answer', said)

    def test_wrong_configuration(self):
        """It is told in one line, without secrets."""
        file = self.top / 'conf'
        for text, said in (
            ('[DEFAULT\n', str(file)),
            ('[nova_rt_conductor]\nworkers = 0\n',
             f'{file}: [nova_rt_conductor] workers = 0: '),
            ('[nova_rt_database]\nkeep_history_days = 0\n',
             f'{file}: [nova_rt_database] keep_history_days = 0: '),
            ('[DEFAULT]\ntransport_url = secret\n',
             '[DEFAULT] transport_url'),
            ('[DEFAULT]\ntransport_url = fake:/\n[nova_rt_nova]\n'
             'auth_type = password\n', '[nova_rt_nova]: '),
            ('[DEFAULT]\ntransport_url = fake:/\n[nova_rt_database]\n'
             'connection = mysql+nodriver://u:secret@127.0.0.1/x\n',
             '[nova_rt_database] connection names no database'),
        ):  # fmt: skip
            file.write_text(text)
            done = subprocess.run(
                [sys.executable, '-m', 'nova_rt.cmd.conductor',
                 '--config-file', file],
                env={**os.environ, 'PYTHONPATH': str(TOP)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=self.top,
                check=False,
            )  # fmt: skip
            self.assertEqual(1, done.returncode, done.stdout)
            self.assertEqual(1, done.stdout.count('\n'), done.stdout)
            self.assertIn(said, done.stdout)
            self.assertNotIn('secret', done.stdout)

    def test_port_of_metrics_in_use(self):
        made = self.useFixture(database.Database())
        with socket.socket() as other:
            other.bind(('127.0.0.1', 0))
            other.listen()
            port = other.getsockname()[1]
            process = self._start(made.url, metrics_port=port)
            self.assertEqual(1, process.wait(60), self._log())
        self.assertIn(f'metrics_port = {port}: Address', self._log())

    def test_files_of_metrics(self):
        made = self.useFixture(database.Database())
        file = self.top / 'certificate'
        file.write_text('secret')
        process = self._start(
            made.url, metrics_tls_cert_file=file, metrics_port=1
        )
        self.assertEqual(1, process.wait(60), self._log())
        self.assertIn(f'metrics_tls_cert_file = {file}: ', self._log())
        self.assertNotIn('secret', self._log())

    def test_bus_that_refuses_its_queue(self):
        """No worker is started, to end and be started again for ever."""
        made = self.useFixture(database.Database())
        for said, hint in ((REFUSED, True), ('something else', False)):
            process = self._start(made.url, ['-c', REFUSING.format(said)])
            self.assertEqual(1, process.wait(60), self._log())
            self.assertIn(f'refuses its queue: {said}', self._log())
            self.assertNotIn('Traceback', self._log())
            self.assertEqual(
                hint, '[oslo_messaging_rabbit] of nova.conf' in self._log()
            )

    def test_does_not_start_without_tables(self):
        made = self.useFixture(database.Database(synced=False))
        self.assertEqual(1, self._start(made.url).wait(60))
        self.assertIn('nova-rt-manage db sync', self._log())

    def test_does_not_start_without_a_database(self):
        self.assertEqual(1, self._start(None).wait(60))
        self.assertIn('connection is not set', self._log())
        self.assertEqual(
            1, self._start(f'sqlite:///{self.top}/no/db').wait(60)
        )
        self.assertIn(
            'the database refuses (unable to open database file)', self._log()
        )

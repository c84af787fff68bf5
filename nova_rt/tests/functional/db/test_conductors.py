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
from oslo_config import cfg
import oslo_messaging
from oslo_messaging import conffixture

from nova_rt.compute import reports
from nova_rt.compute.backlog import Backlog
from nova_rt.compute.epoch import Epoch, epoch_path
from nova_rt.conductor import rpcapi
from nova_rt.db import api
from nova_rt.tests.fixtures import database, rabbitmq
from nova_rt.tests.fixtures.reports import make_uuid
from nova_rt.tests.unit.compute.source import Source, make_meter, make_spool
from nova_rt.tests.unit.db import base

TOP = pathlib.Path(__file__).parents[4]


class Conductor(fixtures.Fixture):
    """nova-rt-conductor."""

    def __init__(self, bus, url):
        super().__init__()
        self._text = (
            f'[DEFAULT]\ntransport_url = {bus}\n'
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
        self.bus = self.useFixture(rabbitmq.RabbitMQ()).url
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[], default_config_dirs=[])
        self.useFixture(conffixture.ConfFixture(conf)).transport_url = self.bus
        self.source = Source()
        backlog = Backlog()
        self.source.dispatcher.subscribe(backlog)
        top = self.useFixture(fixtures.TempDir()).path
        # Else its connections go on asking for a broker that is gone.
        transport = oslo_messaging.get_rpc_transport(conf)
        self.addCleanup(transport.cleanup)
        self.reporter = reports.Reporter(
            rpcapi.ConductorAPI(transport, 'one', timeout_s=2),
            self.source,
            self.source,
            backlog,
            Epoch(epoch_path(top, 'one')),
            make_spool(top),
            '1.0',
            make_meter(self.source, top),
            0,
        )

    def _start(self):
        return self.useFixture(Conductor(self.bus, self.database.url))

    def _live(self, done):
        """Servers come; every other one goes."""
        for number in range(self.SERVERS):
            uuid = make_uuid(number)
            self.source.claim(uuid)
            time.sleep(0.03)
            self.source.run(uuid)
            if number % 2:
                time.sleep(0.03)
                self.source.release(uuid)
        done.set()

    def test_killed_while_servers_come_and_go(self):
        first, second = self._start(), self._start()
        done = threading.Event()
        living = threading.Thread(target=self._live, args=(done,))
        living.start()
        faults = {
            2: first.kill,
            5: self.server.stop,
            7: self.server.start,
            9: self._start,
            11: second.kill,
        }
        for turn in range(1000):
            # What is done each minute, and as events come.
            self.reporter._safely(self.reporter.report)
            faults.get(turn, bool)()
            time.sleep(0.3)
            self.reporter._safely(self.reporter.report_news)
            if turn > max(faults) and done.is_set():
                break
        living.join()
        self._settle()
        for number in range(self.SERVERS):
            story = ['claimed', 'applied', 'released'][: 2 + number % 2]
            history = reversed(api.get_history(make_uuid(number)))
            self.assertEqual(story, [each.kind for each in history])
        self.assertEqual(0, api.get_host('one').lost_events)

    def _settle(self):
        """Report until all is there."""
        wanted = {make_uuid(n): 'applied' for n in range(0, self.SERVERS, 2)}
        deadline = time.monotonic() + 60
        found = None
        while True:
            self.reporter._safely(self.reporter.report)
            time.sleep(0.5)
            with contextlib.suppress(*api.ERRORS):
                found = {
                    each.uuid: each.state for each in api.list_servers('one')
                }
                if found == wanted:
                    return
            self.assertLess(time.monotonic(), deadline, found)

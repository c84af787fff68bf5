# SPDX-License-Identifier: Apache-2.0
"""A database of nova_rt with reports in it, for tests of commands."""

import datetime

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base

from nova_rt import conf as nova_rt_conf
from nova_rt.db import api, models, session
from nova_rt.formats.reports import (
    HeldReservation,
    HostCPU,
    HostState,
    NewEvent,
    ServerHour,
    ServerState,
)
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import manage

A = '5b9ae1c0-6a53-4b52-8f06-3f1c2d0f5a01'
B = '5b9ae1c0-6a53-4b52-8f06-3f1c2d0f5a02'
NOBODY = '5b9ae1c0-6a53-4b52-8f06-3f1c2d0f5aff'
RECORD = Record(Request(Reservation(600, 1000), 2), (0, 2))
SMALL = Record(Request(Reservation(20_000, 100_000), 1, priority=7), (2,))
NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
MINUTE = datetime.timedelta(minutes=1)
#: The hour that goes on.
HOUR = int(NOW.timestamp()) // 3600


class DatabaseTestCase(base.BaseTestCase):
    """Runs commands on a database in a file."""

    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        self.flags = self.useFixture(config.Config(self.conf)).config
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.flags(
            group='nova_rt_database',
            connection=f'sqlite:///{self.directory}/nova_rt.db',
        )
        api.configure(self.conf)
        models.Base.metadata.create_all(session.get_engine())
        self.seq = 0

    def run_command(self, *words):
        return manage.run(self.conf, *words)

    def read(self, *words):
        """The data that a command prints."""
        result = self.run_command(*words, '-f', 'json')
        self.assertEqual(0, result.code, result.err)
        return result.data

    def assert_fails(self, code, text, *words):
        """One clean line."""
        result = self.run_command(*words)
        self.assertEqual((code, ''), (result.code, result.out), result.err)
        self.assertEqual(1, result.err.count('\n'), result.err)
        self.assertTrue(result.err.strip().isprintable())
        self.assertIn(text, result.err)

    def report(self, host='host1', at=NOW, host_cpu=None, **servers):
        """The whole picture of a host: UUID -> record."""
        self.seq += 1
        state = HostState(
            epoch=1, seq=self.seq, event_seq=0, version='1.2.3',
            interface='some-interface', enforcement='guarantee',
            scope='cpu' if host_cpu is None else 'host',
            cpus={0: HostCPU(950_000, 600_000), 2: HostCPU(950_000, 800_000),
                  3: HostCPU(900_000, 0)},
            host_cpu=host_cpu,
            servers=tuple(
                HeldReservation(uuid, rec, ServerState.APPLIED, at)
                for uuid, rec in servers.items()
            ),
        )  # fmt: skip
        self.assertTrue(api.record_state(host, state, at))

    def happen(
        self, seq, kind, uuid=A, details='', at=NOW, host='host1', **more
    ):
        """An event of a host."""
        event = NewEvent(seq, at, uuid, kind, details, **more)
        self.assertEqual(1, api.record_events(host, 1, [event], NOW))

    def measure(self, uuid=A, hours=3, host='host1', used_us=1_800_000_000):
        """Hours of a server, up to the one that goes on."""
        api.record_usage(
            host,
            [
                ServerHour(7, uuid, HOUR - ago, 2_160_000_000, used_us,
                           3_600_000, 7)
                for ago in range(hours)
            ],
        )  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Hours of many servers in a database, while every service is restarted."""

import datetime
import random

import fixtures
import sqlalchemy as sa

from nova_rt import events
from nova_rt.compute import reports
from nova_rt.compute.backlog import Backlog
from nova_rt.compute.epoch import Epoch, epoch_path
from nova_rt.conductor import rpcapi
from nova_rt.db import api, session
from nova_rt.formats import times
from nova_rt.host.interface import Counted, Usage
from nova_rt.tests.fixtures import conductor
from nova_rt.tests.fixtures.reports import RECORD, make_uuid
from nova_rt.tests.unit.compute.source import Source, make_meter, make_spool
from nova_rt.tests.unit.compute.test_meter import MINUTE_US, Clock
from nova_rt.tests.unit.db import base

SERVERS = [make_uuid(number) for number in range(1, 21)]
#: Minutes: a whole hour, and some of two others.
MINUTES = 90
RESERVED_US = 84_000_000


class Host(Source):
    """A host whose containers use some of their CPUs.

    :ivar total: UUID -> what its containers have ever counted: used, periods
        and throttled
    """

    def __init__(self, dice):
        super().__init__()
        self.dice = dice
        self.counts = {}
        self.total = {uuid: [0, 0, 0] for uuid in SERVERS}
        self.containers = dict.fromkeys(SERVERS, 1)

    def read_counted(self, uuid):
        if uuid not in self.counts:
            return None
        return Counted(
            self.containers[uuid],
            {
                cpu: Usage(periods, throttled, used_us)
                for cpu, (used_us, periods, throttled) in self.counts[
                    uuid
                ].items()
            },
        )

    def begin(self, uuid):
        self.running.add(uuid)
        self.counts[uuid] = {3: [0, 0, 0], 4: [0, 0, 0]}

    def work(self):
        for uuid in self.running:
            for counts in self.counts[uuid].values():
                for index in range(3):
                    more = self.dice.randrange(40_000_000 >> 8 * index)
                    counts[index] += more
                    self.total[uuid][index] += more

    def restart(self, uuid, meter):
        """Stop a container, which is noted, and start another."""
        meter.read_last(uuid)
        self.containers[uuid] += 1
        self.begin(uuid)


class UsageStoryTest(base.DatabaseTest):
    """Nothing is lost and nothing counts twice, to the microsecond."""

    def setUp(self):
        super().setUp()
        self.dice = random.Random(7)
        self.clock = Clock()
        self.bus = self.useFixture(
            conductor.Bus(clock=lambda: times.from_us(self.clock.wall))
        )
        self.top = self.useFixture(fixtures.TempDir()).path
        self.host = Host(self.dice)
        self.start_compute()
        self.bus.start()

    def start_compute(self):
        self.host.dispatcher = events.Dispatcher()
        self.meter = make_meter(self.host, self.top, self.clock)
        backlog = Backlog()
        self.host.dispatcher.subscribe(self.meter)
        self.host.dispatcher.subscribe(backlog)
        self.reporter = reports.Reporter(
            rpcapi.ConductorAPI(self.bus.transport, 'one', timeout_s=1),
            self.host,
            self.host,
            backlog,
            Epoch(epoch_path(self.top, 'one')),
            make_spool(self.top),
            '1.0',
            self.meter,
            60,
        )

    def report(self):
        self.reporter._safely(self.reporter.report)
        self.reporter._safely(self.reporter.report_usage)

    def break_database(self):
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE hosts RENAME TO away'))

    def mend_database(self):
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE away RENAME TO hosts'))

    def test_twenty_servers(self):
        self.report()
        for uuid in SERVERS:
            self.host.records[uuid] = RECORD
            self.host.dispatcher.emit(events.Claimed(uuid, RECORD))
            self.host.begin(uuid)
        happens = {
            10: self.start_compute, 11: self.start_compute,
            20: self.bus.stop, 22: self.bus.start,
            30: self.break_database, 33: self.mend_database,
            # Beyond the end of the hour.
            58: self.bus.stop, 59: self.start_compute, 61: self.bus.start,
            70: self.break_database, 71: self.start_compute,
            80: self.mend_database,
        }  # fmt: skip
        for minute in range(MINUTES):
            self.host.work()
            self.clock.pass_us(MINUTE_US)
            if minute % 9 == 4:
                self.host.restart(self.dice.choice(SERVERS), self.meter)
            happens.get(minute, lambda: None)()
            self.report()
        self.start_compute()
        self.report()
        now = times.from_us(self.clock.wall)
        found = api.list_usage(now - datetime.timedelta(hours=9), now)
        self.assertEqual(
            [
                (uuid, 2, MINUTES * RESERVED_US, *self.host.total[uuid])
                for uuid in SERVERS
            ],
            [
                (
                    each.server, each.hours, each.reserved_us, each.used_us,
                    each.periods, each.throttled,
                )
                for each in found
            ],
        )  # fmt: skip
        whole, _ = api.iterate_hours(
            now - datetime.timedelta(hours=9), now, server=SERVERS[0]
        )
        self.assertEqual(60 * RESERVED_US, whole.reserved_us)

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.meter, with clocks and counts by hand."""

import errno
import json
import pathlib
import threading
from unittest import mock

import ddt
import fixtures
import libvirt
from nova import exception as nova_exception
from oslotest import base

from nova_rt import events
from nova_rt.compute import meter_file
from nova_rt.compute.ledger import HOUR_US
from nova_rt.compute.meter import Meter
from nova_rt.compute.meter_file import MeterFile, meter_path
from nova_rt.host.interface import Usage
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures.reports import UUID, make_uuid
from nova_rt.tests.unit.compute.source import Source

OTHER = make_uuid(2)
SMALL = Record.decode('v=1;q=100;p=1000;n=1;e=limit;s=rr;r=1;c=3')
MINUTE_US = 60_000_000
#: 1,400,000 ppm of a CPU.
MINUTE_RESERVED = 84_000_000
BEGIN_US = 500_000 * HOUR_US


class Clock:
    """The clocks of a host, moved by hand."""

    def __init__(self, boot='boot-1'):
        self.boot = boot
        self.wall = BEGIN_US
        self.running = 5_000_000

    def wall_us(self):
        return self.wall

    def running_us(self):
        return self.running

    def pass_us(self, microseconds):
        self.wall += microseconds
        self.running += microseconds


@ddt.ddt
class MeterTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.top = self.useFixture(fixtures.TempDir()).path
        self.file = MeterFile(meter_path(self.top, 'one'))
        self.clock = Clock()
        self.source = Source()
        self.start()

    def start(self):
        """Start the compute service."""
        self.source.dispatcher = events.Dispatcher()
        self.meter = Meter(self.source, self.source, self.file, self.clock)
        self.source.dispatcher.subscribe(self.meter)

    def run_one(self, used_us=0):
        self.source.claim()
        self.source.run()
        self.use(used_us)

    def use(self, used_us, periods=None, throttled=None):
        """Set the counts of the container; on CPU 4 it uses nothing."""
        self.source.usages[UUID] = {
            3: Usage(periods, throttled, used_us),
            4: Usage(periods, 0 if throttled is not None else None, 0),
        }

    def totals(self, uuid=UUID):
        rows = [each for each in self.meter.list_hours() if each.uuid == uuid]
        used = [each.used_us for each in rows if each.used_us is not None]
        return (
            sum(each.reserved_us for each in rows),
            sum(used) if used else None,
        )

    def hours(self):
        return {
            each.hour - BEGIN_US // HOUR_US: (each.reserved_us, each.used_us)
            for each in self.meter.list_hours()
        }

    def test_differences(self):
        self.meter.read()
        self.run_one(5)
        self.clock.pass_us(MINUTE_US)
        self.use(9_000_005, 30, 3)
        self.meter.read()
        (found,) = self.meter.list_hours()
        self.assertEqual(
            (MINUTE_RESERVED, 9_000_005, 60, 3),
            (found.reserved_us, found.used_us, found.periods, found.throttled),
        )
        self.assertEqual(BEGIN_US // HOUR_US, found.hour)

    def test_before_it_was_measured(self):
        """A container that ran for months does not use them in this hour."""
        self.run_one(10**15)
        self.meter.read()
        self.clock.pass_us(MINUTE_US)
        self.use(10**15 + 7)
        self.meter.read()
        self.assertEqual((MINUTE_RESERVED, 7), self.totals())

    def test_restart_of_the_service(self):
        self.run_one()
        self.meter.read()
        for used_us in (10, 20, 35):
            self.clock.pass_us(MINUTE_US)
            self.use(used_us)
            self.start()
            self.meter.read()
        self.assertEqual((3 * MINUTE_RESERVED, 35), self.totals())

    def test_new_container(self):
        self.meter.read()
        self.run_one(100)
        self.meter.read()
        self.source.container += 1
        self.use(130)
        self.meter.read()
        self.assertEqual(230, self.totals()[1])

    def test_new_container_while_the_service_was_down(self):
        self.run_one()
        self.meter.read()
        self.use(100)
        self.meter.read_last(UUID)
        self.source.container += 1
        self.use(130)
        self.start()
        self.meter.read()
        self.assertEqual(230, self.totals()[1])

    def test_group_made_anew(self):
        self.run_one()
        self.meter.read()
        self.use(100)
        self.meter.read()
        self.use(30)
        self.meter.read()
        self.assertEqual(130, self.totals()[1])

    def test_cpu_that_is_away_for_a_while(self):
        """The kernel goes on counting for the same container."""
        self.run_one()
        self.meter.read()
        self.use(100)
        self.meter.read()
        self.source.usages[UUID] = {4: Usage(None, None, 7)}
        for _ in range(2):
            self.meter.read()
            self.start()
        self.source.usages[UUID] = {
            3: Usage(None, None, 130), 4: Usage(None, None, 9),
        }  # fmt: skip
        self.meter.read()
        self.assertEqual(139, self.totals()[1])

    def test_last_reading(self):
        self.run_one()
        self.meter.read()
        self.use(100)
        self.meter.read_last(UUID)
        self.source.release()
        self.meter.read()
        self.assertEqual(100, self.totals()[1])
        self.meter.read_last(OTHER)

    def test_stopped_server_holds(self):
        self.run_one()
        self.meter.read()
        self.source.running.clear()
        self.clock.pass_us(MINUTE_US)
        self.meter.read()
        self.assertEqual((MINUTE_RESERVED, None), self.totals())

    def test_claims_between_two_readings(self):
        self.source.claim()
        self.clock.pass_us(1_000_000)
        self.source.dispatcher.emit(events.Added(UUID, SMALL))
        self.clock.pass_us(1_000_000)
        self.source.dispatcher.emit(events.Dropped(UUID, SMALL))
        self.clock.pass_us(1_000_000)
        self.source.release()
        self.clock.pass_us(MINUTE_US)
        self.assertEqual(3 * 1_400_000 + 100_000, self.totals()[0])

    def test_released_while_the_service_was_down(self):
        self.run_one()
        self.meter.read()
        del self.source.records[UUID]
        self.clock.pass_us(MINUTE_US)
        self.start()
        self.meter.read()
        self.assertEqual((0, None), self.totals())

    def test_hours(self):
        self.run_one()
        self.meter.read()
        self.clock.pass_us(HOUR_US // 2)
        self.use(100)
        self.meter.read()
        self.clock.pass_us(HOUR_US)
        self.use(300)
        self.meter.read()
        half = 1_400_000 * 1800
        self.assertEqual({0: (2 * half, 200), 1: (half, 100)}, self.hours())
        closed = self.meter.list_hours(closed=True)
        self.assertEqual([BEGIN_US // HOUR_US], [each.hour for each in closed])
        self.meter.settle(closed)
        self.meter.read()
        self.start()
        self.assertEqual({1: (half, 100)}, self.hours())

    @ddt.data(-50 * MINUTE_US, -HOUR_US * 30, HOUR_US * 30)
    def test_clock_that_jumps(self, jump_us):
        """It says which hour, never how long; no hour that ended changes."""
        self.run_one()
        self.meter.read()
        self.clock.pass_us(HOUR_US)
        self.use(100)
        self.meter.read()
        closed = self.meter.list_hours(closed=True)
        self.meter.settle(closed)
        before = {(each.meter, each.uuid, each.hour) for each in closed}
        self.clock.wall += jump_us
        self.clock.pass_us(HOUR_US // 2)
        self.use(250)
        self.meter.read()
        after = self.meter.list_hours()
        for each in after:
            self.assertNotIn((each.meter, each.uuid, each.hour), before)
        rows = [*closed, *after]
        self.assertEqual(
            1_400_000 * 5400, sum(each.reserved_us for each in rows)
        )
        self.assertEqual(250, sum(each.used_us or 0 for each in rows))

    def test_reboot(self):
        self.run_one()
        self.meter.read()
        self.use(100)
        self.meter.read()
        self.clock.boot, self.clock.running = 'boot-2', 1_000_000
        self.clock.wall += 10 * MINUTE_US
        self.use(40)
        self.start()
        self.meter.read()
        self.assertEqual((10 * MINUTE_RESERVED, 140), self.totals())

    def test_reboot_with_a_clock_that_is_years_ahead(self):
        self.run_one()
        self.meter.read()
        self.clock.boot = 'boot-2'
        self.clock.wall += 10_000 * 24 * HOUR_US
        self.start()
        self.meter.read()
        self.assertEqual(1_400_000 * 7 * 24 * 3600, self.totals()[0])

    @ddt.data(
        '', '{}', '[]', '7', '{"v": 2}', '\0', '{"v": 1, "now": [1]}',
    )  # fmt: skip
    def test_file_that_cannot_be_read(self, text):
        self.file.path.parent.mkdir(exist_ok=True)
        self.file.path.write_text(text)
        self.start()
        self.assertEqual(1, self.log.output.count('Cannot read'))
        self.run_one(10**12)
        self.meter.read()
        self.use(10**12 + 1)
        self.meter.read()
        self.assertEqual(1, self.totals()[1])

    def test_every_part_of_the_file_may_be_wrong(self):
        self.run_one()
        self.meter.read()
        self.clock.pass_us(MINUTE_US)
        self.meter.read()
        kept = json.loads(self.file.path.read_text())
        server = kept['servers'][UUID]
        texts = [
            {**kept, key: bad}
            for key in kept
            for bad in (None, 'x', [], {}, [[[]]], {UUID: [1]})
        ]
        for index in range(len(server)):
            for bad in ('x', [], {}, [1, {'3': [None, None, 'x']}]):
                wrong = [*server]
                wrong[index] = bad
                texts.append({**kept, 'servers': {UUID: wrong}})
        for text in texts:
            self.file.path.write_text(json.dumps(text))
            self.start()
            self.meter.read()

    def test_file_that_cannot_be_written(self):
        self.file.path.parent.write_text('a file')
        self.run_one()
        for _ in range(3):
            self.meter.read()
        self.assertEqual(1, self.log.output.count('Cannot write'))

    def test_container_that_ends(self):
        self.run_one()
        self.meter.read()
        for error in (OSError(errno.ENODEV, 'gone'), None):
            self.source.usages[UUID] = error
            self.meter.read()
        self.use(7)
        self.meter.read()
        self.assertEqual(7, self.totals()[1])

    def test_libvirt_that_does_not_answer(self):
        self.run_one()
        self.meter.read()
        self.use(70)
        errors = [
            libvirt.libvirtError('no connection'),
            nova_exception.HypervisorUnavailable(),
            libvirt.libvirtError('no connection'),
        ]
        with mock.patch.object(
            self.source, 'list_running', side_effect=errors
        ):
            for _ in errors:
                self.clock.pass_us(MINUTE_US)
                self.meter.read()
        self.assertEqual(1, self.log.output.count('Cannot read the usage'))
        self.use(100)
        self.meter.read()
        self.assertEqual((3 * MINUTE_RESERVED, 100), self.totals())

    def test_a_listener_never_waits(self):
        """Not even while a reading hangs in libvirt or on the disk."""
        self.run_one()
        for where, what in (
            (self.source, 'read_counted'), (meter_file, 'render'),
            (self.file, 'write'),
        ):  # fmt: skip
            begun, go = threading.Event(), threading.Event()
            self.addCleanup(go.set)

            def hang(*args, begun=begun, go=go, what=what):
                begun.set()
                go.wait(120)
                return '' if what == 'render' else None

            with mock.patch.object(where, what, hang):
                reading = threading.Thread(target=self.meter.read)
                reading.start()
                self.assertTrue(begun.wait(60))
                other = threading.Thread(
                    target=self.source.dispatcher.emit,
                    args=(events.Claimed(OTHER, SMALL),),
                )
                other.start()
                other.join(60)
                self.assertFalse(other.is_alive())
                self.assertTrue(reading.is_alive())
                go.set()
                reading.join(60)

    def test_kernel_that_does_not_count(self):
        self.source.claim()
        self.source.run()
        self.meter.read()
        self.clock.pass_us(MINUTE_US)
        self.meter.read()
        self.assertEqual((MINUTE_RESERVED, None), self.totals())

    def test_two_hosts_of_one_directory(self):
        names = {meter_path('/x', name) for name in ('a', 'b', '../a', 'a/b')}
        self.assertEqual(4, len(names))
        for path in names:
            self.assertEqual(pathlib.Path('/x/nova_rt'), path.parent)

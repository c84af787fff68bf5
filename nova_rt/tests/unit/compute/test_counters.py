# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.counters."""

import json
import os
import pathlib
import threading
import time

import fixtures
from oslotest import base

from nova_rt import events
from nova_rt.compute import counters
from nova_rt.formats.counts import Counts
from nova_rt.host.options import Options

UUID = 'd9bb2d4e-8b5f-4a9c-93f3-0c7a7a0d9a11'
STOPPED = events.Stopped(UUID, 'x')


class CountersTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = pathlib.Path(directory) / 'nova_rt' / 'counters.json'
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.compute.counters._AT_MOST_S', 0.02)
        )

    def start(self, **kwargs):
        counter = counters.Counters(self.path, Options(), **kwargs)
        counter.start()
        self.addCleanup(self._end, counter)
        return counter

    @staticmethod
    def _end(counter):
        """Before its directory goes."""
        counter.stop()
        counter._thread.join(60)

    def wait(self, kind, number):
        """Until the file says so; it is whole whenever it is there."""
        for _ in range(6000):
            if self.path.exists():
                found = Counts.decode(self.path.read_text()).by_kind[kind]
                if found == number:
                    return
            time.sleep(0.01)
        self.fail(f'{kind} is {found}')

    def test_counts(self):
        counter = self.start()
        self.wait('stopped', 0)
        for _ in range(100):
            counter(STOPPED)
        self.wait('stopped', 100)
        self.assertEqual(0o644, self.path.stat().st_mode & 0o777)
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_last_check(self):
        counter = self.start()
        self.wait('stopped', 0)
        self.assertEqual(0, Counts.decode(self.path.read_text()).verified_at)
        begin = int(time.time())
        counter.note_verified()
        counter(STOPPED)
        self.wait('stopped', 1)
        found = Counts.decode(self.path.read_text()).verified_at
        self.assertGreaterEqual(found, begin)
        # Of a version that did not write it.
        old = json.loads(self.path.read_text())
        del old['verified_at']
        self.assertEqual(0, Counts.decode(json.dumps(old)).verified_at)
        self.path.write_text(json.dumps({**old, 'verified_at': 7}))
        again = self.start()
        again(STOPPED)
        self.wait('stopped', 2)
        self.assertEqual(7, Counts.decode(self.path.read_text()).verified_at)

    def test_options_are_those_of_this_start(self):
        """The last check, if they are turned off, would only grow old."""
        self.path.parent.mkdir()
        before = Counts(
            {'stopped': 1}, host=Options(smt=True).to_dict(), verified_at=7
        )
        self.path.write_text(before.encode())
        self.start(verifies=False)(STOPPED)
        self.wait('stopped', 2)
        found = Counts.decode(self.path.read_text())
        self.assertEqual(Options(), Options.from_dict(found.host))
        self.assertEqual(0, found.verified_at)

    def test_events_that_were_dropped(self):
        """Also those of earlier starts, and what comes as this one ends."""
        self.path.parent.mkdir()
        self.path.write_text(Counts(dropped=2).encode())
        counter = self.start()
        self.wait('stopped', 0)
        counter.note_dropped(3)
        counter.stop()
        self.assertEqual(5, Counts.decode(self.path.read_text()).dropped)

    def test_goes_on_after_a_restart(self):
        self.start()(STOPPED)
        self.wait('stopped', 1)
        again = counters.Counters(self.path, Options())
        again(STOPPED)  # Before it has read the file.
        again.start()
        self.addCleanup(again.stop)
        self.wait('stopped', 2)

    def test_a_broken_file_is_replaced(self):
        self.path.parent.mkdir()
        self.path.write_text('{')
        with self.assertLogs('nova_rt.compute.counters'):
            self.start()(STOPPED)
            for _ in range(6000):
                if self.path.read_text() != '{':
                    break
                time.sleep(0.01)
        self.wait('stopped', 1)

    def test_is_written_though_nothing_happens(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.compute.counters._AT_LEAST_S', 0.02)
        )
        self.start()
        self.wait('stopped', 0)
        os.utime(self.path, (0, 0))
        for _ in range(6000):
            if self.path.stat().st_mtime:
                return
            time.sleep(0.01)
        self.fail('it is not written')

    def test_nothing_lost_when_stopped(self):
        counter = self.start()
        self.wait('stopped', 0)
        counter(STOPPED)
        counter.stop()
        # The process ends now.
        found = Counts.decode(self.path.read_text())
        self.assertEqual(1, found.by_kind['stopped'])

    def test_a_disk_that_fails_is_said_once_and_tried_again(self):
        self.path.parent.write_text('no directory')
        with self.assertLogs('nova_rt.compute.counters') as logs:
            counter = self.start()
            for _ in range(5):
                counter(STOPPED)
                time.sleep(0.05)
        writes = [line for line in logs.output if 'Cannot write' in line]
        self.assertEqual(1, len(writes), logs.output)
        self.path.parent.unlink()
        counter(STOPPED)
        self.wait('stopped', 6)

    def test_a_disk_that_hangs(self):
        """It holds up no event, and not the end."""
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.compute.counters._LAST_S', 0.1)
        )
        go = threading.Event()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.compute.state_files.os.replace',
                lambda *args: go.wait(30),
            )
        )
        counter = self.start()
        self.addCleanup(go.set)
        began = time.monotonic()
        for _ in range(1000):
            counter(STOPPED)
        counter.stop()
        self.assertLess(time.monotonic() - began, 20)

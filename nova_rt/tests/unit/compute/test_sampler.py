# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.sampler."""

import dataclasses
import datetime

from oslotest import base

from nova_rt.compute import sampler
from nova_rt.host.interface import Usage
from nova_rt.tests.fixtures.reports import NOW, RECORD, UUID, make_uuid
from nova_rt.tests.unit.compute.source import Source

OTHER = make_uuid(2)


class SamplerTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.source = Source()
        self.source.records = {UUID: RECORD}
        self.source.running = {UUID}
        self.sampler = sampler.Sampler(self.source, self.source)

    def _take(self, now_s, usage):
        self.source.usages[UUID] = usage
        now = NOW + datetime.timedelta(seconds=now_s)
        return self.sampler.take(now, 1000.0 + now_s)

    def test_differences(self):
        first = {3: Usage(10, 5, 9_000), 4: Usage(10, 0, 100)}
        self.assertEqual(({}, []), self._take(0, first))
        then = {3: Usage(30, 9, 19_000), 4: Usage(30, 0, 100)}
        found, host = self._take(60, then)
        three, four = found[UUID]
        self.assertEqual(
            (NOW, 3, 60_000_000, 42_000_000, 10_000, 20, 4),
            dataclasses.astuple(three),
        )
        self.assertEqual(
            (4, 0, 20, 0),
            (four.cpu, four.used_us, four.periods, four.throttled),
        )
        self.assertEqual(
            (NOW, 3, 60_000_000, 57_000_000, 42_000_000, 10_000),
            dataclasses.astuple(host[0]),
        )

    def test_a_clock_that_jumps(self):
        """The wall clock says when, and never how long."""
        for hours in (-24, 24):
            self.sampler = sampler.Sampler(self.source, self.source)
            self._take(0, {3: Usage(10, 5, 9_000), 4: Usage(10, 0, 100)})
            self.source.usages[UUID] = {
                3: Usage(30, 9, 19_000),
                4: Usage(30, 0, 100),
            }
            now = NOW + datetime.timedelta(hours=hours)
            found, host = self.sampler.take(now, 1060.0)
            for sample in (*found[UUID], *host):
                self.assertEqual(60_000_000, sample.span_us)
                self.assertEqual(now - datetime.timedelta(minutes=1),
                                 sample.at)  # fmt: skip

    def test_a_container_that_was_started_anew(self):
        self._take(0, {3: Usage(1000, 5, 9_000), 4: Usage(1000, 5, 9_000)})
        found, _ = self._take(60, {3: Usage(7, 1, 50), 4: Usage(7, 1, 50)})
        self.assertEqual(50, found[UUID][0].used_us)
        self.assertEqual(7, found[UUID][0].periods)

    def test_where_the_kernel_does_not_count(self):
        self._take(0, None)
        found, host = self._take(60, None)
        self.assertEqual(
            (42_000_000, None, None, None),
            dataclasses.astuple(found[UUID][0])[3:],
        )
        self.assertIsNone(host[0].used_us)

    def test_one_that_ends_does_not_hide_others(self):
        self.source.records[OTHER] = RECORD
        self.source.running.add(OTHER)
        self.source.usages[OTHER] = OSError(2, 'gone')
        self._take(0, {3: Usage(1, 0, 0), 4: Usage(1, 0, 0)})
        found, _ = self._take(60, {3: Usage(2, 0, 5), 4: Usage(2, 0, 5)})
        self.assertEqual({UUID}, found.keys())

    def test_one_that_stands_still_has_none(self):
        self._take(0, {3: Usage(1, 0, 0)})
        self.source.running = set()
        found, host = self._take(60, {3: Usage(1, 0, 0)})
        self.assertEqual({}, found)
        # It holds its bandwidth all the same.
        self.assertEqual(
            (42_000_000, 0), (host[0].reserved_us, host[0].used_us)
        )

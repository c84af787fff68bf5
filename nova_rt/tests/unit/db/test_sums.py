# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.sums."""

import sqlalchemy as sa

from nova_rt.db import api, models, session, sums
from nova_rt.db.objects import Resolution, Retention
from nova_rt.tests.fixtures.reports import (
    MINUTE,
    NOW,
    UUID,
    host_sample,
    sample,
    state,
)
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.samples import ALL, DAY, HOUR, KEEP, count


class SumTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        api.record_state('one', state(), NOW)
        # Three hours from 7 seconds past 12.
        minutes = range(180)
        api.record_samples(
            'one', {UUID: map(sample, minutes)}, map(host_sample, minutes)
        )
        self.now = NOW + 180 * MINUTE + sums.GRACE

    def test_adds_up(self):
        api.sum_up(self.now, KEEP)
        begin = NOW.replace(second=0)
        five = api.read_samples(UUID, *ALL, '5min')
        self.assertEqual(36, len(five))
        self.assertEqual(
            [begin + 5 * n * MINUTE for n in range(36)],
            [each.at for each in five],
        )
        hours = api.read_samples(UUID, *ALL, 'hour')
        self.assertEqual([begin + n * HOUR for n in range(3)],
                         [each.at for each in hours])  # fmt: skip
        raw = api.read_samples(UUID, *ALL, 'raw')
        for field in ('span_us', 'reserved_us', 'used_us', 'periods',
                      'throttled'):  # fmt: skip
            sums = {
                sum(getattr(each, field) for each in found)
                for found in (raw, five, hours)
            }
            self.assertEqual(1, len(sums), field)
        host = api.read_host_samples('one', *ALL, 'hour')
        self.assertEqual(3, len(host))
        self.assertEqual(60 * 57_000_000, host[0].capacity_us)
        self.assertIsNone(host[0].used_us)

    def test_only_complete_buckets(self):
        api.sum_up(self.now - MINUTE, KEEP)
        self.assertEqual(35, len(api.read_samples(UUID, *ALL, '5min')))
        self.assertEqual(2, len(api.read_samples(UUID, *ALL, 'hour')))

    def test_again_changes_nothing(self):
        api.sum_up(self.now, KEEP)
        before = [api.read_samples(UUID, *ALL, each) for each in Resolution]
        with session.writer() as writer:
            # As if another conductor had not seen that it is done.
            writer.execute(sa.update(models.Progress).values(done_us=0))
        api.sum_up(self.now, KEEP)
        after = [api.read_samples(UUID, *ALL, each) for each in Resolution]
        self.assertEqual(before, after)

    def test_step_by_step_is_the_same(self):
        for minute in range(0, 200, 7):
            api.sum_up(NOW + minute * MINUTE, KEEP)
        api.sum_up(self.now, KEEP)
        self.assertEqual(36, len(api.read_samples(UUID, *ALL, '5min')))
        found = api.read_samples(UUID, *ALL, 'hour')
        self.assertEqual({60 * 60_000_000}, {each.span_us for each in found})

    def test_a_bucket_is_not_made_of_what_a_purge_left(self):
        api.sum_up(self.now, KEEP)
        before = api.read_samples(UUID, *ALL, '5min')
        keep = {**KEEP, Resolution.RAW: 62 * MINUTE}
        list(api.purge(self.now, Retention(keep, DAY)))
        self.assertLess(count(models.Sample), 180)
        with session.writer() as writer:
            writer.execute(sa.update(models.Progress).values(done_us=0))
        api.sum_up(self.now, keep)
        self.assertEqual(before, api.read_samples(UUID, *ALL, '5min'))

    def test_what_suits_the_span(self):
        api.sum_up(self.now - 30 * MINUTE, KEEP)
        end = NOW + DAY
        raw = api.read_samples(UUID, NOW, NOW + HOUR)
        self.assertEqual({60_000_000}, {each.span_us for each in raw})
        for since in end - 2 * DAY, end - 20 * DAY:
            found = api.read_samples(UUID, since, end)
            # All of it, once.
            self.assertEqual(
                180 * 60_000_000, sum(each.span_us for each in found)
            )
            self.assertLess(len(found), 80)
            self.assertEqual(60_000_000, found[-1].span_us)
            times = [each.at for each in found]
            self.assertEqual(sorted(times), times)

    def test_a_clock_that_was_ahead(self):
        api.sum_up(self.now + 400 * DAY, KEEP)
        self.assertEqual([], api.read_samples(UUID, *ALL, '5min'))
        api.sum_up(self.now, KEEP)
        self.assertEqual(36, len(api.read_samples(UUID, *ALL, '5min')))
        self.assertEqual(3, len(api.read_samples(UUID, *ALL, 'hour')))

    def test_a_clock_that_jumps_back_makes_nothing_wrong(self):
        api.sum_up(self.now, KEEP)
        before = api.read_samples(UUID, *ALL, '5min')
        api.sum_up(self.now - 5 * DAY, KEEP)
        self.assertEqual(before, api.read_samples(UUID, *ALL, '5min'))

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.samples and nova_rt.db.retention."""

import datetime

import sqlalchemy as sa

from nova_rt import exception
from nova_rt.db import api, models, retention, samples, session
from nova_rt.db.objects import Resolution, Retention
from nova_rt.tests.fixtures.reports import (
    MINUTE,
    NOW,
    UUID,
    event,
    held,
    host_sample,
    make_uuid,
    sample,
    state,
)
from nova_rt.tests.unit.db import base

HOUR = 60 * MINUTE
DAY = 24 * HOUR
KEEP = {
    Resolution.RAW: 2 * DAY,
    Resolution.FIVE_MINUTES: 30 * DAY,
    Resolution.HOUR: 400 * DAY,
}
ALL = (NOW - 900 * DAY, NOW + 900 * DAY)
OTHER = make_uuid(2)


def count(model):
    with session.reader() as reader:
        return reader.scalar(sa.select(sa.func.count()).select_from(model))


class SamplesTest(base.DatabaseTest):
    def test_are_read_as_they_came(self):
        some = [sample(0), sample(0, cpu=4, used_us=None), sample(1)]
        api.record_samples('one', {UUID: some})
        self.assertEqual(some, api.read_samples(UUID, *ALL, 'raw'))
        self.assertEqual(60.0, some[0].span_s)
        self.assertEqual([], api.read_samples(OTHER, *ALL))

    def test_repeated_does_nothing(self):
        api.record_state('one', state(), NOW)
        for used_us in 1, 2:
            api.record_samples(
                'one', {UUID: [sample(0, used_us=used_us)]}, [host_sample(0)]
            )
        (found,) = api.read_samples(UUID, *ALL, 'raw')
        self.assertEqual(1, found.used_us)
        self.assertEqual(
            [host_sample(0)], api.read_host_samples('one', *ALL, 'raw')
        )

    def test_a_span_has_its_begin_and_not_its_end(self):
        api.record_samples('one', {UUID: [sample(0), sample(1)]})
        found = api.read_samples(UUID, NOW, NOW + MINUTE, 'raw')
        self.assertEqual([sample(0)], found)

    def test_of_a_host_that_is_not_known_are_dropped(self):
        api.record_samples('one', {}, [host_sample(0)])
        self.assertEqual(0, count(models.HostSample))

    def test_many_at_once(self):
        of_servers = {
            make_uuid(number): [sample(minute) for minute in range(5)]
            for number in range(300)
        }
        api.record_samples('one', of_servers)
        self.assertEqual(1500, count(models.Sample))
        self.assertEqual(5, len(api.read_samples(make_uuid(299), *ALL, 'raw')))


class SumTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        api.record_state('one', state(), NOW)
        # Three hours from 7 seconds past 12.
        minutes = range(180)
        api.record_samples(
            'one', {UUID: map(sample, minutes)}, map(host_sample, minutes)
        )
        self.now = NOW + 180 * MINUTE + samples.GRACE

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


class PurgeTest(base.DatabaseTest):
    def _purge(self, now, **changes):
        kept = Retention({**KEEP}, 400 * DAY)
        return list(api.purge(now, kept))

    def test_samples(self):
        self._delete_at_once(50)
        many = {
            make_uuid(number): [sample(minute) for minute in range(-size, 0)]
            for number, size in enumerate((1, 120, 49, 50, 51, 3))
        }
        api.record_samples('one', many)
        self.assertEqual([], self._purge(NOW + 3 * DAY))
        self.assertEqual(274, count(models.Sample), 'not summed up')
        api.sum_up(NOW + HOUR, KEEP)
        sums = count(models.Sample) - 274
        deleted = self._purge(NOW + 2 * DAY - 10 * MINUTE)
        # Ten minutes of each are left.
        self.assertEqual(274 - 1 - 4 * 10 - 3, sum(deleted))
        self.assertLessEqual(max(deleted), 50 + 1)
        raw = [len(api.read_samples(uuid, *ALL, 'raw')) for uuid in many]
        self.assertEqual([1, 10, 10, 10, 10, 3], raw)
        self.assertEqual(sums, count(models.Sample) - sum(raw))

    def _delete_at_once(self, rows):
        before = retention.STEP
        retention.STEP = rows
        self.addCleanup(setattr, retention, 'STEP', before)

    def test_killed_in_the_middle(self):
        self._delete_at_once(10)
        api.record_samples(
            'one', {UUID: [sample(minute) for minute in range(-95, 0)]}
        )
        api.sum_up(NOW + HOUR, KEEP)
        kept = Retention(KEEP, 400 * DAY)
        going = api.purge(NOW + 9 * DAY, kept)
        self.assertEqual([10, 10], [next(going), next(going)])
        going.close()
        self.assertEqual(75, len(api.read_samples(UUID, *ALL, 'raw')))
        self._purge(NOW + 9 * DAY)
        self.assertEqual([], api.read_samples(UUID, *ALL, 'raw'))

    def test_history_and_servers(self):
        api.record_state('one', state(held()), NOW)
        events = [
            event(1, 'claimed', at=NOW - 401 * DAY),
            event(2, 'applied', at=NOW - 399 * DAY),
            event(3, 'claimed', OTHER, at=NOW - 500 * DAY),
            event(4, 'released', OTHER, at=NOW - 499 * DAY),
        ]
        api.record_events('one', 1, events, NOW)
        self._purge(NOW)
        self.assertEqual(
            ['applied'], [each.kind for each in api.get_history(UUID)]
        )
        self.assertEqual('applied', api.get_server(UUID).state)
        self.assertRaises(exception.ServerNotFound, api.get_server, OTHER)
        self.assertRaises(exception.ServerNotFound, api.get_history, OTHER)
        self.assertEqual(1, count(models.Server))

    def test_a_server_stays_while_it_has_samples(self):
        api.record_samples('one', {UUID: [sample(0)]})
        self._purge(NOW + DAY)
        self.assertEqual(1, count(models.Server))

    def test_a_host_that_is_gone(self):
        api.record_state('gone', state(held()), NOW - 401 * DAY)
        api.record_events('gone', 1, [event(1, 'claimed', at=NOW - 402 * DAY)],
                          NOW - 401 * DAY)  # fmt: skip
        api.record_state('here', state(held(uuid=OTHER)), NOW)
        self._purge(NOW)
        self.assertEqual(['here'], [each.name for each in api.list_hosts()])
        self.assertEqual([OTHER], [each.uuid for each in api.list_servers()])
        self.assertEqual(1, count(models.Server))
        self.assertEqual([], self._purge(NOW))

    def test_everything_at_last(self):
        api.record_state('one', state(held()), NOW)
        api.record_samples('one', {UUID: [sample(0)]}, [host_sample(0)])
        api.sum_up(NOW + HOUR, KEEP)
        api.sum_up(NOW + HOUR + datetime.timedelta(minutes=5), KEEP)
        later = NOW + 5 * 400 * DAY
        with session.writer() as writer:
            writer.execute(sa.update(models.Progress).values(
                done_us=models.to_us(later)))  # fmt: skip
        self._purge(later)
        for model in (models.Host, models.HostCPU, models.Server,
                      models.Reservation, models.Sample, models.HostSample,
                      models.History):  # fmt: skip
            self.assertEqual(0, count(model), model)

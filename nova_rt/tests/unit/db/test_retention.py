# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.retention."""

import datetime

import sqlalchemy as sa

from nova_rt import exception
from nova_rt.db import api, models, retention, session
from nova_rt.db.objects import Retention
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
from nova_rt.tests.unit.db.samples import ALL, DAY, HOUR, KEEP, count

OTHER = make_uuid(2)


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

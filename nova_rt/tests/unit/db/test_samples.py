# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.samples."""

from nova_rt.db import api, models
from nova_rt.tests.fixtures.reports import (
    MINUTE,
    NOW,
    UUID,
    host_sample,
    make_uuid,
    sample,
    state,
)
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.samples import ALL, count

OTHER = make_uuid(2)


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

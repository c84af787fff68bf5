# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.usage."""

import dataclasses
import datetime
import random

from nova_rt.db import api, models, usage
from nova_rt.db.objects import HourUsage, Usage
from nova_rt.tests.fixtures.reports import (
    HOUR,
    NOW,
    UUID,
    account,
    make_uuid,
)
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.usage import ALL, DAY, count

OTHER = make_uuid(2)
AT = datetime.datetime(2027, 3, 1, 12, tzinfo=datetime.UTC)
HOURS = datetime.timedelta(hours=1)


class UsageTest(base.DatabaseTest):
    def hours(self, *span, **of):
        return list(api.iterate_hours(*(span or ALL), **of))

    def test_is_read_as_it_came(self):
        api.record_usage('one', [account(), account(uuid=OTHER, used_us=None)])
        self.assertEqual(
            [
                HourUsage(OTHER, 'one', 1, 42_000_000, None, 30, 3, AT),
                HourUsage(UUID, 'one', 1, 42_000_000, 6_000_000, 30, 3, AT),
            ],
            self.hours(),
        )

    def test_twice_and_in_any_order(self):
        growing = [
            account(reserved_us=n, used_us=n or None, periods=n, throttled=n)
            for n in range(5)
        ]
        for seed in range(5):
            host = f'host{seed}'
            new = growing * 2
            random.Random(seed).shuffle(new)
            for each in new:
                api.record_usage(host, [each])
            (found,) = self.hours(host=host)
            self.assertEqual(
                (4, 4, 4, 4),
                (found.reserved_us, found.used_us, found.periods,
                 found.throttled),
            )  # fmt: skip

    def test_the_same_hour_twice_in_a_message(self):
        api.record_usage('one', [account(used_us=1), account(used_us=2)])
        self.assertEqual([2], [each.used_us for each in self.hours()])

    def test_another_meter_adds(self):
        api.record_usage('one', [account(), account(meter=8)])
        (found,) = self.hours()
        self.assertEqual(12_000_000, found.used_us)

    def test_two_hosts(self):
        api.record_usage('one', [account()])
        api.record_usage('two', [account(), account(1, used_us=None)])
        self.assertEqual(
            [
                Usage(UUID, 'one', 1, 42_000_000, 6_000_000, 30, 3),
                Usage(UUID, 'two', 2, 84_000_000, 6_000_000, 60, 6),
            ],
            api.list_usage(*ALL),
        )
        self.assertEqual(1, len(api.list_usage(*ALL, host='one')))
        self.assertEqual([], api.list_usage(*ALL, server=OTHER))
        self.assertEqual(
            [(AT, 'one'), (AT, 'two'), (AT + HOURS, 'two')],
            [(each.at, each.host) for each in self.hours(server=UUID)],
        )

    def test_span(self):
        """Of hours that begin in it."""
        api.record_usage('one', [account(n) for n in range(-30, 30)])
        for since, until, wanted in (
            (AT, AT + HOURS, 1),
            (NOW, NOW + HOURS, 1),
            (AT, NOW, 1),
            (AT, AT, 0),
            (AT - 3 * HOURS, AT + 2 * HOURS, 5),
            (*ALL, 60),
        ):
            for server in (None, UUID):
                found = self.hours(since, until, server=server)
                self.assertEqual(wanted, len(found), (since, until, server))
            total = sum(e.hours for e in api.list_usage(since, until))
            self.assertEqual(wanted, total)
        ordered = self.hours()
        self.assertEqual(sorted(ordered, key=lambda each: each.at), ordered)

    def test_nothing(self):
        self.assertEqual([], self.hours())
        self.assertEqual([], self.hours(server=UUID))
        self.assertEqual([], api.list_usage(*ALL))
        api.record_usage('one', [])

    def test_many_at_once(self):
        some = [account(uuid=make_uuid(number)) for number in range(500)]
        api.record_usage('one', some)
        api.record_usage(
            'one', [dataclasses.replace(each, periods=99) for each in some]
        )
        self.assertEqual(500, count(models.ServerHourRow))
        self.assertEqual({99}, {each.periods for each in self.hours()})

    def test_hours(self):
        self.assertEqual(HOUR, usage.to_hour(AT))
        self.assertEqual(HOUR + 1, usage.to_hour(NOW))
        self.assertEqual(AT, usage.from_hour(HOUR))
        self.assertEqual(HOUR + 24, usage.to_hour(AT + DAY))

# SPDX-License-Identifier: Apache-2.0
"""Tests of the history in nova_rt.db.api."""

import dataclasses
import itertools

import sqlalchemy as sa

from nova_rt import exception
from nova_rt.db import api, models, session
from nova_rt.formats.history import MAX_DETAILS, Origin
from nova_rt.tests.fixtures.history import NOW, UUID, event, make_uuid
from nova_rt.tests.unit.db import base

LIFE = [
    event(1, 'claimed', origin=Origin('req-1', 'user', 'project')),
    event(2, 'applied', host='h' * 255, details='x' * MAX_DETAILS),
    event(3, 'stopped', details='é\u20ac'),
    event(4, 'released'),
]


def count():
    with session.reader() as reader:
        return reader.scalar(sa.select(sa.func.count(models.EventRow.id)))


class HistoryTest(base.DatabaseTest):
    def test_all_fields(self):
        for each in LIFE:
            api.add_event(each, NOW)
        self.assertEqual(LIFE[::-1], api.get_history(UUID))

    def test_any_order_and_nothing_twice(self):
        """The order of arrival does not show."""
        for number, order in enumerate(itertools.permutations(LIFE)):
            server = make_uuid(100 + number)
            for each in (*order, *order[:2]):
                made = dataclasses.replace(
                    each, server=server, id=f'{number:04}{each.id[4:]}'
                )
                api.add_event(made, NOW)
            self.assertEqual(
                ['released', 'stopped', 'applied', 'claimed'],
                [each.kind for each in api.get_history(server)],
            )
            (found, *_) = api.get_intervals(server)
            self.assertEqual((LIFE[0].at, LIFE[3].at),
                             (found.since, found.until))  # fmt: skip
        self.assertEqual(24 * 4, count())

    def test_unreadable_cpus(self):
        """One event that cannot be read does not hide the others."""
        strange = dataclasses.replace(LIFE[1], cpus=(100_000,))
        for each in LIFE[0], strange:
            api.add_event(each, NOW)
        self.assertEqual(
            [dataclasses.replace(strange, cpus=None), LIFE[0]],
            api.get_history(UUID),
        )

    def test_limit(self):
        for each in LIFE:
            api.add_event(each, NOW)
        (found,) = api.get_history(UUID, 1)
        self.assertEqual('released', found.kind)

    def test_latest(self):
        for each in (*LIFE, event(9, 'claimed', server=make_uuid(1))):
            api.add_event(each, NOW)
        kinds = ('applied', 'stopped', 'released')
        self.assertEqual(
            {UUID: LIFE[2:]}, api.get_latest([UUID], LIFE[2].at, kinds)
        )
        self.assertEqual(
            {UUID: LIFE[3:]}, api.get_latest([UUID], LIFE[2].at, kinds[2:])
        )
        self.assertEqual({}, api.get_latest([make_uuid(2)], NOW, kinds))

    def test_unknown_server(self):
        api.add_event(LIFE[0], NOW)
        for read in api.get_history, api.get_intervals:
            self.assertRaises(exception.ServerNotFound, read, make_uuid(1))

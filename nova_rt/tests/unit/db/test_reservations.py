# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.reservations."""

import contextlib

import sqlalchemy as sa

from nova_rt.db import api, session
from nova_rt.reservation import extra_specs
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures import reports, specs
from nova_rt.tests.fixtures.reports import NOW, RECORD, UUID
from nova_rt.tests.unit.db import base

#: What the columns say of RECORD.
COLUMNS = {
    'reservation': '1400/2000',
    'enforcement': 'limit',
    'policy': 'rr',
    'priority': 1,
}
TEXT = RECORD.encode()


class ReservationTest(base.DatabaseTest):
    def setUp(self):
        super().setUp()
        self.seq = 0

    def put(self, record):
        """Have it reported."""
        self.seq += 1
        news = reports.state(reports.held(record=record), seq=self.seq)
        self.assertTrue(api.record_state('one', news, NOW))

    def change(self, **columns):
        """Write columns alone, as conductors of other versions do."""
        words = ', '.join(f'{name} = :{name}' for name in columns)
        with session.writer() as writer:
            writer.execute(
                sa.text(f'UPDATE reservations SET {words}'), columns
            )

    def read_text(self):
        with session.reader() as reader:
            return reader.scalar(sa.text('SELECT record FROM reservations'))

    def read(self):
        return api.get_server(UUID).specs

    def test_every_extra_spec(self):
        request = specs.make_unusual()
        self.put(Record(request, (3, 4)))
        self.assertEqual([*extra_specs.SPECS], [*self.read()])
        self.assertEqual(request.plain(), self.read())

    def test_extra_spec_that_this_conductor_does_not_know(self):
        known = RECORD.request.plain()
        self.put(Record.decode(TEXT + ';x1=100/1000'))
        self.assertEqual(known, self.read())
        with contextlib.ExitStack() as stack:
            one_more = specs.OneMore()
            stack.callback(one_more.cleanUp)
            one_more.setUp()
            self.assertEqual(known | {'one_more': '100/1000'}, self.read())
        self.assertNotIn('one_more', self.read())

    def test_row_of_the_version_before(self):
        self.put(RECORD)
        self.change(record=None)
        self.assertEqual(COLUMNS, self.read())

    def test_row_that_the_version_before_has_changed(self):
        for changed in (
            {'runtime_us': 1300, 'ppm': 650_000},
            {'policy': 'fifo'},
            {'cpus': '3'},
        ):
            self.put(Record(specs.make_unusual(), (3, 4)))
            self.put(RECORD)
            self.assertEqual(RECORD.request.plain(), self.read())
            self.change(**changed)
            self.assertEqual({*COLUMNS}, {*self.read()})
        self.change(runtime_us=1300, policy='fifo', priority=7)
        self.assertEqual(
            COLUMNS
            | {'reservation': '1300/2000', 'policy': 'fifo', 'priority': 7},
            self.read(),
        )
        # The next report mends it.
        self.put(RECORD)
        self.assertEqual(RECORD.request.plain(), self.read())

    def test_record_that_only_a_later_version_reads(self):
        for text in (
            TEXT.replace('v=1', 'v=99'),
            TEXT.replace('s=rr', 's=batch'),
            'nonsense',
        ):
            self.put(RECORD)
            self.change(record=text)
            self.assertEqual(COLUMNS, self.read())
        self.change(policy='batch')
        self.assertEqual(COLUMNS | {'policy': 'batch'}, self.read())

    def test_record_that_does_not_fit(self):
        long = Record(RECORD.request, (3, 4), (('zz', 'x' * 240),))
        self.put(RECORD)
        self.put(long)
        self.assertIsNone(self.read_text())
        self.assertEqual(COLUMNS, self.read())

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.record."""

import ddt
from oslotest import base

from nova_rt import admission, exception, extra_specs, record
from nova_rt.request import Request
from nova_rt.reservation import Reservation

REQUEST = Request(
    Reservation(1400, 2000),
    3,
    enforcement=extra_specs.Enforcement.LIMIT,
    policy=extra_specs.TaskPolicy.FIFO,
    priority=42,
)
TEXT = 'v=1;q=1400;p=2000;n=3;e=limit;s=fifo;r=42;c=1-2,7'


@ddt.ddt
class RecordTest(base.BaseTestCase):
    def test_text(self):
        self.assertEqual(TEXT, record.Record(REQUEST, (1, 2, 7)).encode())

    def test_there_and_back(self):
        for cpus in ((), (0,), (1, 2, 7)):
            rec = record.Record(REQUEST, cpus)
            self.assertEqual(rec, record.Record.decode(rec.encode()))

    def test_cpus_are_sorted(self):
        rec = record.Record(REQUEST).on((7, 1, 2))
        self.assertEqual((1, 2, 7), rec.cpus)
        self.assertEqual(REQUEST, rec.request)

    def test_claim(self):
        self.assertEqual(
            admission.Claim((1, 2, 7), 700_000),
            record.Record.decode(TEXT).claim,
        )

    def test_fits_the_column(self):
        request = Request(Reservation(4_194_304, 4_194_304), 512, priority=99)
        cpus = tuple(range(512, 1024))
        self.assertLessEqual(
            len(record.Record(request, cpus).encode()), record.MAX_LENGTH
        )

    def test_too_long(self):
        rec = record.Record(REQUEST, tuple(range(1000, 1200, 2)))
        err = self.assertRaises(exception.InvalidRecord, rec.encode)
        self.assertIn('255', str(err))

    @ddt.data(
        '',
        'garbage',
        TEXT.replace('v=1', 'v=2'),
        TEXT.replace('q=1400', 'q=x'),
        TEXT.replace('q=1400', 'q=3000'),
        TEXT.replace('p=2000', 'p=1'),
        TEXT.replace(';n=3', ''),
        TEXT.replace('n=3', 'n=x'),
        TEXT.replace('e=limit', 'e=strict'),
        TEXT.replace('s=fifo', 's=fair'),
        TEXT.replace('r=42', 'r=0'),
        TEXT.replace('c=1-2,7', 'c=2-1'),
        TEXT.replace('c=1-2,7', 'c=x'),
        TEXT + '=',
        TEXT + ';',
    )
    def test_bad(self, text):
        self.assertRaises(exception.InvalidRecord, record.Record.decode, text)

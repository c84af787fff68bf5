# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.record."""

import dataclasses
import random

from oslotest import base

from nova_rt import exception
from nova_rt.reservation import extra_specs, record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

REQUEST = Request(
    Reservation(1400, 2000),
    3,
    enforcement=extra_specs.Enforcement.LIMIT,
    policy=extra_specs.TaskPolicy.FIFO,
    priority=42,
)
TEXT = 'v=1;q=1400;p=2000;n=3;e=limit;s=fifo;r=42;c=1-2,7'

#: The request whose fields take the most room.
WIDEST = Request(
    Reservation(4_194_304, 4_194_304),
    64,
    enforcement=extra_specs.Enforcement.GUARANTEE,
    policy=extra_specs.TaskPolicy.OTHER,
    priority=99,
    numa=extra_specs.Numa.SAME,
    runtime_min=4_194_304,
    runtime_max=4_194_304,
    adapt=extra_specs.Adapt.THROTTLED,
    startup_runtime=4_194_304,
    startup_s=3600,
    spare=Reservation(4_194_304, 4_194_304),
    spare_priority=99,
)


class RecordTest(base.BaseTestCase):
    def test_there_and_back(self):
        for cpus, end in ((), ''), ((0,), '0'), ((1, 2, 7), '1-2,7'):
            rec = record.Record(REQUEST, cpus)
            text = TEXT.replace('1-2,7', end)
            self.assertEqual(text, rec.encode())
            self.assertEqual(rec, record.Record.decode(text))

    def test_nodes(self):
        """Older versions know no nodes, and refuse a flavor with them."""
        numa = extra_specs.Numa
        for value, field in (
            (numa.PREFER, ''), (numa.SAME, 'm=same;'), (numa.ANY, 'm=any;')
        ):  # fmt: skip
            request = dataclasses.replace(REQUEST, numa=value)
            rec = record.Record(request, (1, 2, 7))
            text = TEXT.replace('c=', f'{field}c=')
            self.assertEqual(text, rec.encode())
            self.assertEqual(rec, record.Record.decode(text))

    def test_cpus_are_sorted(self):
        rec = record.Record(REQUEST).claimed_on((7, 1, 2))
        self.assertEqual((1, 2, 7), rec.cpus)
        self.assertEqual(REQUEST, rec.request)

    def test_bandwidth(self):
        rec = record.Record.decode(TEXT)
        self.assertEqual((700_000, 2_100_000), (rec.ppm, rec.total_ppm))
        self.assertEqual(0, record.Record(REQUEST).total_ppm)

    def test_bad(self):
        texts = ['', 'garbage', ';'.join([TEXT] * 50_000)]
        for field, values in {
            'v=1': ('v=4', 'v=0', 'v=-1', 'v='),
            'v=1;': ('',),
            'q=1400': (
                'q=x', 'q=3000', 'q=-1400', 'q=+1400', 'q=1_400', 'q= 1400',
                'q=\u0661\u0664\u0660\u0660', 'q=', f'q={"1" * 150}',
            ),
            'p=2000': ('p=1',),
            ';n=3': ('', ';n=x', ';n=0'),
            'e=limit': ('e=strict', 'e='),
            's=fifo': ('s=fair',),
            'r=42': ('r=0', 'r=\u0664'),
            ';c=1-2,7': (
                '', ';c=2-1', ';c=x', ';c=-1', ';c=3~==', f';c=1~{"_" * 100}',
            ),
        }.items():  # fmt: skip
            texts += [TEXT.replace(field, value) for value in values]
        texts += [
            TEXT + end
            for end in (
                '=', ';', '\n', ';c=1', ';q=1400', ';v=1', ';x=1;x=1', ';x',
                ';=1', ';x=a=b', ';x=a b', ';x=\u00e4', ';\u00e4=1', ';Xx=1',
                ';1=1', ';X=1', ';x=' + 'y' * 255,
            )
        ]  # fmt: skip
        for text in texts:
            with self.subTest(text=text[:300]):
                err = self.assertRaises(
                    exception.InvalidRecord, record.Record.decode, text
                )
                self.assertLess(len(str(err)), 700)

    def test_every_slip_is_read_or_refused(self):
        rng = random.Random(1)
        alphabet = 'vqpnescrQPNESCRx0123456789=;,-~ _\n\u0661'
        for _ in range(5000):
            text = list(TEXT)
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(text))
                text[at : at + rng.randint(0, 2)] = rng.choice(alphabet)
            try:
                record.Record.decode(''.join(text))
            except exception.InvalidRecord:
                continue


class VersionsTest(base.BaseTestCase):
    """Records of other versions than this one."""

    #: Written by version 1, which knew one slot and no packed CPUs.
    OLD = (
        TEXT,
        'v=1;q=20000;p=100000;n=1;e=limit;s=rr;r=1;c=',
        'v=1;q=600000;p=1000000;n=1;e=guarantee;s=other;r=99;c=2',
        'v=1;q=2;p=100;n=4;e=guarantee;s=rr;r=1;c=0,2-3,1023',
        'v=1;q=4194304;p=4194304;n=512;e=guarantee;s=rr;r=99;c=512-1023',
    )

    def test_version_1_is_read_and_reads_what_is_written(self):
        for text in self.OLD:
            rec = record.Record.decode(text)
            self.assertEqual((), rec.unknown)
            self.assertEqual(text, rec.encode())

    def test_one_that_this_version_can_read(self):
        for version in ('1', '2', '3', '01'):
            text = TEXT.replace('v=1', f'v={version}')
            self.assertEqual(REQUEST, record.Record.decode(text).request)

    def test_one_that_needs_a_newer_version(self):
        err = self.assertRaises(
            exception.InvalidRecord,
            record.Record.decode,
            TEXT.replace('v=1', 'v=4') + ';x=1',
        )
        self.assertIn('version 4', str(err))
        self.assertIn('up to version 3', str(err))

    def test_what_is_not_known_is_kept(self):
        for text in f'{TEXT};x=1', f'{TEXT};y2=;x=a/b,c:d-~_%':
            rec = record.Record.decode(text)
            self.assertEqual(REQUEST, rec.request)
            self.assertEqual((1, 2, 7), rec.cpus)
            self.assertEqual(text, rec.encode())
            self.assertEqual(
                text.replace('c=1-2,7', 'c=3-5'),
                rec.claimed_on((3, 4, 5)).encode(),
            )

    def test_an_extra_spec_that_is_missing_has_its_default(self):
        rec = record.Record.decode('v=1;q=1400;p=2000;n=3;c=1-2,7')
        self.assertEqual(Request(Reservation(1400, 2000), 3), rec.request)


class LengthTest(base.BaseTestCase):
    """Many scattered CPUs."""

    def assert_fits(self, rec):
        text = rec.encode()
        self.assertLessEqual(len(text), record.MAX_LENGTH)
        self.assertEqual(rec, record.Record.decode(text))
        return text

    def test_a_list_as_long_as_it_fits(self):
        for number, version in (60, 'v=1;'), (70, 'v=2;'):
            rec = record.Record(REQUEST, tuple(range(0, 2 * number, 2)))
            self.assertIn(version, self.assert_fits(rec))

    def test_64_scattered(self):
        cpus = tuple(range(0, 128, 2))
        self.assertEqual(
            'v=3;q=4194304;p=4194304;n=64;e=guarantee;s=other;r=99;m=same;'
            'l=4194304;h=4194304;a=throttled;o=4194304;t=3600;'
            'b=4194304/4194304;k=99;c=64~Bfl4gxva--0MQhs7_75ZVA',
            self.assert_fits(record.Record(WIDEST, cpus)),
        )

    def test_128_of_1024(self):
        rng = random.Random(1)
        request = dataclasses.replace(WIDEST, vcpus=128)
        # No set of 128 CPUs below 1024 packs longer than the last one.
        sets = [tuple(range(896, 1024)), tuple(range(1, 1024, 8))]
        sets += [tuple(range(769, 1024, 2))]
        sets += [
            tuple(sorted(rng.sample(range(1024), 128))) for _ in range(200)
        ]
        for cpus in sets:
            self.assert_fits(record.Record(request, cpus))

    def test_room_for_fields_of_a_newer_version(self):
        cpus = tuple(range(897, 1024, 2))
        unknown = tuple((f'x{number}', '12') for number in range(9))
        self.assert_fits(record.Record(WIDEST, cpus, unknown))

    def test_too_long(self):
        rec = record.Record(REQUEST, tuple(range(0, 2000, 3)))
        err = self.assertRaises(exception.InvalidRecord, rec.encode)
        self.assertIn('255', str(err))
        self.assertIn('too scattered', str(err))

    def test_too_many_to_be_packed(self):
        cpus = tuple(cpu for cpu in range(1100) if cpu % 20)
        rec = record.Record(REQUEST, cpus)
        self.assertRaises(exception.InvalidRecord, rec.encode)

    def test_any_record(self):
        rng = random.Random(1)
        for _ in range(300):
            self.assert_fits(record.Record(*self._any(rng)))

    def _any(self, rng):
        period_us = rng.randint(100, 4_194_304)
        request = Request(
            Reservation(rng.randint(2, period_us), period_us),
            rng.randint(1, 64),
            enforcement=rng.choice([*extra_specs.Enforcement]),
            policy=rng.choice([*extra_specs.TaskPolicy]),
            priority=rng.randint(1, 99),
        )
        count = rng.choice((0, request.vcpus))
        cpus = tuple(sorted(rng.sample(range(1024), count)))
        unknown = rng.choice(((), (('x', '5'),), (('abc', ''),)))
        return request, cpus, unknown

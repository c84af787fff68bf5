# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.cpulist."""

import random

import ddt
from nova import exception
from nova.virt import hardware
from oslotest import base

from nova_rt.reservation import cpulist


@ddt.ddt
class CPUListTest(base.BaseTestCase):
    @ddt.data(
        ('', ()),
        ('0', (0,)),
        ('0-3', (0, 1, 2, 3)),
        ('0-1,3,5-7', (0, 1, 3, 5, 6, 7)),
        ('7,15', (7, 15)),
    )
    @ddt.unpack
    def test_there_and_back(self, text, cpus):
        self.assertEqual(cpus, cpulist.parse(text))
        self.assertEqual(text, cpulist.render(cpus))

    def test_order_and_repetition(self):
        self.assertEqual((1, 2, 3, 4), cpulist.parse('3-4,1,2-3'))
        self.assertEqual('1-4', cpulist.render([4, 1, 3, 2, 3]))

    def test_bad(self):
        for text in (
            ' ', ',', '1,', '1-', '-1', '3-1', 'a', '1 2', '0-3:1/2', '1\n',
            '123456', '\u0661',
        ):  # fmt: skip
            self.assertRaises(ValueError, cpulist.parse, text)

    @ddt.data(
        ('', ()),
        ('1-4', (1, 2, 3, 4)),
        ('^3,1-4,6', (1, 2, 4, 6)),
        (' 0 - 7 , ^ 2-3,,^9, ', (0, 1, 4, 5, 6, 7)),
        ('1,^1', ()),
    )
    @ddt.unpack
    def test_lists_of_nova(self, text, cpus):
        self.assertEqual(cpus, cpulist.parse_nova(text))
        if text:
            self.assertEqual(set(cpus), hardware.parse_cpu_spec(text))

    @ddt.data('x', '1-', '-1', '3-1', '1 2', '^^1', '0-^3', '1-2-3')
    def test_bad_lists_of_nova(self, text):
        self.assertRaises(ValueError, cpulist.parse_nova, text)
        self.assertRaises(exception.Invalid, hardware.parse_cpu_spec, text)


@ddt.ddt
class PackedTest(base.BaseTestCase):
    @ddt.data(
        ('0~', ()),
        ('1~', (0,)),
        ('1~AQ', (1,)),
        ('3~', (0, 1, 2)),
        ('2~BQ', (2, 3)),
        ('64~Bfl4gxva--0MQhs7_75ZVA', tuple(range(0, 128, 2))),
        ('1~AYaf', (99_999,)),
    )
    @ddt.unpack
    def test_there_and_back(self, text, cpus):
        self.assertEqual(text, cpulist.pack(reversed(cpus)))
        self.assertEqual(cpus, cpulist.unpack(text))

    def test_any_cpus(self):
        rng = random.Random(1)
        for _ in range(300):
            top = rng.choice((8, 64, 256, 1024, 8192))
            count = rng.randint(0, min(top, 80))
            cpus = tuple(sorted(rng.sample(range(top), count)))
            text = cpulist.pack(cpus)
            self.assertRegex(text, '^[0-9]+~[A-Za-z0-9_-]*$')
            self.assertEqual(cpus, cpulist.unpack(text))

    def test_how_many(self):
        cpus = tuple(range(0, 2 * 999, 2))
        self.assertEqual(cpus, cpulist.unpack(cpulist.pack(cpus)))
        self.assertRaises(ValueError, cpulist.pack, range(1000))
        # The last of all sets of 64 below 1024.
        self.assertEqual(len('64~') + 58, len(cpulist.pack(range(960, 1024))))

    def test_bad(self):
        for text in (
            '', '~', '64', '~AQ', '-1~AQ', '1~A', '1~AQ=', '1~A Q',
            '1~AR',  # The same number, spelt in another way.
            '1~AAE', '01~AQ', '0~AQ',
            '1~AYag',  # CPU 100000
            '1000~AQ', '1~' + '_' * 200, '2~' + '_' * 200, '\u0661~AQ',
            '1~\u0661', '1~AQ\n',
        ):  # fmt: skip
            with self.subTest(text=text):
                self.assertRaises(ValueError, cpulist.unpack, text)

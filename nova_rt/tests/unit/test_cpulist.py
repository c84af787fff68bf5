# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cpulist."""

import ddt
from oslotest import base

from nova_rt import cpulist


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

    @ddt.data(
        ' ',
        ',',
        '1,',
        '1-',
        '-1',
        '3-1',
        'a',
        '1 2',
        '0-3:1/2',
        '1\n',
        '123456',
        '\u0661',
    )
    def test_bad(self, text):
        self.assertRaises(ValueError, cpulist.parse, text)

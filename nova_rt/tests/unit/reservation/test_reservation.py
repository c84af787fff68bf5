# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.reservation."""

import fractions

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import reservation
from nova_rt.reservation.reservation import Reservation

# The same list is a flavor's and a hint's bad input.
BAD = {
    'word': 'abc',
    'one number': '5',
    'no runtime': '0/1000',
    'runtime of 1 us': '1/1000',
    'negative runtime': '-1/5',
    'negative period': '500/-1000',
    'runtime over period': '3000/2000',
    'period in e-notation': '1/1e9',
    'three numbers': '1400/2000/3',
    'huge runtime': f'{10**40}/2000',
    'huge period': f'1400/{10**40}',
    'both huge': f'{10**40}/{10**40}',
    'period below the kernel': '50/99',
    'period above the kernel': f'1000/{(1 << 22) + 1}',
    'space in front': ' 1400/2000',
    'space behind': '1400/2000 ',
    'space inside': '1400 / 2000',
    'line break': '1400/2000\n',
    'plus sign': '+1400/2000',
    'underscore': '1_400/2_000',
    'decimal point': '1400.0/2000',
    'hexadecimal': '0x10/0x100',
    'Arabic-Indic digits': '\u0661\u0664\u0660\u0660/\u0662\u0660\u0660\u0660',
    'full-width digits': '\uff11\uff14\uff10\uff10/2000',
    'superscript': '1400/2000\u00b2',
    'empty': '',
    'no period': '1400/',
    'other separator': '1400:2000',
    'NUL': '1400/2000\0',
}


@ddt.ddt
class ParseTest(base.BaseTestCase):
    @ddt.data(*BAD.items())
    @ddt.unpack
    def test_bad(self, _name, text):
        err = self.assertRaises(
            exception.InvalidReservation, Reservation.parse, text
        )
        # It goes into an HTTP answer and a fault: one line, not too long.
        self.assertNotIn('\n', str(err))
        self.assertLess(len(str(err)), 200)

    @ddt.data(
        ('1400/2000', 1400, 2000),
        ('2/100', 2, 100),
        ('100/100', 100, 100),
        ('4194304/4194304', 1 << 22, 1 << 22),
        ('001400/2000', 1400, 2000),
    )
    @ddt.unpack
    def test_good(self, text, runtime, period):
        found = Reservation.parse(text)
        self.assertEqual(Reservation(runtime, period), found)
        self.assertEqual(f'{runtime}/{period}', str(found))

    def test_messages(self):
        for text, *parts in ('x' * 500, '1400/2000'), (
            '3000/2000', '3000', '2000'
        ):  # fmt: skip
            err = self.assertRaises(
                exception.InvalidReservation, Reservation.parse, text
            )
            for part in parts:
                self.assertIn(part, str(err))


@ddt.ddt
class BandwidthTest(base.BaseTestCase):
    @ddt.data(
        (1400, 2000, 700_000),
        (100, 100, 1_000_000),
        (1000, 3000, 333_334),
        (2, 1 << 22, 1),
    )
    @ddt.unpack
    def test_ppm(self, runtime, period, ppm):
        self.assertEqual(ppm, Reservation(runtime, period).ppm)

    def test_ppm_is_the_least_that_is_enough(self):
        for runtime in range(2, 400, 7):
            for period in range(400, 4000, 37):
                exact = fractions.Fraction(runtime, period)
                ppm = Reservation(runtime, period).ppm
                self.assertLessEqual(exact, fractions.Fraction(ppm, 10**6))
                self.assertGreater(exact, fractions.Fraction(ppm - 1, 10**6))

    def test_operators_bounds(self):
        asked = Reservation(500, 1000)
        asked.check_period(1000, 1000)
        for bounds in ((1001, 2000), (100, 999)):
            err = self.assertRaises(
                exception.InvalidReservation, asked.check_period, *bounds
            )
            self.assertIn('1000', str(err))
            self.assertIn(str(bounds[0]), str(err))

    def test_bounds_are_those_of_the_kernel(self):
        # kernel/sched/deadline.c: 100 us, 1 << 22 us; DL_SCALE 10 ns bits.
        self.assertEqual(100, reservation.MIN_PERIOD_US)
        self.assertEqual(4_194_304, reservation.MAX_PERIOD_US)
        self.assertGreater(reservation.MIN_RUNTIME_US * 1000, 1 << 10)

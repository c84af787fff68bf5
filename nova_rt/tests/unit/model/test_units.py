# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.units."""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import units

READERS = (
    units.duration_s,
    units.rate_per_s,
    units.size_bit,
    units.link_bit_per_s,
    units.percentile,
)
BAD_EVERYWHERE = {
    'empty': '',
    'no number': 'ms',
    'nan': 'nan',
    'nan with unit': 'nan ms',
    'infinite': 'inf/s',
    'zero': '0ms',
    'zero percent': '0',
    'negative': '-5ms',
    'overflow': '1e999s',
    'overflow of units': '9e308/ns',
    'underflow': '1e-999s',
    'huge': '9' * 500 + 'ms',
    'unknown unit': '5 parsec',
    'other digits': '\u0661\u0660ms',
    'line break': '10ms\n',
    'two numbers': '10ms 5ms',
    'comma': '1,5ms',
    'underscore': '1_000/s',
    'plus': '+10ms',
    'NUL': '10ms\0',
    'no unit, no percentile': '100000',
}


@ddt.ddt
class UnitsTest(base.BaseTestCase):
    @ddt.data(
        (units.duration_s, '10ms', 0.01),
        (units.duration_s, '126 us', 126e-6),
        (units.duration_s, '1.5s', 1.5),
        (units.duration_s, '5ns', 5e-9),
        (units.rate_per_s, '500/s', 500),
        (units.rate_per_s, '30/min', 0.5),
        (units.rate_per_s, '0.5/ms', 500),
        (units.rate_per_s, '1.5e3/s', 1500),
        (units.size_bit, '1KiB', 8192),
        (units.size_bit, '2048B', 16384),
        (units.size_bit, '8kbit', 8000),
        (units.size_bit, '1kb', 1000),
        (units.link_bit_per_s, '64Mbit', 64e6),
        (units.link_bit_per_s, '64mbit', 64e6),
        (units.link_bit_per_s, '1Gbit/s', 1e9),
        (units.link_bit_per_s, '64Mb/s', 64e6),
        (units.link_bit_per_s, '8MB/s', 64e6),
        (units.percentile, '99', 0.99),
        (units.percentile, '99.9%', 0.999),
    )
    @ddt.unpack
    def test_read(self, read, text, wanted):
        self.assertLess(abs(read(text) / wanted - 1), 1e-12)

    @ddt.data(*BAD_EVERYWHERE.items())
    @ddt.unpack
    def test_bad(self, _name, text):
        for read in READERS:
            err = self.assertRaises(exception.InvalidQuantity, read, text)
            self.assertNotIn('\n', str(err))
            self.assertLess(len(str(err)), 200)

    @ddt.data(
        (units.duration_s, '10', 'has no unit'),
        (units.rate_per_s, '500ms', "unit 'ms'"),
        (units.size_bit, '64Mbit/s', "unit 'Mbit/s'"),
        # Megabytes, in a file or in a second?
        (units.link_bit_per_s, '64MB', "unit 'MB'"),
        (units.percentile, '100', 'not below 100'),
        (units.percentile, '150', 'not below 100'),
        (units.percentile, '0.99', 'in percent'),
    )
    @ddt.unpack
    def test_says_what_and_why(self, read, text, wanted):
        err = self.assertRaises(exception.InvalidQuantity, read, text)
        self.assertIn(wanted, str(err))

    @ddt.data((1.5, '1.5 s'), (0.0099155, '9.915 ms'), (126e-6, '126 us'),
              (5e-9, '5 ns'))  # fmt: skip
    @ddt.unpack
    def test_tell(self, seconds, wanted):
        self.assertEqual(wanted, units.tell_duration(seconds))

    @ddt.data((0.1, 0.1, 0.1), (500.1178, 500.1, 500.2), (1e-9, 1e-9, 1e-9),
              (123456.0, 123400.0, 123500.0), (0.0, 0.0, 0.0))  # fmt: skip
    @ddt.unpack
    def test_round(self, value, down, up):
        self.assertEqual(down, units.round_down(value))
        self.assertEqual(up, units.round_up(value))

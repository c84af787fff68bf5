# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.units."""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.model import units


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

    def test_refused(self):
        """The rest is refused by the options of the command."""
        for read, text in (
            (units.rate_per_s, '500ms'),
            (units.size_bit, '64Mbit/s'),
            # Megabytes, in a file or in a second?
            (units.link_bit_per_s, '64MB'),
            (units.duration_s, '9' * 500 + 'ms'),
        ):
            err = self.assertRaises(exception.InvalidQuantity, read, text)
            self.assertLess(len(str(err)), 200)

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

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.spec_values."""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import spec_values


@ddt.ddt
class NumberTest(base.BaseTestCase):
    NUMBER = spec_values.Number(5, 120)

    def test_inside(self):
        for number in range(5, 121):
            self.assertEqual(number, self.NUMBER.parse('x', str(number)))

    @ddt.data('4', '121', '0005', '-5', '+5', '5.0', ' 5', '5\n', '\u0665')
    def test_bad(self, text):
        self.assertRaises(
            exception.InvalidRequest, self.NUMBER.parse, 'x', text
        )

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.bounds."""

from oslotest import base

from nova_rt import exception
from nova_rt.reservation import bounds
from nova_rt.reservation.request import HintRule
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import specs

FLAVOR = {'rt:reservation': '1400/2000'}


def asks_for(value):
    return {'rt_reservation': value}


class BoundsTest(base.BaseTestCase):
    BOUNDS = bounds.Bounds(HintRule.LOWER, 1000, 10_000)

    def test_inside(self):
        request = self.BOUNDS.parse_request(FLAVOR, 4, asks_for(['100/3000']))
        self.assertEqual(Reservation(100, 3000), request.reservation)
        self.assertEqual(4, request.vcpus)
        self.assertIsNone(self.BOUNDS.parse_request({}, 1))

    def test_refused(self):
        anything = bounds.Bounds(HintRule.ANY, 1000, 10_000)
        for allowed, specs_of, *hints in (
            (self.BOUNDS, {'rt:reservation': '100/999'}),
            (self.BOUNDS, {'rt:reservation': '100/10001'}),
            (self.BOUNDS, FLAVOR, asks_for('100/10001')),
            (anything, FLAVOR, asks_for('100/999')),
            (anything, FLAVOR, asks_for('100/10001')),
        ):
            err = self.assertRaises(
                exception.InvalidReservation,
                allowed.parse_request, specs_of, 1, *hints,
            )  # fmt: skip
            self.assertIn('1000 to 10000', str(err))
        strict = bounds.Bounds(HintRule.DENY, 100, 10_000)
        self.assertRaises(
            exception.HintRefused,
            strict.parse_request, FLAVOR, 1, asks_for('100/1000'),
        )  # fmt: skip

    def test_hint_replaces_a_period_out_of_bounds(self):
        request = self.BOUNDS.parse_request(
            {'rt:reservation': '100/200'}, 1, asks_for('100/1000')
        )
        self.assertEqual(1000, request.reservation.period_us)

    def test_every_reservation_of_the_table(self):
        self.useFixture(specs.OneMore())
        good = FLAVOR | {'rt:one_more': '100/1000'}
        request = self.BOUNDS.parse_request(good, 1)
        self.assertEqual(Reservation(100, 1000), request.one_more)
        self.assertIsNone(self.BOUNDS.parse_request(FLAVOR, 1).one_more)
        for text in ('100/999', '100/10001'):
            err = self.assertRaises(
                exception.InvalidReservation,
                self.BOUNDS.parse_request,
                FLAVOR | {'rt:one_more': text},
                1,
            )
            self.assertIn('1000 to 10000', str(err))
            self.assertRaises(
                exception.InvalidReservation,
                self.BOUNDS.check_value,
                specs.ONE_MORE,
                text,
            )

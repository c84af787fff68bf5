# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.extra_specs."""

import ddt
from oslotest import base

from nova_rt import exception, extra_specs
from nova_rt.extra_specs import Enforcement, HintRule, Policy
from nova_rt.reservation import Reservation
from nova_rt.tests.unit import test_reservation

FLAVOR = {'rt:reservation': '1400/2000'}


@ddt.ddt
class FlavorTest(base.BaseTestCase):
    def test_plain(self):
        self.assertIsNone(extra_specs.parse({'hw:cpu_policy': 'shared'}, 2))
        self.assertIsNone(extra_specs.parse({}, 2))

    def test_other_namespaces_that_begin_alike(self):
        self.assertIsNone(extra_specs.parse({'rtx:reservation': 'abc'}, 2))

    def test_defaults(self):
        request = extra_specs.parse(FLAVOR, 2)
        self.assertEqual(Reservation(1400, 2000), request.reservation)
        self.assertEqual(2, request.vcpus)
        self.assertIs(Enforcement.GUARANTEE, request.enforcement)
        self.assertIs(Policy.RR, request.policy)
        self.assertEqual(1, request.priority)
        self.assertEqual(1_400_000, request.total_ppm)

    def test_all_keys(self):
        request = extra_specs.parse(
            {
                'rt:reservation': '500/1000',
                'rt:enforcement': 'limit',
                'rt:policy': 'fifo',
                'rt:priority': '99',
            },
            1,
        )
        self.assertEqual(
            extra_specs.Request(
                Reservation(500, 1000), 1, Enforcement.LIMIT, Policy.FIFO, 99
            ),
            request,
        )

    @ddt.data(*test_reservation.BAD.items())
    @ddt.unpack
    def test_bad_reservation(self, _name, text):
        self.assertRaises(
            exception.InvalidReservation,
            extra_specs.parse,
            {'rt:reservation': text},
            1,
        )

    @ddt.data(
        ('rt:runtime_us', '1400'),
        ('rt:Reservation', '1400/2000'),
        ('rt:', '1'),
        ('rt:policy', 'fair'),
        ('rt:policy', 'RR'),
        ('rt:policy', ''),
        ('rt:enforcement', 'strict'),
        ('rt:enforcement', 'guarantee '),
        ('rt:priority', '0'),
        ('rt:priority', '100'),
        ('rt:priority', '-1'),
        ('rt:priority', '1.5'),
        ('rt:priority', 'high'),
        ('rt:priority', '\u0661'),
        ('rt:priority', ''),
    )
    @ddt.unpack
    def test_bad_key(self, key, value):
        err = self.assertRaises(
            exception.InvalidRequest,
            extra_specs.parse,
            FLAVOR | {key: value},
            1,
        )
        self.assertIn(key, str(err))

    def test_no_reservation(self):
        err = self.assertRaises(
            exception.InvalidRequest,
            extra_specs.parse,
            {'rt:priority': '5'},
            1,
        )
        self.assertIn('rt:reservation', str(err))

    def test_every_policy_and_enforcement(self):
        for word in ('rr', 'fifo', 'other'):
            self.assertEqual(word, extra_specs.parse_policy(word))
        for word in ('guarantee', 'limit'):
            self.assertEqual(word, extra_specs.parse_enforcement(word))

    def test_every_priority(self):
        for number in range(1, 100):
            self.assertEqual(number, extra_specs.parse_priority(str(number)))


@ddt.ddt
class HintTest(base.BaseTestCase):
    def test_lower(self):
        for hint in ('1000/2000', ['1000/2000']):
            request = extra_specs.parse(FLAVOR, 1, hint)
            self.assertEqual(Reservation(1000, 2000), request.reservation)

    def test_keeps_the_rest_of_the_flavor(self):
        request = extra_specs.parse(
            FLAVOR | {'rt:policy': 'fifo', 'rt:priority': '7'}, 3, '1000/2000'
        )
        self.assertEqual(3, request.vcpus)
        self.assertIs(Policy.FIFO, request.policy)
        self.assertEqual(7, request.priority)

    def test_equal_bandwidth_with_another_period(self):
        request = extra_specs.parse(FLAVOR, 1, '700/1000')
        self.assertEqual(Reservation(700, 1000), request.reservation)

    def test_larger(self):
        err = self.assertRaises(
            exception.HintRefused, extra_specs.parse, FLAVOR, 1, '1500/2000'
        )
        for number in ('1500/2000', '750000', '1400/2000', '700000'):
            self.assertIn(number, str(err))

    def test_larger_by_less_than_a_ppm(self):
        # Both round up to 333334 ppm.
        self.assertRaises(
            exception.HintRefused,
            extra_specs.parse,
            {'rt:reservation': '1000/3000'},
            1,
            '1333334/4000000',
        )

    def test_any(self):
        request = extra_specs.parse(FLAVOR, 1, '1500/2000', HintRule.ANY)
        self.assertEqual(Reservation(1500, 2000), request.reservation)

    def test_deny(self):
        err = self.assertRaises(
            exception.HintRefused,
            extra_specs.parse,
            FLAVOR,
            1,
            '1000/2000',
            HintRule.DENY,
        )
        self.assertIn('1400/2000', str(err))

    def test_plain_flavor(self):
        for rule in HintRule:
            self.assertRaises(
                exception.HintRefused,
                extra_specs.parse,
                {},
                1,
                '1000/2000',
                rule,
            )

    @ddt.data(*test_reservation.BAD.items())
    @ddt.unpack
    def test_bad_reservation(self, _name, text):
        for hint in (text, [text]):
            for rule in HintRule:
                err = self.assertRaises(
                    exception.InvalidReservation,
                    extra_specs.parse,
                    FLAVOR,
                    1,
                    hint,
                    rule,
                )
                self.assertIn('rt_reservation', str(err))

    @ddt.data(
        ['1000/2000', '500/2000'],
        [],
        [None],
        [['1000/2000']],
        {'runtime': 1000, 'period': 2000},
        1000,
        0.5,
        True,
    )
    def test_not_one_text(self, hint):
        err = self.assertRaises(
            exception.InvalidReservation, extra_specs.parse, FLAVOR, 1, hint
        )
        self.assertIn('rt_reservation', str(err))

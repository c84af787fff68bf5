# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.extra_specs."""

from unittest import mock

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import extra_specs
from nova_rt.reservation.extra_specs import SPECS
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import specs
from nova_rt.tests.unit.reservation import test_reservation


@ddt.ddt
class TableTest(base.BaseTestCase):
    def test_keys_are_named_after_the_fields(self):
        self.assertEqual(
            [f'rt:{field}' for field in SPECS],
            [spec.key for spec in SPECS.values()],
        )

    def test_letters_are_distinct(self):
        letters = [spec.letter for spec in SPECS.values() if spec.letter]
        # The record has these of its own.
        self.assertFalse({*letters} & {*'vqpnc'})
        self.assertEqual(sorted({*letters}), sorted(letters))

    def test_only_the_reservation_has_no_letter(self):
        self.assertEqual(
            ['reservation'],
            [field for field, spec in SPECS.items() if not spec.letter],
        )

    def test_a_default_is_what_its_text_says(self):
        for spec in SPECS.values():
            if spec.default_text is not None:
                self.assertEqual(spec.default, spec.parse(spec.default_text))

    def test_default_that_a_flavor_cannot_name(self):
        self.assertIsNone(SPECS['reservation'].default_text)
        self.assertEqual('rr', SPECS['policy'].default_text)
        self.assertIsNone(specs.ONE_MORE.default_text)

    def test_plain_values(self):
        usual = Request(Reservation(1400, 2000), 3)
        plain = usual.plain()
        self.assertEqual([*SPECS], [*plain])
        self.assertEqual('1400/2000', plain['reservation'])
        self.assertEqual(1, plain['priority'])
        # No types of ours.
        self.assertLessEqual(
            {*map(type, plain.values())}, {str, int, type(None)}
        )
        unusual = specs.make_unusual()
        for field, value in unusual.plain().items():
            self.assertNotEqual(plain[field], value)
            self.assertEqual(
                getattr(unusual, field), SPECS[field].parse(str(value))
            )

    def test_plain_values_of_one_more(self):
        self.useFixture(specs.OneMore())
        flavor = {'rt:reservation': '1400/2000'}
        self.assertIsNone(specs.parse(flavor).plain()['one_more'])
        self.assertEqual(
            '100/1000',
            specs.parse(flavor | {'rt:one_more': '100/1000'}).plain()[
                'one_more'
            ],
        )

    def test_every_value_is_read_as_it_is_written(self):
        for field, values in (
            ('enforcement', extra_specs.Enforcement),
            ('policy', extra_specs.TaskPolicy),
            ('priority', range(1, 100)),
            ('numa', extra_specs.Numa),
            ('reservation', [Reservation(1400, 2000)]),
        ):
            for value in values:
                self.assertEqual(value, SPECS[field].parse(str(value)))

    def test_every_word(self):
        for word in ('rr', 'fifo', 'other'):
            self.assertEqual(word, SPECS['policy'].parse(word))
        for word in ('guarantee', 'limit'):
            self.assertEqual(word, SPECS['enforcement'].parse(word))
        for word in ('prefer', 'same', 'any'):
            self.assertEqual(word, SPECS['numa'].parse(word))

    @ddt.data(*test_reservation.BAD.items())
    @ddt.unpack
    def test_bad_reservation(self, _name, text):
        self.assertRaises(
            exception.InvalidReservation, SPECS['reservation'].parse, text
        )

    @ddt.data(
        (
            'policy',
            'fair',
            "rt:policy must be one of rr, fifo, other, not 'fair'",
        ),
        (
            'enforcement',
            'x' * 50,
            'rt:enforcement must be one of guarantee, soft, limit, not '
            f"'{'x' * 40}'",
        ),
        (
            'priority',
            '100',
            "rt:priority must be a whole number from 1 to 99, not '100'",
        ),
        (
            'numa',
            'Same',
            "rt:numa must be one of prefer, same, any, not 'Same'",
        ),
    )
    @ddt.unpack
    def test_message(self, field, text, message):
        err = self.assertRaises(
            exception.InvalidRequest, SPECS[field].parse, text
        )
        self.assertEqual(message, str(err))

    def test_message_of_an_unknown_key(self):
        names = ('reservation', 'enforcement', 'policy', 'priority')
        four = {name: SPECS[name] for name in names}
        with mock.patch.object(extra_specs, 'SPECS', four):
            err = self.assertRaises(
                exception.InvalidRequest,
                extra_specs.check_keys,
                {'rt:reservation': '1/1', 'rt:b': '', 'rt:a': '', 'hw:c': ''},
            )
        self.assertEqual(
            'unknown extra spec rt:a: known are rt:reservation, '
            'rt:enforcement, rt:policy and rt:priority',
            str(err),
        )

    def test_message_of_an_unknown_hint(self):
        hints = {'rt_reservation': 'x', 'rt_b': 'x'}
        with mock.patch.object(extra_specs, 'HINTS', ('rt_reservation',)):
            err = self.assertRaises(
                exception.HintRefused, extra_specs.check_hints, hints
            )
        self.assertEqual(
            'unknown hint rt_b: the only real-time hint is rt_reservation',
            str(err),
        )
        both = ('rt_reservation', 'rt_a')
        with mock.patch.object(extra_specs, 'HINTS', both):
            err = self.assertRaises(
                exception.HintRefused, extra_specs.check_hints, hints
            )
        self.assertEqual(
            'unknown hint rt_b: known are rt_reservation and rt_a', str(err)
        )

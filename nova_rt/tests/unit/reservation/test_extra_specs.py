# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.extra_specs."""

from unittest import mock

from oslotest import base

from nova_rt import exception
from nova_rt.reservation import extra_specs
from nova_rt.reservation.extra_specs import SPECS
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import specs


class TableTest(base.BaseTestCase):
    def test_keys_are_named_after_the_fields(self):
        self.assertEqual(
            [f'rt:{field}' for field in SPECS],
            [spec.key for spec in SPECS.values()],
        )

    def test_letters_are_distinct(self):
        # But of the reservation, which has a special form.
        letters = [SPECS[field].letter for field in SPECS][1:]
        # The record has these of its own.
        self.assertFalse({*letters} & {*'vqpnc'})
        self.assertEqual(sorted({*letters}), sorted(letters))

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
        self.useFixture(specs.OneMore())
        flavor = {'rt:reservation': '1400/2000'}
        self.assertIsNone(specs.parse(flavor).plain()['one_more'])
        flavor['rt:one_more'] = '100/1000'
        self.assertEqual('100/1000', specs.parse(flavor).plain()['one_more'])

    def test_every_value_is_read_as_it_is_written(self):
        for field, values in (
            ('enforcement', ('guarantee', 'soft', 'limit')),
            ('policy', ('rr', 'fifo', 'other')),
            ('priority', range(1, 100)),
            ('numa', ('prefer', 'same', 'any')),
        ):
            for value in values:
                self.assertEqual(value, SPECS[field].parse(str(value)))

    def test_message(self):
        for field, text, message in (
            ('policy', 'fair', "one of rr, fifo, other, not 'fair'"),
            (
                'enforcement',
                'x' * 50,
                f"one of guarantee, soft, limit, not '{'x' * 40}'",
            ),
            ('priority', '100', "a whole number from 1 to 99, not '100'"),
            ('numa', 'Same', "one of prefer, same, any, not 'Same'"),
        ):
            err = self.assertRaises(
                exception.InvalidRequest, SPECS[field].parse, text
            )
            self.assertEqual(f'rt:{field} must be {message}', str(err))

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
        for known, text in (
            (['rt_reservation'], 'the only real-time hint is rt_reservation'),
            (['rt_reservation', 'rt_a'], 'known are rt_reservation and rt_a'),
        ):
            with mock.patch.object(extra_specs, 'HINTS', known):
                err = self.assertRaises(
                    exception.HintRefused,
                    extra_specs.check_hints, ['rt_reservation', 'rt_b'],
                )  # fmt: skip
            self.assertEqual(f'unknown hint rt_b: {text}', str(err))

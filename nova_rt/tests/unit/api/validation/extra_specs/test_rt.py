# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.api.validation.extra_specs.rt, through Nova's validators.

They run only where the package is installed: Nova finds the validators
through their entry point.
"""

import ddt
from nova import exception as nova_exception
from nova.api.validation.extra_specs import validators
import nova.conf
from oslo_config import fixture
from oslotest import base

from nova_rt.api.validation.extra_specs import rt
from nova_rt.reservation import extra_specs
from nova_rt.tests.unit.reservation import test_reservation


@ddt.ddt
class ValidatorTest(base.BaseTestCase):
    def assertRefused(self, name, value):
        err = self.assertRaises(
            nova_exception.ValidationError, validators.validate, name, value
        )
        self.assertEqual(400, err.code)
        return err.format_message()

    @ddt.data(
        ('rt:reservation', '1400/2000'),
        ('rt:enforcement', 'guarantee'),
        ('rt:enforcement', 'limit'),
        ('rt:policy', 'rr'),
        ('rt:policy', 'fifo'),
        ('rt:policy', 'other'),
        ('rt:priority', '1'),
        ('rt:priority', '99'),
        ('rt:priority', 5),
    )
    @ddt.unpack
    def test_good(self, name, value):
        validators.validate(name, value)

    @ddt.data(*test_reservation.BAD.items())
    @ddt.unpack
    def test_bad_reservation(self, _name, text):
        message = self.assertRefused('rt:reservation', text)
        self.assertIn('rt:reservation', message)

    @ddt.data(5, 0.7, 10**40)
    def test_number_as_reservation(self, value):
        self.assertRefused('rt:reservation', value)

    def test_runtime_over_period(self):
        self.assertIn(
            'runtime of 3000 us exceeds the period of 2000 us',
            self.assertRefused('rt:reservation', '3000/2000'),
        )

    @ddt.data('rt:runtime_us', 'rt:reservations', 'rt:', 'rt:Policy')
    def test_unknown_key(self, name):
        self.assertIn(name, self.assertRefused(name, '1400/2000'))

    @ddt.data(
        ('rt:policy', 'fair'),
        ('rt:enforcement', 'strict'),
        ('rt:priority', '0'),
        ('rt:priority', '100'),
        ('rt:priority', 100),
        ('rt:priority', 1.5),
        ('rt:priority', 'high'),
    )
    @ddt.unpack
    def test_bad_value(self, name, value):
        message = self.assertRefused(name, value)
        self.assertIn(str(value), message)

    def test_operators_bounds_of_the_period(self):
        conf = self.useFixture(fixture.Config(nova.conf.CONF))
        conf.config(group='nova_rt', min_period_us=1000, max_period_us=5000)
        validators.validate('rt:reservation', '500/1000')
        for text in ('500/999', '500/5001'):
            self.assertIn(
                '1000 to 5000', self.assertRefused('rt:reservation', text)
            )

    def test_one_for_each_entry_of_the_table(self):
        specs = extra_specs.SPECS.values()
        self.assertEqual(
            [(spec.key, spec.text) for spec in specs],
            [(each.name, each.description) for each in rt.register()],
        )

    @ddt.data('rtx:anything', 'my_rt:anything', 'anything')
    def test_keys_of_others(self, name):
        validators.validate(name, 'at all')

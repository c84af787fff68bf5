# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.api.validation.extra_specs.rt, through Nova's validators.

They run only where the package is installed: Nova finds the validators
through their entry point.
"""

from nova import exception as nova_exception
from nova.api.validation.extra_specs import validators
import nova.conf
from oslo_config import fixture
from oslotest import base

from nova_rt.api.validation.extra_specs import rt
from nova_rt.reservation import extra_specs


class ValidatorTest(base.BaseTestCase):
    def assertRefused(self, name, value):
        err = self.assertRaises(
            nova_exception.ValidationError, validators.validate, name, value
        )
        self.assertEqual(400, err.code)
        return err.format_message()

    def test_good(self):
        for name, value in (
            ('rt:reservation', '1400/2000'),
            ('rt:enforcement', 'limit'),
            ('rt:policy', 'other'),
            ('rt:priority', '99'),
            ('rt:priority', 5),
            ('rtx:anything', 'at all'),
            ('my_rt:anything', 'at all'),
            ('anything', 'at all'),
        ):
            validators.validate(name, value)

    def test_bad(self):
        for name, value, *words in (
            ('rt:reservation', 'abc', 'rt:reservation'),
            ('rt:reservation', '3000/2000', '3000', '2000', 'exceeds'),
            ('rt:reservation', 5),
            ('rt:reservation', 0.7),
            ('rt:reservation', 10**40),
            ('rt:runtime_us', '1400', 'rt:runtime_us'),
            ('rt:', '1400/2000', 'rt:'),
            ('rt:Policy', 'rr', 'rt:Policy'),
            ('rt:policy', 'fair', 'fair'),
            ('rt:enforcement', 'strict', 'strict'),
            ('rt:priority', '100', '100'),
            ('rt:priority', 100, '100'),
            ('rt:priority', 1.5, '1.5'),
        ):
            message = self.assertRefused(name, value)
            for word in words:
                self.assertIn(word, message)

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

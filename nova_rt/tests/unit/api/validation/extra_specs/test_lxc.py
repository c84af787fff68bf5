# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.api.validation.extra_specs.lxc, through Nova's validators.

They run only where the package is installed: Nova finds the validators
through their entry point.
"""

import ddt
from nova import exception as nova_exception
from nova.api.validation.extra_specs import validators
from oslotest import base


@ddt.ddt
class ValidatorTest(base.BaseTestCase):
    @ddt.data('1', '4096', 4194304)
    def test_good(self, value):
        validators.validate('lxc:max_tasks', value)

    @ddt.data('', '0', 'many', -1, 0.5, 4194305)
    def test_bad(self, value):
        err = self.assertRaises(
            nova_exception.ValidationError,
            validators.validate, 'lxc:max_tasks', value,
        )  # fmt: skip
        self.assertEqual(400, err.code)
        self.assertIn('lxc:max_tasks must be a whole number from 1 to',
                      err.format_message())  # fmt: skip

    def test_unknown(self):
        self.assertRaises(
            nova_exception.ValidationError,
            validators.validate, 'lxc:max_processes', '5',
        )  # fmt: skip

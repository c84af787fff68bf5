# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.task_limit."""

import ddt
from oslotest import base

from nova_rt import exception, task_limit


@ddt.ddt
class ChooseTest(base.BaseTestCase):
    @ddt.data(
        ({}, 4096),
        ({'rt:reservation': '1/2'}, 4096),
        ({'lxc:max_tasks': '1'}, 1),
        ({'lxc:max_tasks': '4194304'}, 4194304),
    )
    @ddt.unpack
    def test_good(self, specs, most):
        self.assertEqual(most, task_limit.choose(specs, 4096))

    @ddt.data('', '0', '-1', 'max', '4194305', '1.5', ' 1', '1\n', '\u0661')
    def test_bad(self, text):
        err = self.assertRaises(
            exception.InvalidRequest,
            task_limit.choose, {'lxc:max_tasks': text}, 4096,
        )  # fmt: skip
        self.assertIn('lxc:max_tasks must be a whole number', str(err))

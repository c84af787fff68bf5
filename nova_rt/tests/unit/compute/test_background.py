# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.background."""

from unittest import mock

from oslotest import base

from nova_rt.compute import background


class BeginTest(base.BaseTestCase):
    def test_result(self):
        self.assertEqual([1, 2], background.begin(sorted, (2, 1)).result(60))

    def test_errors(self):
        """None of them leaves anybody waiting."""
        for error in ValueError, SystemExit:
            future = background.begin(mock.Mock(side_effect=error))
            self.assertRaises(error, future.result, 60)

    def test_no_threads(self):
        with mock.patch('threading.Thread.start', side_effect=RuntimeError):
            future = background.begin(sorted, ())
        self.assertRaises(RuntimeError, future.result, 60)

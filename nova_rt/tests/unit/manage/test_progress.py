# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.progress."""

import io

from oslotest import base

from nova_rt.manage import progress


class _Terminal(io.StringIO):
    def isatty(self):
        return True


class TrackTest(base.BaseTestCase):
    def test_nobody_watches(self):
        stream = io.StringIO()
        self.assertEqual([1, 2], list(progress.track([1, 2], 'a', stream)))
        self.assertEqual('', stream.getvalue())

    def test_terminal(self):
        stream = _Terminal()
        items = progress.track(iter([1, 2]), 'Hosts', stream)
        self.assertEqual([1, 2], list(items))
        self.assertIn('Hosts', stream.getvalue())

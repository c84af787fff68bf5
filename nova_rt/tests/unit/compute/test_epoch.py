# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.epoch."""

import fixtures
from oslotest import base

from nova_rt.compute import epoch


class EpochTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        top = self.useFixture(fixtures.TempDir()).path
        self.path = epoch.epoch_path(top, 'a/../b')
        self.assertEqual('epoch-a%2F..%2Fb', self.path.name)

    def _at(self, second):
        self.useFixture(fixtures.MonkeyPatch('time.time', lambda: second))
        return epoch.Epoch(self.path).number

    def test_grows_whatever_the_clock_says(self):
        found = [self._at(second) for second in (100, 100, 50, 900, 0)]
        self.assertEqual([100, 101, 102, 900, 901], found)

    def test_a_file_that_is_broken_or_cannot_be_written(self):
        self._at(100)
        self.path.write_text('x')
        self.assertEqual(70, self._at(70))
        self.path.unlink()
        self.path.mkdir()
        log = self.useFixture(fixtures.FakeLogger())
        self.assertEqual(80, self._at(80))
        self.assertIn('Cannot write', log.output)

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.spool."""

import pathlib

import fixtures
from oslotest import base

from nova_rt.compute.spool import spool_path
from nova_rt.tests.fixtures.reports import event
from nova_rt.tests.unit.compute.source import make_spool

EVENTS = [event(1, 'claimed'), event(2, 'refused'), event(3, 'released')]


class SpoolTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.top = self.useFixture(fixtures.TempDir()).path
        self.spool = make_spool(self.top)
        self.path = spool_path(self.top, 'one')

    def read(self, most=100):
        return make_spool(self.top).read(most)

    def test_nothing(self):
        self.assertEqual({}, self.read())
        self.spool.append(1, [])
        self.spool.replace({1: []})
        self.assertFalse(self.path.exists())
        self.assertEqual('', self.log.output)

    def test_written_and_read(self):
        self.spool.append(4, EVENTS[:1])
        self.spool.append(5, EVENTS)
        self.spool.append(4, EVENTS[1:])
        # Twice, as when a stop meets a report.
        self.spool.append(5, EVENTS[2:])
        self.assertEqual({4: EVENTS, 5: EVENTS}, self.read())
        self.spool.replace({4: [], 5: EVENTS[2:]})
        self.assertEqual({5: EVENTS[2:]}, self.read())
        self.spool.append(6, EVENTS[:1])
        self.spool.replace({})
        self.assertEqual({}, self.read())

    def test_the_latest_of_too_many(self):
        self.spool.append(5, EVENTS)
        self.spool.append(4, EVENTS)
        self.assertEqual({4: EVENTS[2:], 5: EVENTS}, self.read(4))
        self.assertEqual({5: EVENTS[1:]}, self.read(2))

    def test_lines_that_cannot_be_read(self):
        """Whatever stands there: the others are read."""
        self.spool.append(4, EVENTS)
        good = self.path.read_text().splitlines()
        bad = [
            '', '{', '[]', '7', 'null', '{"epoch": 1}', '\0', '[' * 10**5,
            good[0].replace('"epoch": 4', '"epoch": -1'),
            good[0].replace('"seq": 1', '"seq": "x"'), good[0][:-9],
        ]  # fmt: skip
        self.path.write_bytes(
            '\n'.join([*bad, *good, *bad]).encode() + b'\xff\xfe'
        )
        self.assertEqual({4: EVENTS}, self.read())
        self.assertIn('22 lines that cannot be read', self.log.output)

    def test_a_disk_that_takes_nothing(self):
        pathlib.Path(self.top, 'nova_rt').write_text('a file')
        for _ in range(3):
            self.spool.append(1, EVENTS)
            self.spool.replace({1: EVENTS})
        self.assertEqual(1, self.log.output.count('Cannot write'))
        self.assertEqual({}, self.read())

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.db_access."""

import argparse
import datetime

from oslotest import base

from nova_rt.manage import db_access
from nova_rt.tests.fixtures.history import UUID
from nova_rt.tests.unit.manage import database


class FaultTest(database.DatabaseTestCase):
    COMMANDS = (
        ('server', 'history', UUID), ('server', 'reservations', UUID),
    )  # fmt: skip

    def test_does_not_answer(self):
        """And the password of its URL is not told."""
        self.flags(
            group='nova_rt_database', max_retries=0,
            connection='mysql+pymysql://u:secret@127.0.0.1:1/nova_rt',
        )  # fmt: skip
        for words in self.COMMANDS:
            self.assert_fails(2, 'does not answer', *words)
            self.assertNotIn('secret', self.run_command(*words).err)

    def test_empty(self):
        """A database without tables."""
        self.flags(group='nova_rt_database', connection='sqlite://')
        for words in self.COMMANDS:
            self.assert_fails(2, 'refuses (no such table', *words)


class TextTest(base.BaseTestCase):
    def test_time(self):
        zone = datetime.timezone(datetime.timedelta(hours=2))
        time = datetime.datetime(2026, 2, 3, 6, 5, 9, tzinfo=zone)
        self.assertEqual('2026-02-03T04:05:09Z', db_access.render_time(time))

    def test_count(self):
        self.assertEqual(12, db_access.parse_count('12'))
        for text in ('', '-1', '1.0', '1234567890', '٣'):
            self.assertRaises(
                argparse.ArgumentTypeError, db_access.parse_count, text
            )

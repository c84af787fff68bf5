# SPDX-License-Identifier: Apache-2.0
"""Tests of nova-rt-manage db."""

import datetime
import io
import json
import types

import fixtures
from oslotest import base
import sqlalchemy as sa

from nova_rt.cmd.manage import database as commands
from nova_rt.db import api, session
from nova_rt.tests.fixtures import database
from nova_rt.tests.fixtures.reports import MINUTE, UUID, sample

WEEK = datetime.timedelta(days=7)


class DatabaseCommandsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.database = self.useFixture(database.Database(synced=False))
        self.printed = self.useFixture(fixtures.StringStream('stdout')).stream

    def _run(self, command, *words, conf=None):
        """Run a command.

        :returns: its exit code, and what it printed
        """
        out = io.StringIO()
        app = types.SimpleNamespace(
            conf=conf or self.database.conf, stdout=out
        )
        made = command(app, None)
        with fixtures.MonkeyPatch('sys.stdout', out):
            code = made.run(made.get_parser('it').parse_args(words))
        return code, out.getvalue()

    def _version(self):
        return json.loads(self._run(commands.Version, '-f', 'json')[1])

    def test_sync(self):
        self.assertEqual({'revision': '', 'needed': '001'}, self._version())
        code, text = self._run(commands.Check)
        self.assertEqual(1, code)
        self.assertIn('run nova-rt-manage db sync', text)
        for _ in range(2):
            self.assertEqual(0, self._run(commands.Sync)[0])
            self.assertEqual(
                {'revision': '001', 'needed': '001'}, self._version()
            )
            self.assertEqual((0, ''), self._run(commands.Check))

    def test_a_table_that_differs(self):
        self._run(commands.Sync)
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE hosts ADD COLUMN ours INT'))
        self.assertEqual(
            (1, 'remove column: hosts ours\n'), self._run(commands.Check)
        )

    def test_without_a_database(self):
        for command in (commands.Sync, commands.Version, commands.Check,
                        commands.Purge):  # fmt: skip
            self.assertRaisesRegex(
                commands.exception.NovaRTError,
                'connection is not set',
                self._run,
                command,
                conf=database.make_conf(),
            )

    def _fill(self):
        self._run(commands.Sync)
        old = datetime.datetime.now(datetime.UTC) - WEEK
        api.record_samples('one', {UUID: [
            sample(0, at=old + minute * MINUTE) for minute in range(200)
        ]})  # fmt: skip
        # They are summed up before they are deleted, if conductors ran.
        api.sum_up(old + 300 * MINUTE, {
            each: 2 * WEEK for each in api.Resolution
        })  # fmt: skip

    def test_purge(self):
        self._fill()
        code, text = self._run(commands.Purge, '-f', 'json')
        found = json.loads(text)
        self.assertEqual((0, 200, True),
                         (code, found['rows'], found['finished']))  # fmt: skip
        found = json.loads(self._run(commands.Purge, '-f', 'json')[1])
        self.assertEqual((0, 0), (found['rows'], found['transactions']))

    def test_purge_for_a_while(self):
        self._fill()
        self.useFixture(fixtures.MonkeyPatch('nova_rt.db.retention.STEP', 50))
        words = ('--max-seconds', '0', '-f', 'json')
        found = json.loads(self._run(commands.Purge, *words)[1])
        self.assertEqual((50, 1, False), (
            found['rows'], found['transactions'], found['finished']
        ))  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova-rt-manage db."""

import datetime
import json
from unittest import mock

import fixtures
from oslotest import base
import pymysql
import sqlalchemy as sa

from nova_rt.db import api, session
from nova_rt.tests.fixtures import database, manage
from nova_rt.tests.fixtures.history import event

WEEK = datetime.timedelta(days=7)


class DatabaseCommandsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.database = self.useFixture(database.Database(synced=False))

    def _run(self, *words, conf=None):
        return manage.run(conf or self.database.conf, 'db', *words)

    def _read(self, *words):
        result = self._run(*words, '-f', 'json')
        self.assertEqual(0, result.code, result.err)
        return json.loads(result.out)

    def test_sync(self):
        self.assertEqual(
            {'revision': '', 'needed': '003'}, self._read('version')
        )
        result = self._run('check')
        self.assertEqual(1, result.code)
        self.assertIn('run nova-rt-manage db sync', result.out)
        for _ in range(2):
            self.assertEqual(0, self._run('sync').code)
            self.assertEqual(
                {'revision': '003', 'needed': '003'}, self._read('version')
            )
            result = self._run('check')
            self.assertEqual((0, ''), (result.code, result.out))

    def test_a_table_that_differs(self):
        self._run('sync')
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE history ADD COLUMN ours INT'))
        result = self._run('check')
        self.assertEqual(
            (1, 'remove column: history ours\n'), (result.code, result.out)
        )

    def _assert_cannot_run(
        self, conf, text, commands=('sync', 'version', 'check', 'purge')
    ):
        """One clean line, and the exit code that scripts look for."""
        for command in commands:
            result = self._run(command, conf=conf)
            self.assertEqual((2, ''), (result.code, result.out), command)
            self.assertEqual(1, result.err.count('\n'), result.err)
            self.assertIn(text, result.err)

    def test_without_a_database(self):
        self._assert_cannot_run(database.make_conf(), 'connection is not set')

    def test_database_that_does_not_answer(self):
        """The password of the URL is not printed."""
        conf = database.make_conf(
            'mysql+pymysql://nova_rt:secret@/nova_rt?unix_socket=/no/such',
            max_retries=0,
        )
        self._assert_cannot_run(conf, "does not answer (2003 Can't connect")

    def test_what_the_database_says_is_told(self):
        conf = database.make_conf(
            'mysql+pymysql://u:secret@h/nova_rt', max_retries=0
        )
        for code, said in (
            (1045, "Access denied for user 'u'@'h' (using password: YES)"),
            (1044, "Access denied for user 'u'@'%' to database 'nova_rt'"),
            (1049, "Unknown database 'nova_rt'"),
            (1142, "CREATE command denied to user 'u'@'h' for table 'hosts'"),
            (1235, "This version of MariaDB doesn't yet support 'GET_LOCK in "
                   "cluster (WSREP_ON=ON)'"),
            (1064, "what shows: secret"),
        ):  # fmt: skip
            cause = pymysql.err.OperationalError(code, said)
            with (
                self.subTest(code),
                fixtures.MonkeyPatch(
                    'pymysql.connect', mock.Mock(side_effect=cause)
                ),
            ):
                said = said.replace('secret', '***')
                self._assert_cannot_run(
                    conf, f'refuses ({code} {said})', ['version']
                )

    def _fill(self):
        self._run('sync')
        now = datetime.datetime.now(datetime.UTC)
        for number in range(202):
            api.add_event(event(number, 'applied'), now - 60 * WEEK)
        api.add_event(event(202, 'released'), now)

    def test_purge(self):
        self._fill()
        found = self._read('purge')
        self.assertEqual((202, True), (found['rows'], found['finished']))
        found = self._read('purge')
        self.assertEqual((0, 0), (found['rows'], found['transactions']))

    def test_purge_for_a_while(self):
        self._fill()
        self.useFixture(fixtures.MonkeyPatch('nova_rt.db.retention.STEP', 50))
        found = self._read('purge', '--max-seconds', '0')
        self.assertEqual((50, 1, False), (
            found['rows'], found['transactions'], found['finished']
        ))  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Walks the migrations on real databases, from empty and with rows."""

import subprocess
import sys

import fixtures
from oslotest import base
import sqlalchemy as sa

from nova_rt.db import api, migration, session
from nova_rt.db.migrations import steps
from nova_rt.tests.fixtures import database
from nova_rt.tests.fixtures.history import NOW, UUID, event

SYNC = """
import sys
from nova_rt.db import migration, session
from nova_rt.tests.fixtures import database

session.configure(database.make_conf(sys.argv[1]))
migration.sync()
"""


class Walk:
    """The tests; each class below is a kind of database."""

    server_class: type

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.server_class()
        cls.addClassCleanup(cls.server.cleanUp)
        cls.server.setUp()

    def setUp(self):
        super().setUp()
        self.useFixture(database.Database(self.server, synced=False))

    def test_up_from_empty_and_again(self):
        self.assertIsNone(migration.get_version())
        self.assertTrue(migration.is_behind())
        self.assertNotEqual([], migration.find_differences())
        for _ in range(2):
            migration.sync()
            self.assertEqual(migration.get_newest(), migration.get_version())
            self.assertFalse(migration.is_behind())
            self.assertEqual([], migration.find_differences())

    def test_with_rows(self):
        """A revision that is there already keeps them."""
        migration.sync()
        api.add_event(event(1, 'claimed'), NOW)
        migration.sync()
        self.assertEqual([event(1, 'claimed')], api.get_history(UUID))

    def test_every_step_may_be_interrupted(self):
        """MariaDB keeps what was made before a migration failed."""
        real = steps.create_index
        for wanted in (
            'ix_history_server', 'ix_history_received_at',
            'ix_changes_due_at', 'ix_changes_host',
        ):  # fmt: skip

            def fail(name, *args, wanted=wanted):
                real(name, *args)
                if name == wanted:
                    raise KeyboardInterrupt

            with fixtures.MonkeyPatch(
                'nova_rt.db.migrations.steps.create_index', fail
            ):
                self.assertRaises(KeyboardInterrupt, migration.sync)
            self.assertTrue(migration.is_behind())
        self.interrupt_column()
        migration.sync()
        self.assertEqual([], migration.find_differences())

    def interrupt_column(self):
        real = steps.add_column

        def fail(table, column):
            real(table, column)
            raise KeyboardInterrupt

        with fixtures.MonkeyPatch(
            'nova_rt.db.migrations.steps.add_column', fail
        ):
            self.assertRaises(KeyboardInterrupt, migration.sync)
        self.assertTrue(migration.is_behind())

    def test_a_newer_database_is_not_behind(self):
        migration.sync()
        with session.writer() as writer:
            writer.execute(sa.text("UPDATE alembic_version SET version_num ="
                                   " '999'"))  # fmt: skip
        self.assertFalse(migration.is_behind())

    def test_differences_are_named(self):
        migration.sync()
        with session.writer() as writer:
            writer.execute(sa.text('ALTER TABLE history DROP COLUMN kind'))
        found = '\n'.join(migration.find_differences())
        self.assertIn('add column: history kind', found)


class SQLiteTest(Walk, base.BaseTestCase):
    server_class = database.SQLite


class Crowd:
    """A test of servers: SQLite is for tests alone."""

    def test_several_at_once(self):
        url = session.get_engine().url.render_as_string(hide_password=False)
        running = [
            subprocess.Popen(
                [sys.executable, '-W', 'ignore', '-c', SYNC, url],
                stderr=subprocess.PIPE,
            )
            for _ in range(3)
        ]
        for each in running:
            _, said = each.communicate(timeout=120)
            self.assertEqual(0, each.returncode, said.decode())
        self.assertEqual([], migration.find_differences())


class MariaDBTest(Crowd, Walk, base.BaseTestCase):
    server_class = database.MariaDB

    def test_engine(self):
        migration.sync()
        (row,) = self.server.execute(
            'SHOW CREATE TABLE history', session.get_engine().url.database
        )
        self.assertIn('ENGINE=InnoDB', row[1])


class PostgreSQLTest(Crowd, Walk, base.BaseTestCase):
    server_class = database.PostgreSQL

# SPDX-License-Identifier: Apache-2.0
"""Walks the migrations on real databases, from empty and with rows."""

import subprocess
import sys

import fixtures
from oslotest import base
import sqlalchemy as sa

from nova_rt.db import api, migration, models, session
from nova_rt.db.migrations import steps
from nova_rt.tests.fixtures import database, reports

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

    def test_up_from_each_revision_with_rows(self):
        script = migration._script()
        revisions = [
            each.revision for each in reversed([*script.walk_revisions()])
        ]
        self.assertEqual('001', revisions[0])
        found = []
        for revision in revisions:
            self.useFixture(database.Database(self.server, synced=False))
            migration.sync(revision)
            self._fill()
            migration.sync()
            self.assertEqual([], migration.find_differences())
            found.append(self._read())
        # The last one has been through no migration.
        self.assertEqual([found[-1]] * len(revisions), found)
        self.assertEqual('one', found[-1][0][0].name)

    def _fill(self):
        """Put rows in by SQL: the models are those of the newest revision."""
        with session.writer() as writer:
            writer.execute(sa.text(
                "INSERT INTO hosts (id, name, interface, enforcement, scope, "
                "epoch, state_seq, state_event_seq, event_epoch, event_seq, "
                "repairs, refusals, lost_events, last_report_at, version) "
                "VALUES (7, 'one', 'v2', 'limit', 'cpu', 5, 6, 7, 5, 8, 9, "
                "10, 11, 1700000000000000, '0.1')"
            ))  # fmt: skip
            writer.execute(sa.text(
                "INSERT INTO host_cpus (host_id, cpu, capacity_ppm, "
                "reserved_ppm) VALUES (7, 3, 950000, 700000)"
            ))  # fmt: skip
            writer.execute(
                sa.text(
                    'INSERT INTO servers (id, uuid) '
                    f"VALUES (4, '{reports.UUID}')"
                )
            )
            writer.execute(sa.text(
                "INSERT INTO reservations (server_id, host_id, runtime_us, "
                "period_us, ppm, vcpus, cpus, enforcement, policy, priority, "
                "state, since) VALUES (4, 7, 1400, 2000, 700000, 1, '3', "
                "'limit', 'rr', 1, 'applied', 1700000000000000)"
            ))  # fmt: skip
            entry = sa.table(
                'history',
                *(sa.column(name) for name in (
                    'server_id', 'host_id', 'epoch', 'seq', 'at', 'kind',
                    'details', 'by',
                )),
            )  # fmt: skip
            writer.execute(entry.insert(), {
                'server_id': 4, 'host_id': 7, 'epoch': 5, 'seq': 1,
                'at': 1700000000000000, 'kind': 'claimed', 'details': 'x',
                'by': 'nova-rt-compute',
            })  # fmt: skip
            writer.execute(sa.text(
                "INSERT INTO samples (server_id, resolution_s, at_us, "
                "cpu, span_us, reserved_us, used_us, periods, throttled) "
                "VALUES (4, 0, 1700000000000000, 3, 10000000, 7000000, "
                "6000000, 5000, 4000)"
            ))  # fmt: skip

    def _read(self):
        with session.reader() as reader:
            # For conductors of the version before.
            samples = reader.scalar(sa.text('SELECT COUNT(*) FROM samples'))
        return (
            api.list_hosts(),
            api.list_servers(),
            [
                (each.at, each.host, each.kind, each.details, each.by)
                for each in api.get_history(reports.UUID)
            ],
            samples,
        )

    def test_goes_on_where_it_was_interrupted(self):
        engine = session.get_engine()
        models.Base.metadata.tables['hosts'].create(engine)
        models.Base.metadata.tables['servers'].create(engine)
        hours = models.Base.metadata.tables['server_hours']
        indexes = set(hours.indexes)
        hours.indexes.clear()
        try:
            hours.create(engine)
        finally:
            hours.indexes |= indexes
        self.assertTrue(migration.is_behind())
        migration.sync()
        self.assertEqual([], migration.find_differences())

    def test_every_step_may_be_interrupted(self):
        """MariaDB keeps what was made before a migration failed."""
        for step, wanted in (
            ('create_index', 'ix_history_at'),
            ('create_index', 'ix_reservations_host_id'),
            ('create_index', 'ix_server_hours_hour'),
            ('create_index', 'ix_history_received_at'),
            ('add_column', 'reservations'),
        ):

            def fail(name, *args, wanted=wanted, real=getattr(steps, step)):
                real(name, *args)
                if name == wanted:
                    raise KeyboardInterrupt

            with fixtures.MonkeyPatch(
                f'nova_rt.db.migrations.steps.{step}', fail
            ):
                self.assertRaises(KeyboardInterrupt, migration.sync)
            self.assertTrue(migration.is_behind())
        migration.sync()
        self.assertEqual([], migration.find_differences())

    def test_a_newer_database_is_not_behind(self):
        migration.sync()
        with session.writer() as writer:
            writer.execute(sa.text("UPDATE alembic_version SET version_num ="
                                   " '999'"))  # fmt: skip
        self.assertFalse(migration.is_behind())

    def test_differences_are_named(self):
        migration.sync()
        with session.writer() as writer:
            writer.execute(sa.text('DROP TABLE server_hours'))
            writer.execute(sa.text('ALTER TABLE hosts DROP COLUMN repairs'))
        found = '\n'.join(migration.find_differences())
        self.assertIn('add table: server_hours', found)
        self.assertIn('add column: hosts repairs', found)


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

    def test_hours_are_clustered_by_their_key(self):
        migration.sync()
        (row,) = self.server.execute(
            'SHOW CREATE TABLE server_hours',
            session.get_engine().url.database,
        )
        self.assertIn(
            'PRIMARY KEY (`server_id`,`hour`,`host_id`,`meter`)', row[1]
        )
        self.assertIn('ENGINE=InnoDB', row[1])


class PostgreSQLTest(Crowd, Walk, base.BaseTestCase):
    server_class = database.PostgreSQL

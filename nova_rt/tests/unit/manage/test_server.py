# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands of nova_rt.manage.server that read the history."""

import pathlib

import fixtures

from nova_rt.formats.history import Origin
from nova_rt.tests.fixtures.history import MINUTE, NOW, UUID, make_uuid
from nova_rt.tests.unit.manage import database

OTHER = make_uuid(9)
SMALL = (100, 1000, (1,))


def time(number):
    return (NOW + number * MINUTE).strftime('%Y-%m-%dT%H:%M:%SZ')


class NoDatabaseTest(database.DatabaseTestCase):
    """Errors that are found before any database is asked."""

    def test_connection(self):
        for url, text in (
            (None, 'connection is not set'),
            ('nonsense', 'connection is no URL'),
            ('mysql//u:secret@h/x', 'connection is no URL'),
            ('oracle9+x://u:secret@h/x', 'oracle9'),
            ('mysql+nodriver://u:secret@h/x', 'nodriver'),
        ):
            self.flags(group='nova_rt_database', connection=url)
            self.assert_fails(2, text, 'server', 'history', UUID)
            result = self.run_command('server', 'history', UUID)
            self.assertNotIn('secret', result.err)
            self.assertNotIn('answer', result.err)

    def test_driver_that_is_not_installed(self):
        def connect():
            raise ModuleNotFoundError("No module named 'MySQLdb'")

        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.db.session.reader', connect)
        )
        self.assert_fails(
            2, "not installed (No module named 'MySQLdb'", 'server', 'history',
            UUID,
        )  # fmt: skip

    def test_value(self):
        path = pathlib.Path(self.directory, 'nova.conf')
        path.write_text(
            '[nova_rt_database]\nconnection = sqlite://\nmax_retries = x\n'
        )
        self.conf(['--config-file', str(path)], project='nova')
        self.conf.clear_override('connection', 'nova_rt_database')
        option = f'{path}: [nova_rt_database] max_retries = x: '
        self.assert_fails(2, option, 'server', 'history', UUID)

    def test_server(self):
        for command in 'history', 'reservations':
            self.assert_fails(
                1, 'no server has such a name', 'server', command, 'a\udcff'
            )
            self.assert_fails(1, OTHER, 'server', command, OTHER)


class HistoryTest(database.DatabaseTestCase):
    def test_latest_first(self):
        # As they came, not as they happened.
        for number, kind in (2, 'applied'), (3, 'stopped'), (1, 'claimed'):
            self.happen(number, kind)
        self.happen(4, 'claimed', server=OTHER)
        rows = self.read('server', 'history', UUID)
        self.assertEqual(
            [
                (time(3), 'one', 'stopped', '', ''),
                (time(2), 'one', 'applied', '1400/2000', '3-4'),
                (time(1), 'one', 'claimed', '1400/2000', '3-4'),
            ],
            [tuple(row.values())[:5] for row in rows],
        )
        (row,) = self.read('server', 'history', UUID, '--limit', '1')
        self.assertEqual('stopped', row['Event'])
        rows = self.read('server', 'history', UUID, '--limit', '0')
        self.assertEqual(3, len(rows))

    def test_who(self):
        self.happen(1, 'claimed')
        self.happen(2, 'applied', origin=Origin('req-1', 'u\x1b', 'p'))
        later, first = self.read('server', 'history', UUID)
        names = 'Request', 'User', 'Project'
        self.assertEqual(['', '', ''], [first[name] for name in names])
        self.assertEqual(
            ['req-1', 'u\\x1b', 'p'], [later[name] for name in names]
        )

    def test_hostile_details(self):
        """An event may quote a container."""
        self.happen(1, 'drifted', details='a\x1b]0;b\x07\nc\u202ed\x9be')
        for form in ('table', 'csv', 'value', 'json', 'yaml'):
            out = self.run_command('server', 'history', UUID, '-f', form).out
            for bad in ('\x1b', '\x07', '\u202e', '\x9b', '\nc'):
                self.assertNotIn(bad, out)
        (row,) = self.read('server', 'history', UUID)
        self.assertEqual('a\\x1b]0;b\\x07\\x0ac\\u202ed\\x9be', row['Details'])

    def test_bad_limit(self):
        result = self.run_command('server', 'history', UUID, '--limit', '-1')
        self.assertEqual(2, result.code)


class ReservationsTest(database.DatabaseTestCase):
    def test_move(self):
        self.happen(4, 'released')
        self.happen(2, 'claimed', held=SMALL, host='two')
        self.happen(1, 'claimed')
        self.assertEqual(
            [
                ('one', '1400/2000', '3-4', time(1), time(4)),
                ('two', '100/1000', '1', time(2), ''),
            ],
            [
                tuple(row.values())
                for row in self.read('server', 'reservations', UUID)
            ],
        )

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.server."""

import pathlib

import fixtures
import sqlalchemy as sa

from nova_rt.db import session
from nova_rt.formats.reports import Origin
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures import specs
from nova_rt.tests.unit.manage import database
from nova_rt.tests.unit.manage.database import (
    MINUTE,
    NOBODY,
    NOW,
    RECORD,
    SMALL,
    A,
    B,
)  # fmt: skip

TIME = NOW.strftime('%Y-%m-%dT%H:%M:%SZ')


class ListTest(database.DatabaseTestCase):
    def test_none(self):
        self.assertEqual([], self.read('server', 'list'))

    def test_list(self):
        self.report('host1', **{A: RECORD})
        self.report('host2', **{B: SMALL})
        rows = self.read('server', 'list')
        self.assertEqual(
            [
                (A, 'host1', '600/1000', '0,2', 1_200_000, 'applied', TIME),
                (B, 'host2', '20000/100000', '2', 200_000, 'applied', TIME),
            ],
            [tuple(row.values()) for row in rows],
        )
        (row,) = self.read('server', 'list', '--host', 'host2')
        self.assertEqual(B, row['Server'])

    def test_released(self):
        self.report(**{A: RECORD})
        self.report()
        self.assertEqual([], self.read('server', 'list'))
        (row,) = self.read('server', 'list', '--all')
        self.assertEqual((A, 'released'), (row['Server'], row['State']))

    def test_unknown_host(self):
        self.assert_fails(1, 'host9', 'server', 'list', '--host', 'host9')


class NoDatabaseTest(database.DatabaseTestCase):
    """Errors that are found before any database is asked."""

    def test_url(self):
        for url in ('nonsense', 'mysql//u:secret@h/x'):
            self.flags(group='nova_rt_database', connection=url)
            self.assert_fails(2, 'connection is no URL', 'server', 'list')

    def test_driver(self):
        for url, text in (
            ('oracle9+x://u:secret@h/x', 'oracle9'),
            ('mysql+nodriver://u:secret@h/x', 'nodriver'),
        ):
            self.flags(group='nova_rt_database', connection=url)
            self.assert_fails(2, text, 'server', 'list')
            result = self.run_command('server', 'list')
            self.assertNotIn('secret', result.err)
            self.assertNotIn('answer', result.err)

    def test_driver_that_is_not_installed(self):
        def connect():
            raise ModuleNotFoundError("No module named 'MySQLdb'")

        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.db.session.reader', connect)
        )
        self.assert_fails(2, 'MySQLdb', 'server', 'list')
        self.assert_fails(2, 'not installed', 'server', 'list')

    def test_value(self):
        path = pathlib.Path(self.directory, 'nova.conf')
        path.write_text(
            '[nova_rt_database]\nconnection = sqlite://\nmax_retries = x\n'
        )
        self.conf(['--config-file', str(path)], project='nova')
        self.conf.clear_override('connection', 'nova_rt_database')
        option = f'{path}: [nova_rt_database] max_retries = x: '
        self.assert_fails(2, option, 'server', 'list')

    def test_name_that_is_no_text(self):
        for words in (('show', 'a\udcff'), ('history', 'a\udcff'),
                      ('list', '--host', 'a\udcff')):  # fmt: skip
            self.assert_fails(1, 'no server or host', 'server', *words)


class ShowTest(database.DatabaseTestCase):
    def test_unknown(self):
        self.assert_fails(1, NOBODY, 'server', 'show', NOBODY)
        self.assert_fails(1, '\\x1b', 'server', 'show', '\x1b[2J')

    def test_show(self):
        self.report(**{B: SMALL})
        expected = {
            'Server': B,
            'Host': 'host1',
            'Reservation': '20000/100000',
            'ppm': 200_000,
            'vCPUs': 1,
            'CPUs': '2',
            'Total ppm': 200_000,
            'Enforcement': 'guarantee',
            'Policy': 'rr',
            'Priority': 7,
            'Numa': 'prefer',
            'State': 'applied',
            'Since': TIME,
        }
        shown = self.read('server', 'show', B)
        self.assertEqual(expected, {name: shown[name] for name in expected})

    def test_every_extra_spec(self):
        request = specs.make_unusual()
        self.report(**{A: Record(request, (0, 2))})
        shown = self.read('server', 'show', A)
        for field, value in request.plain().items():
            self.assertEqual(
                value, shown[field.replace('_', ' ').capitalize()]
            )

    def test_row_of_a_conductor_of_the_version_before(self):
        self.report(**{B: SMALL})
        with session.writer() as writer:
            writer.execute(sa.text('UPDATE reservations SET record = NULL'))
        shown = self.read('server', 'show', B)
        self.assertEqual((7, None), (shown['Priority'], shown['Numa']))


class HistoryTest(database.DatabaseTestCase):
    def test_unknown(self):
        self.assert_fails(1, NOBODY, 'server', 'history', NOBODY)

    def test_latest_first(self):
        self.report()
        for seq, kind in enumerate(('claimed', 'applied', 'drifted'), 1):
            self.happen(seq, kind, at=NOW - MINUTE * (9 - seq))
        self.happen(4, 'claimed', uuid=B)
        rows = self.read('server', 'history', A)
        self.assertEqual(
            ['drifted', 'applied', 'claimed'], [row['Event'] for row in rows]
        )
        self.assertEqual(
            {('host1', 'nova-rt-compute')},
            {(row['Host'], row['By']) for row in rows},
        )
        (row,) = self.read('server', 'history', A, '--limit', '1')
        self.assertEqual('drifted', row['Event'])
        rows = self.read('server', 'history', A, '--limit', '0')
        self.assertEqual(3, len(rows))

    def test_who(self):
        self.report()
        self.happen(1, 'claimed')
        self.happen(2, 'applied', origin=Origin('req-1', 'u\x1b', 'p'))
        later, first = self.read('server', 'history', A)
        names = 'Request', 'User', 'Project'
        self.assertEqual(['', '', ''], [first[name] for name in names])
        self.assertEqual(
            ['req-1', 'u\\x1b', 'p'], [later[name] for name in names]
        )

    def test_hostile_details(self):
        """A report of a compute service may quote a container."""
        self.report()
        self.happen(1, 'drifted', details='a\x1b]0;b\x07\nc\u202ed\x9be')
        for form in ('table', 'csv', 'value', 'json', 'yaml'):
            out = self.run_command('server', 'history', A, '-f', form).out
            for bad in ('\x1b', '\x07', '\u202e', '\x9b', '\nc'):
                self.assertNotIn(bad, out)
        (row,) = self.read('server', 'history', A)
        self.assertEqual('a\\x1b]0;b\\x07\\x0ac\\u202ed\\x9be', row['Details'])

    def test_bad_limit(self):
        result = self.run_command('server', 'history', A, '--limit', '-1')
        self.assertEqual(2, result.code)

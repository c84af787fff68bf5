# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.host and stored."""

import argparse
import datetime

from oslotest import base

from nova_rt.formats.reports import HostCPU
from nova_rt.manage import stored
from nova_rt.tests.unit.manage import database
from nova_rt.tests.unit.manage.database import NOW, RECORD, SMALL, A, B


class ListTest(database.DatabaseTestCase):
    def test_none(self):
        self.assertEqual([], self.read('host', 'list'))

    def test_list(self):
        self.report('host2', at=NOW - database.MINUTE * 9)
        self.report(**{A: RECORD, B: SMALL})
        first, second = self.read('host', 'list')
        age_s = first.pop('Age s')
        # NOW is when the tests were loaded.
        self.assertIn(age_s, range(3600))
        self.assertEqual(
            {
                'Host': 'host1',
                'Interface': 'some-interface',
                'Enforcement': 'guarantee',
                'CPUs': 3,
                'Capacity ppm': 2_800_000,
                'Reserved ppm': 1_400_000,
                'Servers': 2,
                'Last report': NOW.strftime('%Y-%m-%dT%H:%M:%SZ'),
            },
            first,
        )
        self.assertEqual(('host2', 0), (second['Host'], second['Servers']))
        self.assertIn(second['Age s'] - age_s, range(539, 542))

    def test_sum_of_the_host(self):
        self.report(host_cpu=HostCPU(950_000, 123_000))
        (row,) = self.read('host', 'list')
        self.assertEqual(
            (950_000, 123_000), (row['Capacity ppm'], row['Reserved ppm'])
        )

    def test_nothing_was_reported(self):
        """Reports are off by default, which nobody sees in an empty table."""
        for words in (
            ('host', 'list'), ('server', 'list'), ('usage', 'list'),
            ('usage', 'export'),
        ):  # fmt: skip
            self.assertIn(
                '[nova_rt] report = true', self.run_command(*words).err
            )
        self.report()
        result = self.run_command('server', 'list')
        self.assertEqual((0, ''), (result.code, result.err))

    def test_columns_and_sorting(self):
        self.report('host2')
        self.report('host1')
        result = self.run_command(
            'host', 'list', '-f', 'value', '-c', 'Host', '--sort-column',
            'Host', '--sort-descending',
        )  # fmt: skip
        self.assertEqual('host2\nhost1\n', result.out)

    def test_hostile_name(self):
        self.report('h\x1b[2J\u202e')
        for form in ('table', 'csv', 'value', 'json', 'yaml'):
            out = self.run_command('host', 'list', '-f', form).out
            self.assertNotIn('\x1b', out)
            self.assertNotIn('\u202e', out)
            self.assertIn('[2J', out)


class ShowTest(database.DatabaseTestCase):
    def test_unknown(self):
        self.assert_fails(1, 'host9', 'host', 'show', 'host9')
        self.assert_fails(1, '\\x1b', 'host', 'show', 'h\x1b[2J')

    def test_show(self):
        self.report(**{A: RECORD, B: SMALL})
        rows = self.read('host', 'show', 'host1')
        self.assertEqual(
            [
                (0, 950_000, 600_000, 350_000, 1),
                (2, 950_000, 800_000, 150_000, 2),
                (3, 900_000, 0, 900_000, 0),
            ],
            [tuple(row.values()) for row in rows],
        )

    def test_sum_of_the_host(self):
        self.report(host_cpu=HostCPU(950_000, 960_000), **{A: RECORD})
        row = self.read('host', 'show', 'host1')[-1]
        self.assertEqual(('host', 950_000, 960_000, 0, 1), tuple(row.values()))


class ResetTest(database.DatabaseTestCase):
    def test_unknown(self):
        self.assert_fails(1, 'host9', 'host', 'reset', 'host9')

    def test_reset(self):
        self.report(**{A: RECORD})
        self.seq -= 1
        self.assertRaises(AssertionError, self.report)
        self.assertEqual(0, self.run_command('host', 'reset', 'host1').code)
        self.seq -= 1
        self.report()
        self.assertEqual([], self.read('server', 'list'))


class DeleteTest(database.DatabaseTestCase):
    def test_unknown(self):
        self.assert_fails(1, 'host9', 'host', 'delete', 'host9')

    def test_delete(self):
        self.report(**{A: RECORD})
        self.report('host2')
        self.measure()
        self.measure(host='host2')
        words = ('host', 'delete', 'host1')
        self.assert_fails(1, '1 server(s)', *words)
        self.assertEqual(0, self.run_command(*words, '--force').code)
        (row,) = self.read('host', 'list')
        self.assertEqual('host2', row['Host'])
        (row,) = self.read('usage', 'list')
        self.assertEqual('host2', row['Host'])
        self.assertEqual([], self.read('server', 'list', '--all'))
        # One that only has events.
        self.happen(1, 'claimed', host='host3')
        self.assertEqual(0, self.run_command('host', 'delete', 'host3').code)


class DatabaseTest(database.DatabaseTestCase):
    COMMANDS = (
        ('host', 'list'), ('host', 'show', 'a'), ('server', 'list'),
        ('host', 'reset', 'a'), ('host', 'delete', 'a'),
        ('server', 'show', A), ('server', 'history', A),
        ('usage', 'list'), ('usage', 'show', A), ('usage', 'export'),
    )  # fmt: skip

    def test_not_configured(self):
        self.flags(group='nova_rt_database', connection=None)
        for words in self.COMMANDS:
            self.assert_fails(2, '[nova_rt_database] connection', *words)

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


class TimeTest(base.BaseTestCase):
    def test_ago(self):
        now = datetime.datetime.now(datetime.UTC)
        for text, seconds in (
            ('0s', 0), ('90s', 90), ('30m', 1800), ('24h', 86400),
            ('7d', 604800),
        ):  # fmt: skip
            ago = now - stored.parse_time(text)
            self.assertAlmostEqual(seconds, ago.total_seconds(), delta=5)

    def test_absolute(self):
        expected = datetime.datetime(2026, 2, 3, 4, 5, tzinfo=datetime.UTC)
        for text in (
            '2026-02-03T04:05', '2026-02-03 04:05:00', '2026-02-03T04:05Z',
            '2026-02-03T06:05+02:00',
        ):  # fmt: skip
            self.assertEqual(expected, stored.parse_time(text))

    def test_rendered(self):
        time = stored.parse_time('2026-02-03T06:05:09+02:00')
        self.assertEqual('2026-02-03T04:05:09Z', stored.render_time(time))

    def test_bad(self):
        for text in (
            '', 'x', '1', '1w', '-1h', '٣h', '1234567s', '999999d',
            '2026-13-01', '9999-12-31T23:59-10:00',
        ):  # fmt: skip
            self.assertRaises(
                argparse.ArgumentTypeError, stored.parse_time, text
            )

    def test_count(self):
        self.assertEqual(12, stored.parse_count('12'))
        for text in ('', '-1', '1.0', '1234567890', '٣'):
            self.assertRaises(
                argparse.ArgumentTypeError, stored.parse_count, text
            )

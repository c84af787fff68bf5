# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.usage."""

import csv
import datetime
import io
import json
import pathlib
import tracemalloc

import fixtures

from nova_rt.db.objects import HourUsage
from nova_rt.tests.unit.manage import database
from nova_rt.tests.unit.manage.database import (
    HOUR,
    NOBODY,
    RECORD,
    A,
    B,
)  # fmt: skip

FIRST = datetime.datetime.fromtimestamp((HOUR - 2) * 3600, datetime.UTC)
HOURS = datetime.timedelta(hours=1)


def render(time):
    return time.strftime('%Y-%m-%dT%H:%M:%SZ')


class UsageTestCase(database.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.report(**{A: RECORD})
        self.report('host\x1b2', **{B: RECORD})


class ListTest(UsageTestCase):
    def test_nothing(self):
        self.assertEqual([], self.read('usage', 'list'))

    def test_list(self):
        self.measure()
        self.measure(B, hours=30, host='host\x1b2', used_us=None)
        first, second = self.read('usage', 'list')
        self.assertEqual(
            {
                'Server': A,
                'Host': 'host1',
                'Hours': 3,
                'Reserved s': 6480.0,
                'Used s': 5400.0,
                'Used %': 83.3,
                'Periods': 10_800_000,
                'Throttled': 21,
            },
            first,
        )
        self.assertEqual('host\\x1b2', second['Host'])
        # A day, and less an hour if one has begun since the tests were loaded.
        self.assertIn(second['Hours'], (23, 24, 25))
        self.assertEqual((None, None), (second['Used s'], second['Used %']))

    def test_host(self):
        self.measure()
        self.measure(B, host='host\x1b2')
        (row,) = self.read('usage', 'list', '--host', 'host1')
        self.assertEqual(A, row['Server'])
        self.assert_fails(1, 'host9', 'usage', 'list', '--host', 'host9')

    def test_time(self):
        self.measure()
        words = ('usage', 'list', '--since')
        since, until = FIRST.isoformat(), (FIRST + HOURS).isoformat()
        self.assertEqual(3, self.read(*words, since)[0]['Hours'])
        (row,) = self.read(*words, since, '--until', until)
        self.assertEqual(1, row['Hours'])
        self.assert_fails(2, '--since', *words, until, '--until', since)
        self.assertEqual(2, self.run_command(*words, 'x').code)


class ShowTest(UsageTestCase):
    def test_unknown(self):
        self.assert_fails(1, NOBODY, 'usage', 'show', NOBODY)

    def test_nothing(self):
        self.assertEqual([], self.read('usage', 'show', A))

    def test_show(self):
        self.measure()
        self.measure(host='host\x1b2', hours=1)
        rows = self.read('usage', 'show', A)
        self.assertEqual(
            {
                'Hour': render(FIRST),
                'Host': 'host1',
                'Reserved s': 2160.0,
                'Used s': 1800.0,
                'Used %': 83.3,
                'Periods': 3_600_000,
                'Throttled': 7,
            },
            rows[0],
        )
        self.assertEqual(4, len(rows))
        self.assertEqual(
            3, len(self.read('usage', 'show', A, '--host', 'host1'))
        )


class ExportTest(UsageTestCase):
    def setUp(self):
        super().setUp()
        self.measure()
        self.measure(B, hours=2, host='host\x1b2')

    def export(self, *words):
        result = self.run_command('usage', 'export', *words)
        self.assertEqual(0, result.code, result.err)
        self.assertEqual('', result.err)
        return result.out

    def test_csv(self):
        rows = list(csv.DictReader(io.StringIO(self.export())))
        self.assertEqual(5, len(rows))
        self.assertEqual(
            {
                'hour': render(FIRST), 'server': A, 'host': 'host1',
                'reserved_us': '2160000000', 'used_us': '1800000000',
                'periods': '3600000', 'throttled': '7',
            },
            rows[0],
        )  # fmt: skip

    def test_json(self):
        lines = self.export('--format', 'json').splitlines()
        rows = [json.loads(line) for line in lines]
        self.assertEqual(5, len(rows))
        self.assertEqual(1_800_000_000, rows[0]['used_us'])
        self.assertEqual({'host1', 'host\\x1b2'}, {r['host'] for r in rows})

    def test_server(self):
        lines = self.export('--format', 'json', '--server', A).splitlines()
        self.assertEqual(3, len(lines))
        self.assert_fails(1, NOBODY, 'usage', 'export', '--server', NOBODY)

    def test_file(self):
        path = pathlib.Path(self.directory, 'out.csv')
        path.write_text('before')
        self.assertEqual('', self.export('--output', str(path)))
        self.assertEqual(6, len(path.read_text().splitlines()))
        self.assertFalse(path.with_name('out.csv.part').exists())

    def test_file_that_cannot_be_written(self):
        self.assert_fails(
            1, 'cannot write', 'usage', 'export', '--output',
            f'{self.directory}/nowhere/out.csv',
        )  # fmt: skip

    def test_broken_off(self):
        """The old file stays; no half of a file looks like a whole one."""
        path = pathlib.Path(self.directory, 'out.csv')
        path.write_text('before')

        def fail(*args):
            yield from self.many(*args[:1], args[0] + HOURS)
            raise RuntimeError('gone')

        with fixtures.MonkeyPatch('nova_rt.db.api.iterate_hours', fail):
            result = self.run_command('usage', 'export', '--output', str(path))
        self.assertEqual(2, result.code)
        self.assertEqual('before', path.read_text())
        self.assertFalse(path.with_name('out.csv.part').exists())

    def test_memory_is_bounded(self):
        """Ten times the hours, the same memory."""
        peaks = []
        for days in (100, 1000):
            tracemalloc.start()
            with fixtures.MonkeyPatch(
                'nova_rt.db.api.iterate_hours', self.many
            ):
                result = self.run_command(
                    'usage', 'export', '--since', f'{days}d', '--output',
                    f'{self.directory}/out',
                )  # fmt: skip
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            self.assertEqual(0, result.code, result.err)
        self.assertLess(peaks[1], 1.5 * peaks[0])

    def many(self, since, until, host=None, server=None):
        while since < until:
            yield HourUsage(A, 'host1', 1, 1, 1, 1, 1, since)
            since += HOURS

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.manage.metrics."""

import csv
import io
import json
import pathlib
import tracemalloc

import fixtures

from nova_rt.db.objects import Sample
from nova_rt.tests.unit.cmd.manage import database
from nova_rt.tests.unit.cmd.manage.database import (
    MINUTE,
    NOBODY,
    NOW,
    RECORD,
    A,
    B,
)  # fmt: skip


class ShowTest(database.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.report(**{A: RECORD})

    def test_unknown(self):
        self.assert_fails(1, NOBODY, 'metrics', 'show', NOBODY)
        self.assert_fails(1, 'host9', 'metrics', 'show', '--host', 'host9')

    def test_nothing(self):
        self.assertEqual([], self.read('metrics', 'show', A))

    def test_show(self):
        self.measure(minutes=3)
        rows = self.read('metrics', 'show', A, '--since', '1h')
        self.assertEqual(6, len(rows))
        self.assertEqual(
            {
                'Time': (NOW - 3 * MINUTE).strftime('%Y-%m-%dT%H:%M:%SZ'),
                'CPU': 0,
                'Span s': 60.0,
                'Reserved ms': 36_000,
                'Used ms': 30_000,
                'Used %': 83.3,
                'Periods': 60_000,
                'Throttled': 7,
            },
            rows[0],
        )

    def test_time(self):
        self.measure(minutes=10)
        words = ('metrics', 'show', A)
        since = (NOW - 3 * MINUTE).isoformat()
        until = (NOW - 2 * MINUTE).isoformat()
        self.assertEqual(6, len(self.read(*words, '--since', since)))
        rows = self.read(*words, '--since', since, '--until', until)
        self.assertEqual(2, len(rows))
        self.assert_fails(2, '--since', *words, '--since', until,
                          '--until', since)  # fmt: skip
        self.assertEqual(2, self.run_command(*words, '--since', 'x').code)

    def test_not_counted(self):
        self.measure(minutes=1, used_us=None)
        (row, _) = self.read('metrics', 'show', A)
        self.assertEqual((None, None), (row['Used ms'], row['Used %']))

    def test_host(self):
        self.measure(minutes=2)
        rows = self.read('metrics', 'show', '--host', 'host1')
        self.assertEqual(4, len(rows))
        self.assertEqual(57_000, rows[0]['Capacity ms'])

    def test_one_thing(self):
        for words in ((), (A, '--host', 'host1')):
            self.assertEqual(
                2, self.run_command('metrics', 'show', *words).code
            )


class ExportTest(database.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.report(**{A: RECORD})
        self.report('host\x1b2', **{B: RECORD})
        self.measure(minutes=3)
        self.measure(B, minutes=2)

    def export(self, *words):
        result = self.run_command(
            'metrics', 'export', '--resolution', 'raw', *words
        )
        self.assertEqual(0, result.code, result.err)
        self.assertEqual('', result.err)
        return result.out

    def test_csv(self):
        rows = list(csv.DictReader(io.StringIO(self.export())))
        self.assertEqual(10, len(rows))
        self.assertEqual({A, B}, {row['server'] for row in rows})
        self.assertEqual(
            {
                'at': (NOW - 3 * MINUTE).strftime('%Y-%m-%dT%H:%M:%SZ'),
                'server': A, 'cpu': '0', 'span_us': '60000000',
                'reserved_us': '36000000', 'used_us': '30000000',
                'periods': '60000', 'throttled': '7',
            },
            next(row for row in rows if row['server'] == A),
        )  # fmt: skip

    def test_json(self):
        lines = self.export('--format', 'json').splitlines()
        rows = [json.loads(line) for line in lines]
        self.assertEqual(10, len(rows))
        self.assertEqual(30_000_000, rows[0]['used_us'])

    def test_servers(self):
        for words, count in (
            (('--server', A), 6),
            (('--server', A, '--server', B), 10),
        ):
            lines = self.export('--format', 'json', *words).splitlines()
            self.assertEqual(count, len(lines))
        self.assert_fails(1, NOBODY, 'metrics', 'export', '--server', NOBODY)

    def test_hosts(self):
        out = self.export('--hosts', '--format', 'json')
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual({'host1'}, {row['host'] for row in rows})
        self.assertEqual(57_000_000, rows[0]['capacity_us'])

    def test_windows_leave_nothing_out(self):
        """Nothing twice, nothing missing, wherever they end."""
        whole = self.export()
        for seconds in (30, 60, 61, 119):
            with fixtures.MonkeyPatch(
                'nova_rt.cmd.manage.metrics._WINDOWS',
                {'raw': MINUTE * seconds / 60, '5min': None, 'hour': None},
            ):
                self.assertEqual(whole, self.export('--since', '1h'))

    def test_file(self):
        path = pathlib.Path(self.directory, 'out.csv')
        path.write_text('before')
        self.assertEqual('', self.export('--output', str(path)))
        self.assertEqual(11, len(path.read_text().splitlines()))
        self.assertFalse(path.with_name('out.csv.part').exists())

    def test_file_that_cannot_be_written(self):
        self.assert_fails(
            1, 'cannot write', 'metrics', 'export', '--output',
            f'{self.directory}/nowhere/out.csv',
        )  # fmt: skip

    def test_broken_off(self):
        """The old file stays; no half of a file looks like a whole one."""
        path = pathlib.Path(self.directory, 'out.csv')
        path.write_text('before')

        def fail(*args):
            raise RuntimeError('gone')

        with fixtures.MonkeyPatch('nova_rt.db.api.read_samples', fail):
            result = self.run_command(
                'metrics', 'export', '--output', str(path)
            )
        self.assertEqual(2, result.code)
        self.assertEqual('before', path.read_text())
        self.assertFalse(path.with_name('out.csv.part').exists())

    def test_memory_is_bounded(self):
        """Ten times the samples, the same memory."""
        peaks = []
        for days in (10, 100):
            tracemalloc.start()
            with fixtures.MonkeyPatch(
                'nova_rt.db.api.read_samples', self.many
            ):
                result = self.run_command(
                    'metrics', 'export', '--server', A, '--since',
                    f'{days}d', '--resolution', 'raw', '--output',
                    f'{self.directory}/out',
                )  # fmt: skip
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            self.assertEqual(0, result.code, result.err)
        self.assertLess(peaks[1], 1.5 * peaks[0])

    def many(self, uuid, since, until, resolution):
        count = (until - since) // (5 * MINUTE)
        return [
            Sample(since + 5 * MINUTE * number, 0, 1, 1, 1, 1, 1)
            for number in range(count)
        ]

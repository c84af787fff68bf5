# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.model.fit and samples."""

import random
import shlex

from nova_rt.tests.unit.cmd.model import base


def exponential(number=3000, seed=1):
    generator = random.Random(seed)
    return [generator.expovariate(1000) for _ in range(number)]


class FitTest(base.TestCase):
    def fit(self, data, more=''):
        return self.ask(f'fit {more}', self.write('x.csv', data))

    def refused(self, text, data, more=''):
        self.assert_refused(text, f'fit {more}', self.write('x.csv', data))

    def test_description(self):
        times = exponential()
        said = self.fit('\n'.join(map(repr, times)), '--csv-unit s')
        self.assertAlmostEqual(sum(times) / 3000, said['Mean'])
        self.assertEqual(sorted(times)[2969], said['p99'])
        # Three times above it are an accident.
        self.assertNotIn('p99.9', said)
        self.assertEqual(max(times), said['Longest'])
        self.assertNotIn('Caution', said)
        words = shlex.split(said['Options'])
        again = self.ask('latency --rate 500/s --reservation 744/1000', *words)
        self.assertEqual('M/G/1', again['Model'])

    def test_constant(self):
        said = self.fit('1ms\n' * 99 + '1.001ms\n')
        # The longest one, to be safe.
        self.assertIn('1001us --distribution constant', said['Options'])
        self.ask(
            'latency --rate 500/s --reservation 744/1000',
            *shlex.split(said['Options']),
        )
        # One that stands out says something else.
        said = self.fit('1ms\n' * 9999 + '2.4ms\n')
        self.assertIn('--measured', said['Options'])

    def test_column(self):
        data = 'name,the time\n' + 'x,1\ny,3\n' * 60
        said = self.fit(data, '--csv-unit ms --csv-column "the time"')
        self.assertAlmostEqual(0.25, said['Variation'])
        again = self.ask(
            'latency --rate 100/s --reservation 744/1000',
            *shlex.split(said['Options']),
        )
        self.assertEqual('M/G/1', again['Model'])
        # They come in turns.
        self.assertIn('correlation -1.00', said['Caution'])
        self.assertIn('correlation -1.00', again['Caution'])

    def test_size(self):
        """That of the command reservation."""
        data = 'ms\n' + '0.5\n0.9\n1.6\n' * 100
        wish = '--rate 400/s --deadline 12ms --percentile 99 --period 2ms'
        wish += ' --latency 1ms --max-bandwidth 99'
        said = self.fit(data, f'--csv-unit ms {wish}')
        other = self.ask(f'reservation {wish}', *shlex.split(said['Options']))
        for name in ('Reservation', 'Mean', 'p99', 'Flavor', 'Sample'):
            self.assertEqual(other[name], said[name])
        self.assertAlmostEqual(1e-3, said['Mean time'])
        self.assertAlmostEqual(0.9e-3, said['Time p50'])
        self.assertLess(said['Sample']['Low'], said['Safe p99'])
        self.assertLess(said['Safe p99'], said['Sample']['High'])
        self.assertLessEqual(said['Safe p99'], 0.012)
        self.assertIn('too small', said['Caution'])
        shown = self.run_it(
            f'fit --csv-unit ms {wish}', self.write('x.csv', data)
        ).out
        self.assertNotIn('Flavor set', shown)

    def test_what_a_host_promises(self):
        """Above it there is a caution, in each command."""
        times = '\n'.join(map(repr, exponential()))
        wish = '--rate 950/s --deadline 1s --percentile 99'
        for said in (
            self.fit(times, f'--csv-unit s {wish}'),
            self.ask(
                'reservation --rate 10/s --burst 10 --longest 1ms '
                '--deadline 10.2ms'
            ),
        ):
            self.assertIn('Hosts promise 95 %', said['Caution'])

    def test_spellings(self):
        """With names or without, by name or number, with what editors add."""
        line = '0.001\n'
        wanted = self.fit(line * 50, '--csv-unit s')
        for data, more in (
            ('time\n' + line * 50, '--csv-unit s'),
            ('\ufefftime\r\n' + '1\r\n' * 50, '--csv-unit ms'),
            ('\n\n' + '1e3\n\n' * 50, '--csv-unit us'),
            ('"time"\n' + '"1ms"\n' * 50, ''),
            ('1000 us\n' * 50, '--csv-unit s'),
            ('a,b\n' + '7,1\n' * 50, '--csv-column b --csv-unit ms'),
            ('a,b\n' + '7,1\n' * 50, '--csv-column 2 --csv-unit ms'),
            ('7.0,1\n' * 50, '--csv-column 2 --csv-unit ms'),
            ('a;b\n' + '7;1\n' * 50, '--csv-column b --csv-unit ms'),
            ('a\tb\n' + '7\t1\n' * 50, '--csv-column b --csv-unit ms'),
            ('sep=|\na|b\n' + '7|1\n' * 50, '--csv-column b --csv-unit ms'),
            ('99th\n' + '1\n' * 50, '--csv-unit ms'),
            ('1000\u00b5s\n' * 50, ''),
            ('1000 \u03bcs\n' * 50, ''),
            ('2,1\n' + '7,1ms\n' * 50, '--csv-column 2 --csv-unit ms'),
        ):
            said = self.fit(data, more)
            for same in ('Mean', 'Longest'):
                self.assertEqual(wanted[same], said[same], data[:20])

    def test_no_times(self):
        for text, why in (
            ('0', 'must be from'), ('-1', 'must be from'),
            ('1e309', 'must be from'), ('-1e309', 'must be from'),
            ('9' * 400, 'must be from'), ('1e-400', 'must be from'),
            ('nan', 'not a duration'), ('NaN', 'not a duration'),
            ('inf', 'not a duration'), ('-Infinity', 'not a duration'),
            ('x', 'not a duration'), ('1_0', 'not a duration'),
            ('0x10', 'not a duration'), ('\u0661', 'not a duration'),
            ('1 2', 'not a duration'),
            ('1\x00', 'not a duration'), ('\x1b[2J', 'not a duration'),
            ('-1ms', 'not a duration'), ('1parsec', 'unit'),
        ):  # fmt: skip
            data = '1\n' * 30 + f'{text}\n'
            self.refused(why, data, '--csv-unit s')
            self.refused('line 31', data, '--csv-unit s')

    def test_refused(self):
        ms = '--csv-unit ms '
        plain, rows = '1ms\n' * 50, 'a,b,b\n' + '1,2,3\n' * 30
        # A decimal comma is never cut off.
        comma = 'decimal points, not'
        for text, data, more in (
            ('--rate is for --deadline', plain, '--rate 5/s'),
            ('--batch is for --deadline', plain, '--batch 2'),
            ('--flavors is for --deadline', plain, '--flavors x'),
            ('go together', plain, '--percentile 99'),
            ('give --rate', plain, '--deadline 9ms --percentile 99'),
            ('do not meet', plain, '--rate 5/s --deadline 20ms '
             '--percentile 99 --latency 10ms'),
            (comma, 'time_ms\n1\n0,8\n', ms),
            (comma, 'time_ms\n0,8\n1,5\n', ms),
            (comma, '1\n1,5\n', ms),
            (comma, '1,5\n1\n', ms + '--csv-column 1'),
            ('with a decimal comma', '1,5\n12,25\n' * 20,
             ms + '--csv-column 1'),
            ("line 2: '0,8' is not", 'id;time_ms\n1;0,8\n',
             ms + '--csv-column time_ms'),
            (': Date_ms, response_time_ms',
             'Date_ms;response_time_ms;\n1;2;\n', ms + '--csv-column nope'),
            ("line 3: '' is not a duration", 'a,b\n1,2\n1,\n',
             ms + '--csv-column b'),
            ('line 3 has 1 columns', 'a,b\n1,2\n1\n', ms + '--csv-column b'),
            ("line 2: '1' has no unit", 'ms\n' + '1\n' * 30, ''),
            ('19 service times are too few', '1ms\n' * 19, ''),
            ('3 columns: choose one', rows, ms),
            *(('there is no column', rows, f'{ms}--csv-column={name!r}')
              for name in ('b', 'c', '0', '4', '-1', '99999', '')),
            *(('there are no service times', data, '')
              for data in ('', '\n\n', ' \n', ',,\n', 'time\n', '\ufeff')),
            # Not taken for a name.
            *(('line 1', f'{first}\n' + '1\n' * 30, '--csv-unit s')
              for first in ('nan', '-inf', '1e309', '-5', '0', '1\x00')),
            ('line 1 is longer', '1' * 100_000, ''),
            ('line 1 is longer', b'\0' * 100_000, ''),
            ('is not text', b'\xff\xfe1\n', ''),
            ('is not CSV', '"1\n1\n', ''),
            ('is not CSV', '"1"x\n', ''),
            ('2001 columns', 'a,' * 2000, ''),
        ):  # fmt: skip
            self.refused(text, data, more)
        self.fit('1ms\n' * 20)
        for path, text in (
            ('/dev/zero', 'line 1 is longer'), ('/nowhere', 'No such file'),
            (str(self.directory), 'directory'), ('y\x1b.csv', 'No such file'),
        ):  # fmt: skip
            self.assert_refused(text, 'fit', path)

    def test_huge(self):
        """It stops reading, whatever follows."""
        self.useFixture(
            base.fixtures.MonkeyPatch(
                'nova_rt.cmd.model.samples.MAX_TIMES', 100
            )
        )
        self.fit('1ms\n' * 100)
        self.refused('more than 100', '1ms\n' * 101 + '"')

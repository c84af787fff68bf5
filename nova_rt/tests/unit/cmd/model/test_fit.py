# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.model.fit and samples."""

import os
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

    def test_size_is_not_asked_for(self):
        data = '1ms\n' * 50
        for text, more in (
            ('--rate is for --deadline', '--rate 5/s'),
            ('--batch is for --deadline', '--batch 2'),
            ('--flavors is for --deadline', '--flavors x'),
            ('go together', '--percentile 99'),
            ('give --rate', '--deadline 9ms --percentile 99'),
            ('do not meet', '--rate 5/s --deadline 20ms --percentile 99 '
             '--latency 10ms'),
        ):  # fmt: skip
            self.refused(text, data, more)

    def test_decimal_comma(self):
        """Never cut off."""
        for data, more in (
            ('time_ms\n1\n0,8\n', ''),
            ('time_ms\n0,8\n1,5\n', ''),
            ('1\n1,5\n', ''),
            ('1,5\n1\n', '--csv-column 1'),
        ):
            self.refused('decimal points, not', data, f'--csv-unit ms {more}')
        self.refused(
            'with a decimal comma', '1,5\n12,25\n' * 20,
            '--csv-unit ms --csv-column 1',
        )  # fmt: skip
        self.refused(
            "line 2: '0,8' is not", 'id;time_ms\n1;0,8\n',
            '--csv-unit ms --csv-column time_ms',
        )  # fmt: skip

    def test_names_are_told(self):
        self.refused(
            ": Date_ms, response_time_ms", 'Date_ms;response_time_ms;\n1;2;\n',
            '--csv-unit ms --csv-column nope',
        )  # fmt: skip

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

    def test_empty(self):
        for data in ('', '\n\n', ' \n', ',,\n', 'time\n', '\ufeff'):
            self.refused('there are no service times', data)

    def test_too_few(self):
        self.refused('19 service times are too few', '1ms\n' * 19)
        self.fit('1ms\n' * 20)

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

    def test_empty_cell(self):
        self.refused(
            "line 3: '' is not a duration", 'a,b\n1,2\n1,\n',
            '--csv-column b --csv-unit s',
        )  # fmt: skip

    def test_bad_first_line(self):
        """It is not taken for a name."""
        for text in ('nan', '-inf', '1e309', '-5', '0', '1\x00'):
            self.refused('line 1', f'{text}\n' + '1\n' * 30, '--csv-unit s')

    def test_unit_is_not_guessed(self):
        self.refused("line 2: '1' has no unit", 'ms\n' + '1\n' * 30)

    def test_columns(self):
        data = 'a,b,b\n' + '1,2,3\n' * 30
        self.refused('3 columns: choose one', data, '--csv-unit ms')
        for column in ('b', 'c', '0', '4', '-1', '99999', ''):
            self.refused(
                'there is no column', data,
                f'--csv-unit ms --csv-column={column!r}',
            )  # fmt: skip
        self.refused(
            'line 3 has 1 columns', 'a,b\n1,2\n1\n',
            '--csv-column b --csv-unit ms',
        )  # fmt: skip

    def test_hostile(self):
        self.refused('line 1 is longer', '1' * 100_000)
        self.refused('line 1 is longer', b'\0' * 100_000)
        self.refused('is not text', b'\xff\xfe1\n')
        self.refused('is not CSV', '"1\n1\n')
        self.refused('is not CSV', '"1"x\n')
        self.refused('2001 columns', 'a,' * 2000)
        self.assert_refused('line 1 is longer', 'fit /dev/zero')
        self.assert_refused('No such file', 'fit /nowhere')
        self.assert_refused('directory', 'fit', str(self.directory))
        unreadable = self.write('y\x1b.csv', '')
        os.unlink(unreadable)
        self.assert_refused('No such file', 'fit', unreadable)

    def test_huge(self):
        """It stops reading, whatever follows."""
        self.useFixture(
            base.fixtures.MonkeyPatch(
                'nova_rt.cmd.model.samples.MAX_TIMES', 100
            )
        )
        self.fit('1ms\n' * 100)
        self.refused('more than 100', '1ms\n' * 101 + '"')

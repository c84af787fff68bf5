# SPDX-License-Identifier: Apache-2.0
"""Refusals of nova-rt-model: one line, exit code 2."""

import hypothesis
from hypothesis import strategies

from nova_rt.tests.unit.cmd.model import base

# The options of each command, with values that are good.
GOOD = {
    'rate': '500/s',
    'service-time': '1ms',
    'deadline': '20ms',
    'percentile': '99',
}
COMMANDS = {
    'reservation': ('rate', 'service-time', 'deadline', 'percentile'),
    'rate': ('service-time', 'deadline', 'percentile', 'reservation'),
    'deadline': ('rate', 'service-time', 'percentile', 'reservation'),
    'latency': ('rate', 'service-time', 'reservation'),
}


def line(command='reservation', **changes):
    values = {'reservation': '744/1000', **GOOD}
    changes = {key.replace('_', '-'): text for key, text in changes.items()}
    values |= changes
    options = {*COMMANDS[command], *changes}
    return ' '.join(
        [command]
        + [
            f'--{name}={values[name]}'
            for name in sorted(options)
            if values[name] is not None
        ]
    )


class BadInputTest(base.TestCase):
    def test_the_lines_are_good_otherwise(self):
        for command in COMMANDS:
            self.ask(line(command))

    def test_unstable(self):
        for rate in ('1000/s', '1001/s', '1e9/s'):
            self.assert_refused('highest rate is', line(rate=rate))
        for command in ('deadline', 'latency'):
            for rate in ('739/s', '740/s', '1e9/s'):
                self.assert_refused(
                    'fewer than 739 requests/s can be served',
                    line(command, rate=rate),
                )
        self.assert_refused(
            'with a rate of 61.03/s the shortest deadline is',
            line(link='1Mbit', request_size='1KiB'),
        )

    def test_deadline_below_the_round_trip(self):
        for deadline in ('1ms', '19.999ms', '20ms'):
            self.assert_refused(
                'round trip takes 20 ms; the shortest deadline is 29.22ms',
                line(deadline=deadline, latency='10ms'),
            )
            self.assert_refused(
                'the shortest deadline they meet is',
                line('rate', deadline=deadline, latency='10ms'),
            )

    def test_the_nearest_that_can_be_had(self):
        """And it can be had."""
        self.assert_refused(
            'shortest deadline is 9.216ms, the highest rate is 423.9/s, the '
            'highest percentile is 98.16',
            line(deadline='8ms'),
        )
        self.ask(line(deadline='9.216ms'))
        self.ask(line(deadline='8ms', rate='423.9/s'))
        self.ask(line(deadline='8ms', percentile='98.16'))
        self.assert_refused(
            'even one at a time; the shortest deadline they meet is 6.493ms',
            line('rate', deadline='6ms'),
        )
        self.ask(line('rate', deadline='6.493ms'))

    def test_percentile(self):
        for text, why in (
            ('0', 'above 0'), ('0.99', 'in percent'), ('100', 'below 100'),
            ('150', 'below 100'), ('-1', 'not a percentile'),
            ('nan', 'not a percentile'), ('inf', 'not a percentile'),
            ('', 'not a percentile'), ('99ms', "unit 'ms'"),
            ('99.99999999999999999', 'below 100'),
        ):  # fmt: skip
            for command in ('reservation', 'rate', 'deadline', 'latency'):
                self.assert_refused(why, line(command, percentile=text))

    def test_quantities(self):
        for option, unit in (
            ('rate', '/s'), ('service-time', 'ms'), ('deadline', 'ms'),
            ('latency', 'ms'), ('link', 'Mbit'), ('request-size', 'B'),
            ('period', 'ms'), ('overhead', 'us'), ('longest', 'ms'),
        ):  # fmt: skip
            for text in (
                f'-0{unit}', f'-1{unit}', f'nan{unit}', f'inf{unit}',
                f'1e309{unit}', f'1e-400{unit}', '1', unit, '', '1 parsec',
                f'1,5{unit}', f'\u0661{unit}', f'1{unit}\x00', '9' * 5000,
                f'1{unit}\x1b[2J', f'0x1{unit}', f'1_0{unit}',
            ):  # fmt: skip
                self.assert_refused(
                    f'--{option}',
                    line(rate=None) + ' --rate=500/s',
                    f'--{option}={text}',
                )

    def test_zero(self):
        """Nothing, of what there must be some of."""
        for option, unit in (
            ('rate', '/s'), ('service-time', 'ms'), ('deadline', 'ms'),
            ('link', 'Mbit'), ('request-size', 'B'), ('period', 'ms'),
            ('min-period', 'ms'), ('max-period', 'ms'), ('longest', 'ms'),
            ('burst', ''), ('vcpus', ''), ('max-bandwidth', ''),
        ):  # fmt: skip
            for text in ('0', '0.0', '0e5'):
                self.assert_refused(
                    f'--{option}', line(rate=None), '--rate=500/s',
                    f'--{option}={text}{unit}',
                )  # fmt: skip

    def test_none(self):
        """A latency and an overhead that are not there."""
        for option in ('latency', 'overhead'):
            with_it = self.ask(line(), f'--{option}=0us')
            self.assertEqual(with_it, self.ask(line(), f'--{option}=0.00 ms'))
        self.assertEqual(self.ask(line()), self.ask(line(latency='0ms')))
        self.assert_refused('above 0', line(latency='1e-400ms'))

    def test_overflow(self):
        for option in ('rate', 'service-time', 'deadline', 'latency'):
            for text in ('1e300', '9e17', '1e-300'):
                unit = '/s' if option == 'rate' else 's'
                if (option, text) in {
                    ('deadline', '9e17'), ('latency', '1e-300'),
                }:  # fmt: skip
                    continue
                result = self.run_it(
                    line(**{option.replace('-', '_'): text + unit})
                )
                self.assertEqual(2, result.code, (option, text))
                self.assertEqual(1, result.err.count('\n'), result.err)

    def test_reservation(self):
        for text in (
            '', '744', '0/1000', '-1/1000', '1001/1000', '744/50', 'x/y',
            '744/1000/1', '1e3/1e4', '744ms/1s', '9999999999/9999999999',
        ):  # fmt: skip
            self.assert_refused(
                '--reservation', line('latency', reservation=text)
            )
        self.assert_refused('used up', line('latency', reservation='5/1000'))

    def test_missing(self):
        for command, options in COMMANDS.items():
            for option in options:
                self.assert_refused(
                    f'--{option}',
                    line(command, **{option.replace('-', '_'): None}),
                )
        self.assert_refused('--deadline', 'reservation')
        for command in ('fit', 'plan'):
            self.assert_refused('required', command)

    def test_contradictory(self):
        for text, more in (
            ('either', '--measured x.csv'),
            ('go together', '--link 64Mbit'),
            ('go together', '--request-size 1KiB'),
            ('go together', '--burst 3'),
            ('go together', '--longest 3ms'),
            ('is for --link', '--conservative'),
            ('are for --measured', '--csv-unit ms'),
            ('are for --measured', '--csv-column 1'),
            ('share a queue: give --split', '--distribution constant '
             '--vcpus 2'),
            ('share a queue: give --split', '--batch 2 --vcpus 2'),
            ('share a queue: give --split', '--arrivals periodic --vcpus 2'),
            ('no model covers such', '--arrivals periodic --link 1Gbit'
             ' --request-size 1KiB'),
            ('is for exponential', '--distribution constant --link 1Gbit'
             ' --request-size 1KiB --conservative'),
            ('no model covers such', '--batch 2 --link 1Gbit'
             ' --request-size 1KiB'),
            ('no model covers --split', '--vcpus 2 --split --link 1Gbit'
             ' --request-size 1KiB'),
            ('is for several --vcpus', '--split'),
            ('is for --arrivals periodic', '--jitter 1ms'),
            ('is not for a file', '--arrivals x.csv --batch 2'),
            ('are for a file', '--arrivals-unit ms'),
            ('cannot be read', '--arrivals nowhere.csv'),
            ('for servers that sleep', '--polling --burst 3 --longest 2ms'),
            ('no model covers several', '--vcpus 2 --link 1Gbit'
             ' --request-size 1KiB'),
            ('is for one vCPU', '--vcpus 2 --burst 3 --longest 2ms'),
            ('must be from', '--min-period 3s'),
            ('must be from', '--min-period 3ms --max-period 2ms'),
            ('must be from', '--period 2s'),
            ('whole number of microseconds', '--period 1.5us'),
            ('from 1 to 999', '--vcpus 0'),
            ('from 1 to 999', '--vcpus 1000'),
            ('from 1 to 999', '--vcpus 1.5'),
            ('invalid choice', '--distribution normal'),
            ('--max-bandwidth', '--max-bandwidth 101'),
            ('--max-bandwidth', '--max-bandwidth 0'),
            ('with 60 % of a CPU', '--max-bandwidth 60'),
            ('with 90 % of a CPU in periods of 900 ms',
             '--max-bandwidth 90 --period 900ms'),
            ('unrecognized', '--nonsense'),
            ('unrecognized', 'nonsense'),
        ):  # fmt: skip
            self.assert_refused(text, f'{line()} {more}')
        self.assert_refused('--percentile', line(percentile=None))
        late = line(percentile=None, burst=None) + ' --burst 3 --longest 2ms'
        self.assert_refused('--service-time is for --percentile', late)

    def test_measured_is_the_distribution(self):
        path = self.write('x.csv', '1ms\n' * 30)
        self.assert_refused(
            'is not for --measured',
            f'{line(service_time=None)} --distribution constant --measured',
            path,
        )

    def test_commands(self):
        result = self.run_it('nonsense')
        self.assertEqual((2, ''), (result.code, result.out))
        self.assertEqual(1, result.err.count('\n'))
        for words in ('help nope', '--help nope', 'nope --help',
                      'help nope nope'):  # fmt: skip
            self.assert_refused("Unknown command ['nope'", words)
        self.assert_refused('which command', '')
        self.assert_refused('cannot be written', f'--log-file / {line()}')

    @hypothesis.settings(max_examples=150)
    @hypothesis.given(
        strategies.sampled_from(sorted(COMMANDS)),
        strategies.dictionaries(
            strategies.sampled_from(
                ['rate', 'service-time', 'deadline', 'latency', 'percentile',
                 'reservation', 'link', 'request-size', 'vcpus',
                 'distribution', 'overhead']
            ),
            strategies.one_of(
                strategies.sampled_from(
                    ['1e-14s', '1e14s', '1e-14/s', '1e14/s', '99.9999', '1',
                     '2/100', '4000000/4194304', '1bit', '1Gbit', '8',
                     'constant', '3us', '1ms', '999/s', '1000/1000']
                ),
                strategies.text(max_size=6),
            ),
            max_size=3,
        ),
    )  # fmt: skip
    def test_anything(self, command, changes):
        """An answer, or one line."""
        changes = {
            key: text.replace('\0', '') for key, text in changes.items()
        }
        words = line(command).split()
        words += [f'--{key}={text}' for key, text in changes.items()]
        result = self.run_it('', *words)
        self.assertIn(result.code, {0, 2}, result.err)
        if result.code == 2:
            self.assertEqual('', result.out)
            self.assertEqual(1, result.err.count('\n'), result.err)
            self.assertTrue(result.err[:-1].isprintable(), result.err)

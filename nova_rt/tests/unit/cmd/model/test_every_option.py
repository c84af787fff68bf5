# SPDX-License-Identifier: Apache-2.0
"""Every option of every command with what nobody should give it."""

import ddt

from nova_rt.tests.unit.cmd.model import base, test_bad_input

#: No option takes any of these.
BAD = (
    '', ' ', '-1', '-0.5', '-1ms', 'nan', 'NaN', 'inf', '-inf', 'infinity',
    'nanms', 'inf/s', '1e400', '1e400s', '1e400/s', '1' + '0' * 30,
    '1' + '0' * 30 + 's', '9' * 100_000, '0x10ms', '1_000ms', '1,5ms',
    '1 2', '1ms1ms', 'ms', '/s', '%', '99%%', '150', '100.0001', '1e3/1e4',
    '1parsec', '1MS', '\u0661ms', '\uff11ms', '\u221e', '\0', '1ms\0',
    '\x1b[2J', '1ms\n', '\n', '\ud800', '%s%n', '$(id)', '--', 'None', '[]',
)  # fmt: skip
#: Of some options, all the same.
GOOD = {
    'batch': {'150'},
    'burst': {'150'},
    'arrivals-unit': {'ms'},
    'csv-unit': {'ms'},
    'vcpus': {'150'},
    'requests': {'150'},
    'seed': {'150'},
}
#: Options of the output: their values have nothing to do with the model.
OTHERS = {'column', 'variable', 'prefix', 'max-width', 'format'}


def options():
    """Names of commands, and names of options that have a value."""
    for name, command in sorted(base.COMMANDS.items()):
        for action in command(None, None).get_parser(name)._actions:
            if action.nargs == 0 or not action.option_strings:
                continue
            option = action.option_strings[-1].removeprefix('--')
            if option not in OTHERS:
                yield name, option


@ddt.ddt
class EveryOptionTest(base.TestCase):
    def line(self, command, option=None):
        """A command that is right but for the option."""
        times = self.write('times.csv', '1ms\n' * 30)
        if command == 'fit':
            more = '--rate 5/s --deadline 1s --percentile 90'
            return f'fit {times}' + f' {more}' * (option is not None)
        if command == 'plan':
            text = 'hosts: [{cpus: 1}]\nservices: [{reservation: 2/1000}]\n'
            return f'plan {self.write("plan.yaml", text)}'
        if option in {'csv-column', 'csv-unit'}:
            line = test_bad_input.line(command, service_time=None)
            return f'{line} --measured {times}'
        if option == 'measured':
            return test_bad_input.line(command, service_time=None)
        if option == 'arrivals':
            return test_bad_input.line(command, rate=None, requests=None)
        return test_bad_input.line(command)

    @ddt.data(*options())
    @ddt.unpack
    def test_bad(self, command, option):
        line = self.line(command, option)
        for text in BAD:
            if text in GOOD.get(option, ()):
                continue
            result = self.run_it(line, f'--{option}={text}')
            shown = (command, option, text[:40], result.err)
            self.assertEqual((2, ''), (result.code, result.out), shown)
            self.assertEqual(1, result.err.count('\n'), shown)
            self.assertTrue(result.err[:-1].isprintable(), shown)
            self.assertLess(len(result.err), 1000, shown)

    @ddt.data(*sorted(base.COMMANDS))
    def test_no_value(self, command):
        for name, option in options():
            if name == command:
                self.assert_refused(
                    'expected', f'{self.line(command, option)} --{option}'
                )

    @ddt.data(*sorted(base.COMMANDS))
    def test_nothing_at_all(self, command):
        self.assert_refused('required', command)
        self.assert_refused('unrecognized', self.line(command), 'x', 'y')

    @ddt.data(*sorted(base.COMMANDS))
    def test_properties(self, command):
        for name in ('Nope', '', ' ', 'mean', '\x1b[2J'):
            self.assert_refused(
                'there is no property', self.line(command), '-c', name
            )

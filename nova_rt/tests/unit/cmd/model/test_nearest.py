# SPDX-License-Identifier: Apache-2.0
"""The numbers in a refusal can be had: each is typed back as printed."""

import re

import fixtures
import hypothesis
from hypothesis import strategies

from nova_rt.model import general, units
from nova_rt.tests.unit.cmd.model import base

_NAMED = re.compile(
    r'(with a rate of|shortest deadline(?: they meet)? is|highest rate is|'
    r'highest percentile is) ([0-9.e+-]+ ?[a-z/]*)'
)
_OPTIONS = {
    'with a rate of': 'rate',
    'shortest deadline is': 'deadline',
    'shortest deadline they meet is': 'deadline',
    'highest rate is': 'rate',
    'highest percentile is': 'percentile',
}


def _about(low, high, unit):
    """Numbers of three digits, with a unit."""
    return strategies.floats(low, high).map(lambda x: f'{x:.3g}{unit}')


_SERVICES = strategies.fixed_dictionaries(
    {'service-time': _about(0.01, 20, 'ms')},
    optional={'latency': _about(0, 20, 'ms')},
)
_MODELS = strategies.sampled_from(
    [
        {},
        {'distribution': 'constant'},
        {'vcpus': '3'},
        {'link': '8Mbit', 'request-size': '1KiB'},
        {'link': '8Mbit', 'request-size': '1KiB', 'conservative': None},
    ]
)
_GOALS = strategies.fixed_dictionaries(
    {
        'rate': _about(1, 5000, '/s'),
        'deadline': _about(0.1, 200, 'ms'),
        'percentile': strategies.sampled_from(
            ['1', '50', '90', '99', '99.9', '99.9999']
        ),
    }
)
_LIMITS = strategies.fixed_dictionaries(
    {},
    optional={
        'period': _about(1, 300, 'ms').map(
            lambda text: f'{round(float(text[:-2]) * 1000)}us'
        ),
        'max-bandwidth': _about(1, 100, ''),
        'overhead': _about(0, 300, 'us'),
    },
)


class NearestTest(base.TestCase):
    def setUp(self):
        super().setUp()
        # Coarse bounds are bounds as well, and quick.
        for name, value in (('_EACH', 100), ('_MOST', 1 << 13)):
            self.useFixture(fixtures.MockPatchObject(general, name, value))

    def words(self, command, options):
        return [
            command,
            *(
                f'--{name}' if value is None else f'--{name}={value}'
                for name, value in options.items()
            ),
        ]

    def check(self, command, options, fixed=()):
        """Ask; of what a refusal names, ask again.

        :returns: the names of the options with which it can be had
        """
        result = self.run_it('', *self.words(command, options), *fixed)
        if result.code == 0:
            return []
        self.assertEqual((2, 1), (result.code, result.err.count('\n')))
        found = _NAMED.findall(result.err)
        if found and found[0][0] == 'with a rate of':
            # Both of them together.
            found = [({'rate': found[0][1], 'deadline': found[1][1]})]
        else:
            found = [{_OPTIONS[what]: text} for what, text in found]
        for changes in found:
            again = self.run_it(
                '', *self.words(command, options | changes), *fixed
            )
            self.assertEqual(
                (0, ''), (again.code, again.err), (options, changes)
            )
        self.near(command, options, fixed, found)
        return [tuple(changes) for changes in found]

    def near(self, command, options, fixed, found):
        """It is near: less than 1 % beyond is refused."""
        for changes in found:
            if tuple(changes) == ('deadline',):
                least_s = units.duration_s(changes['deadline'])
                closer = options | {'deadline': f'{0.99 * least_s:.9g}s'}
            elif tuple(changes) == ('rate',):
                most = units.rate_per_s(changes['rate'])
                closer = options | {'rate': f'{1.01 * most:.9g}/s'}
            else:
                continue
            result = self.run_it('', *self.words(command, closer), *fixed)
            self.assertEqual(2, result.code, (options, changes))

    @hypothesis.settings(max_examples=60)
    @hypothesis.given(_SERVICES, _MODELS, _GOALS, _LIMITS)
    def test_reservation(self, service, model, goal, limits):
        self.check('reservation', service | model | goal | limits)

    @hypothesis.settings(max_examples=30)
    @hypothesis.given(
        _SERVICES,
        _MODELS,
        _GOALS,
        strategies.integers(100, 100_000),
        strategies.floats(0.01, 1),
    )
    def test_rate(self, service, model, goal, period_us, share):
        runtime_us = max(10, round(share * period_us))
        options = service | model | goal
        del options['rate']
        options['reservation'] = f'{runtime_us}/{period_us}'
        self.check('rate', options)

    @hypothesis.settings(max_examples=15)
    @hypothesis.given(
        strategies.integers(1, 30),
        _about(0.01, 10, 'ms'),
        _about(1, 1000, '/s'),
        _about(0.1, 100, 'ms'),
    )
    def test_no_request_late(self, burst, longest, rate, deadline):
        self.check(
            'reservation',
            {
                'burst': burst, 'longest': longest, 'rate': rate,
                'deadline': deadline,
            },
            ['--max-bandwidth=90'],
        )  # fmt: skip

    def test_period_that_is_too_long(self):
        """The deadline counts the period, and what a host promises."""
        named = self.check(
            'reservation',
            {'rate': '500/s', 'service-time': '1ms', 'deadline': '20ms',
             'percentile': '99'},
            ['--period=50ms', '--max-bandwidth=80'],
        )  # fmt: skip
        self.assertEqual([('deadline',), ('rate',), ('percentile',)], named)

    def test_nothing_alone_is_enough(self):
        named = self.check(
            'reservation',
            {'rate': '5000/s', 'service-time': '1ms', 'deadline': '3ms',
             'percentile': '99'},
        )  # fmt: skip
        self.assertEqual([('rate', 'deadline')], named)

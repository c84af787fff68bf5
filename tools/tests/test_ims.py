# SPDX-License-Identifier: Apache-2.0
"""Tests of what the IMS experiment makes of a guest's log."""

import math
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

from oslotest import base

from experiments import guest
from experiments.ims import __main__, turns, virtual
from lab import paths
from lab.measure import distribution

_CASES = ('plain,alone', 'plain,noise', 'real-time,alone', 'real-time,noise')


def log(*slow, cases=_CASES, lost=0, turns=virtual.TURNS, factor=10.0):
    """Return the output of a guest: 100 registrations in 1 to 100 us.

    :param slow: cases in which they take that times the factor
    :param lost: registrations of each turn
    :param turns: of each case; the server becomes slower with each
    """
    lines = ['Booting']
    for turn in range(turns):
        for case in cases:
            lines += [f'case {case}', 'used_us 5000']
            times = (factor if case in slow else 1) * (turn + 1)
            for number in range(100 - lost):
                took = round(times * (number + 1))
                start = 999_990 + number
                end = start + took
                lines.append(
                    f'{7 + start // 10**6}.000000 {start % 10**6}.000000 '
                    f'{7 + end // 10**6}.000000 {end % 10**6}.000000'
                )
            lines.append('sipp: Successful call')
    return '\n'.join(lines) + '\nDONE failures 0\n'


class HelpTest(base.BaseTestCase):
    def test_without_libvirt(self):
        """The guest's experiments need none, nor does --help."""
        for module in ('experiments.ims', 'experiments.distwalk'):
            code = (
                'import runpy, sys; sys.modules["libvirt"] = None; '
                'sys.argv[1:] = ["--help"]; '
                f'runpy.run_module("{module}", run_name="__main__")'
            )
            found = subprocess.run(
                [sys.executable, '-c', code], cwd=paths.CHECKOUT,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(0, found.returncode, found.stderr)
            self.assertIn('usage: ', found.stdout)


class ParseTest(base.BaseTestCase):
    def test_times(self):
        found = virtual.parse(log('plain,noise'), 100)
        self.assertEqual(
            [
                ('plain', 'alone', 99, 0),
                ('plain', 'noise', 990, 0),
                ('real-time', 'alone', 99, 0),
                ('real-time', 'noise', 99, 0),
                ('plain', 'alone', 198, 0),
            ],
            [
                (s.server, s.beside, s.percentile(99), s.lost)
                for s in found[:5]
            ],
        )
        self.assertEqual(4 * virtual.TURNS, len(found))

    def test_lost(self):
        found = virtual.parse(log(lost=10), 100)
        self.assertEqual({10}, {turn.lost for turn in found})
        self.assertEqual(
            [10 * virtual.TURNS] * 4,
            [series.lost for series in turns.merge(found)],
        )

    def test_most_are_lost(self):
        text = log(lost=51)
        err = self.assertRaises(guest.Failed, virtual.parse, text, 100)
        self.assertEqual('plain,alone: 49 of 100 answered', str(err))

    def test_case_is_missing(self):
        text = log(cases=_CASES[:3])
        err = self.assertRaises(guest.Failed, virtual.parse, text, 100)
        self.assertIn('30 turns of 4 cases', str(err))

    def test_turn_is_missing(self):
        text = log(turns=virtual.TURNS - 1)
        err = self.assertRaises(guest.Failed, virtual.parse, text, 100)
        self.assertIn("('plain', 'alone'): 29", str(err))


class RatioTest(base.BaseTestCase):
    def measured(self, factors):
        """Turns, in which noise multiplies the times by these."""
        return [
            distribution.Series.of('real-time', beside, [time] * 10)
            for turn, factor in enumerate(factors)
            for beside, time in (
                ('alone', 1000 + 20 * turn),
                ('noise', round((1000 + 20 * turn) * factor)),
            )
        ]

    def test_drift_is_no_noise(self):
        found = turns.ratio(self.measured([1] * 30), 'real-time')
        self.assertEqual((1.0, 1.0, 1.0), found)

    def test_interval(self):
        ratio, low, high = turns.ratio(
            self.measured([1.0, 1.1] * 15), 'real-time'
        )
        self.assertAlmostEqual(1.1**0.5, ratio, 3)
        # Student's t, 29 degrees of freedom, standard deviation 0.0485.
        self.assertAlmostEqual(ratio * math.exp(-0.0181), low, 3)
        self.assertAlmostEqual(ratio * math.exp(0.0181), high, 3)


class GuestTest(base.BaseTestCase):
    """The exit code says whether noise moves the percentile."""

    def run_it(self, text):
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(paths, 'RESULTS', pathlib.Path(name)),
            mock.patch.object(
                virtual,
                'measure',
                lambda count, *_: virtual.parse(text, count),
            ),
        ):
            code = __main__.in_guest(100, 40)
            kept = sorted(
                path.name for path in pathlib.Path(name, 'ims-guest').iterdir()
            )
        return code, kept

    def test_plain_server_suffers(self):
        code, kept = self.run_it(log('plain,noise'))
        self.assertEqual(0, code)
        self.assertEqual(
            [
                'plain-alone.us',
                'plain-noise.us',
                'real-time-alone.us',
                'real-time-noise.us',
                'registrations.png',
                'times.txt',
            ],
            kept,
        )

    def test_real_time_server_suffers(self):
        self.assertEqual(1, self.run_it(log('real-time,noise'))[0])
        slower = log('real-time,noise', factor=1.05)
        self.assertEqual(1, self.run_it(slower)[0])

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.model.plot."""

import sys
from unittest import mock

from nova_rt.cmd.model import plot
from nova_rt.tests.unit.cmd.model import base

LINE = (
    'reservation --rate 500/s --service-time 1ms --deadline 20ms '
    '--percentile 99 --latency 0.1ms'
)


class PlotTest(base.TestCase):
    def test_formats(self):
        for ending, magic in (
            ('png', b'\x89PNG'), ('svg', b'<?xml'), ('pdf', b'%PDF'),
        ):  # fmt: skip
            path = self.directory / f'x.{ending}'
            said = self.ask(LINE, '--plot', str(path))
            self.assertEqual(self.ask(LINE), said)
            self.assertTrue(path.read_bytes().startswith(magic))

    def test_the_same_twice(self):
        drawn = []
        for name in ('a.svg', 'b.svg'):
            path = self.directory / name
            self.ask(LINE, '--plot', str(path))
            drawn.append(path.read_bytes())
        self.assertEqual(*drawn)
        self.assertIn(b'963/1300', drawn[0])

    def test_every_model(self):
        about = 'latency --rate 300/s --reservation 744/1000'
        path = str(self.directory / 'x.svg')
        csv = self.write('x.csv', '1ms\n' * 50)
        for more in (
            '--service-time 1ms --distribution constant',
            '--service-time 1ms --vcpus 4',
            '--service-time 1ms --link 64Mbit --request-size 2KiB',
            f'--measured {csv}',
        ):
            self.ask(f'{about} {more} --plot', path)

    def test_curves(self):
        """The chosen point is where the bound meets the deadline."""
        seen = []
        self.useFixture(
            base.fixtures.MonkeyPatch(
                'nova_rt.cmd.model.plot.draw',
                lambda point, path: seen.append(point),
            )
        )
        self.ask(LINE, '--plot', 'x.png')
        curves = plot._curves(seen[0], 0.99)
        for bandwidth, mean, fluid, bound in zip(*curves, strict=True):
            self.assertLess(mean, fluid)
            self.assertLessEqual(fluid, bound)
            # The curve has steps of half a percent.
            self.assertEqual(bandwidth >= 963 / 1300, bound <= 20, bandwidth)

    def test_refused(self):
        for name in ('x', 'x.jpg', 'x.png.gz', '', '.png'):
            self.assert_refused('must end in', LINE, '--plot', name)
        self.assert_refused(
            'cannot be written', LINE, '--plot', '/nowhere/x.png'
        )

    def test_without_matplotlib(self):
        self.ask(LINE)
        with mock.patch.dict(sys.modules, {'matplotlib': None}):
            self.assert_refused(
                'install nova_rt[plot]', LINE, '--plot', 'x.png'
            )

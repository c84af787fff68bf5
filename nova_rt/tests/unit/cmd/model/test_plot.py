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
            self.ask(LINE, '--plot', str(path))
            drawn = path.read_bytes()
            self.assertTrue(drawn.startswith(magic))
            self.ask(LINE, '--plot', str(path))
            self.assertEqual(drawn, path.read_bytes(), 'twice the same')

    def test_without_a_deadline(self):
        path = self.directory / 'x.svg'
        self.ask(
            'latency --rate 300/s --service-time 1ms --vcpus 4 '
            '--reservation 744/1000 --plot', str(path),
        )  # fmt: skip
        self.assertIn(b'744/1000', path.read_bytes())

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

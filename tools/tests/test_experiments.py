# SPDX-License-Identifier: Apache-2.0
"""experiments/: descriptions of figures."""

import math
import unittest

from experiments import description, samples
from experiments.description import Point, Refused

GOOD = """
title: A title
source: a paper
question: Why?
setup: So.
deviates: Nowhere.
x: inter_arrival_us
curves: ldr
common: {bandwidth: 0.5, period_us: 2000}
full: {count: 1000, ldr: [0.5, 0.8], inter_arrival_us: [1000, 2000]}
small: {}
"""
KEYS = {'ldr': 0.5, 'bandwidth': 0.7}


class DescriptionTest(unittest.TestCase):
    def test_all_figures(self):
        papers = {f'closer20-fig{number}' for number in range(2, 8)} | {
            'edge19-fig3',
            'edge19-fig4ac',
            'edge19-fig4bd',
            'edge19-fig5',
        }
        self.assertLessEqual(papers, set(description.names()))
        for name in description.names():
            figure = description.load(name)
            self.assertEqual(10_000, figure.count('full'), name)
            self.assertLessEqual(
                len(list(figure.points('small'))),
                len(list(figure.points('full'))),
                name,
            )

    def test_grid(self):
        figure = description.parse('good', GOOD)
        self.assertEqual(4, len(list(figure.points('full'))))
        self.assertEqual([], list(figure.points('small')))

    def test_pairs(self):
        text = GOOD.replace(
            'ldr: [0.5, 0.8]',
            '"ldr, period_us": [[0.5, 1000], [0.8, 2000]]',
        )
        points = list(description.parse('good', text).points('full'))
        self.assertEqual({1000, 2000}, {point.period_us for point in points})
        self.assertEqual(4, len(points))

    def test_full_links_are_left_out(self):
        text = GOOD.replace('period_us: 2000}', 'link_mbit: 0.7}')
        points = list(description.parse('good', text).points('full'))
        self.assertEqual({2000}, {point.inter_arrival_us for point in points})

    def test_arithmetic(self):
        point = Point(ldr=0.8, bandwidth=0.5, bwr=0.5, size_bytes=1000)
        self.assertEqual(500, point.rate_per_s)
        self.assertEqual(800, point.service_us)
        self.assertEqual(1000, point.runtime_us)
        self.assertEqual(8_000_000, point.link_bit_per_s)

    def test_refused_points(self):
        for wrong in (
            {'ldr': 1.0},
            {'ldr': 0.0},
            {'ldr': -0.5},
            {'ldr': math.nan},
            {'ldr': math.inf},
            {'ldr': '0.5'},
            {'ldr': True},
            {'ldr': [0.5]},
            {'load': 0.5},
            {'bandwidth': 0.96},
            {'bandwidth': 0.0},
            {'bandwidth': 0.8, 'noise': 'periodic'},
            {'noise': 'loud'},
            {'noise': 'many', 'bandwidth': 0.92},
            {'noise': 'equal', 'bandwidth': 0.95},
            {'noise': 'shorter', 'bandwidth': 0, 'ldr': 0, 'load': 0.5},
            {'period_us': 99},
            {'work_is': 'normal'},
            {'kernel': '../../etc'},
            {'period_us': 0},
            {'inter_arrival_us': 0},
            {'bwr': 0.5, 'link_mbit': 16},
            {'cpus': 0},
            {'cpus': 1.5},
            {'cpus': 5},
            {'cpus': 2, 'noise': 'hogs', 'ldr': 0.1},
            {'cpus': 2, 'bwr': 0.5},
            {'cpus': 2, 'size_bytes': 1515},
            {'cpus': 2, 'size_is': 'exponential'},
            {'cpus': 2, 'work_is': 'constant'},
        ):
            with self.subTest(wrong), self.assertRaises(Refused):
                Point(**(KEYS | wrong))

    def test_refused_files(self):
        for wrong in (
            '',
            '[]',
            '{',
            'a: 1',
            GOOD + 'more: 1\n',
            GOOD.replace('title', 'titel'),
            GOOD.replace('count: 1000', 'count: 99'),
            GOOD.replace('count: 1000', 'count: many'),
            GOOD.replace('[0.5, 0.8]', '0.5'),
            GOOD.replace('[0.5, 0.8]', '[]'),
            GOOD.replace('[0.5, 0.8]', '[0.5, 1.5]'),
            GOOD.replace('ldr: [0.5, 0.8]', '"ldr, load": [0.5]'),
            GOOD.replace('x: inter_arrival_us', 'x: colour'),
            GOOD.replace('small: {}', 'small: []'),
            GOOD + 'draw: pie\n',
            '!!python/object/apply:os.system ["true"]',
        ):
            with self.subTest(wrong), self.assertRaises(Refused):
                description.parse('wrong', wrong)

    def test_refused_names(self):
        for wrong in ('../../setup', 'no-such', '', 'A'):
            with self.subTest(wrong), self.assertRaises(Refused):
                description.load(wrong)


class RequestsTest(unittest.TestCase):
    def test_another_clock(self):
        """That of a server on a node: only the client's times count."""
        lines = [
            '0 100 110 115 -422283482 -422283470 260 5 50 64',
            '1 200 210 215 lost',
            'end 1 2',
        ]
        with self.assertRaisesRegex(samples.Malformed, '-422283482'):
            samples.requests(lines)
        run = samples.requests(lines, one_clock=False)
        self.assertEqual([[110]] * 2, [[*run.begun_ns], [*run.arrived_ns]])
        self.assertEqual([160], [*run.response_ns])
        self.assertEqual(([50], 1), ([*run.service_ns], run.lost))

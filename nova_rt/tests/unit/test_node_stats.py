# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.node_stats."""

import json

import ddt
from oslotest import base

from nova_rt import node_stats
from nova_rt.admission import Capacity


@ddt.ddt
class PublishedTest(base.BaseTestCase):
    def test_text(self):
        free = Capacity({0: 950_000, 1: 950_000, 2: 0, 7: 950_000}, 400_000)
        self.assertEqual(
            {
                'rt_free': '{"0-1,7":950000,"2":0}',
                'rt_host_free': '400000',
            },
            node_stats.render(free),
        )

    @ddt.data(
        Capacity({}),
        Capacity({0: 950_000}),
        Capacity({0: 950_000, 7: 0}, 0),
        Capacity({cpu: cpu % 7 * 100_000 for cpu in range(64)}, 950_000),
    )
    def test_there_and_back(self, free):
        self.assertEqual(free, node_stats.parse(node_stats.render(free)))

    def test_short_where_many_cpus_are_alike(self):
        free = Capacity(dict.fromkeys(range(1, 256, 2), 950_000))
        self.assertLess(len(node_stats.render(free)['rt_free']), 512)
        free = Capacity(dict.fromkeys(range(256), 950_000))
        self.assertLess(len(node_stats.render(free)['rt_free']), 20)

    def test_other_statistics_are_left_alone(self):
        stats = {'num_instances': '3', 'rt_interface': 'v1-throttle'}
        self.assertIsNone(node_stats.parse(stats))
        stats |= node_stats.render(Capacity({0: 5}))
        self.assertEqual(Capacity({0: 5}), node_stats.parse(stats))

    @ddt.data(
        '',
        'x',
        '[]',
        '950000',
        'null',
        '{"0": "950000"}',
        '{"0": 0.95}',
        '{"0": true}',
        '{"0": null}',
        '{"0": NaN}',
        '{"cpu0": 950000}',
        '{"3-1": 950000}',
        '{"0": 950000',
    )
    def test_bad(self, text):
        self.assertRaises(ValueError, node_stats.parse, {'rt_free': text})

    @ddt.data('', 'x', '0.95', '{}')
    def test_bad_host_free(self, text):
        stats = {'rt_free': json.dumps({'0': 950_000}), 'rt_host_free': text}
        self.assertRaises(ValueError, node_stats.parse, stats)

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.node_stats."""

from oslotest import base

from nova_rt.reservation import node_stats
from nova_rt.reservation.admission import Capacity, Placement
from nova_rt.reservation.reservation import Reservation


class PublishedTest(base.BaseTestCase):
    def test_text(self):
        free = Capacity({0: 950_000, 1: 950_000, 2: 0, 7: 950_000}, 400_000)
        rendered = {'rt_free': '{"0-1,7":950000,"2":0}'}
        self.assertEqual(
            rendered | {'rt_host_free': '400000'}, node_stats.render(free)
        )
        free = Capacity(
            free.cpus, None, {0: (0, 2), 3: (1, 7)}, Placement.BEST_FIT, 6,
            Reservation(100, 1000),
        )  # fmt: skip
        self.assertEqual(
            rendered
            | {
                'rt_nodes': '{"0":"0,2","3":"1,7"}',
                'rt_placement': 'best_fit',
                'rt_overhead_us': '6',
                'rt_spare': '100/1000',
            },
            node_stats.render(free),
        )

    def test_there_and_back(self):
        nodes = {0: (0,), 1: (1,)}
        every = Capacity(
            # A CPU of which no node is known.
            {0: 5, 1: 5, 2: 5}, 9, nodes, Placement.FIRST_FIT, 6,
            Reservation(100, 1000),
        )  # fmt: skip
        self.assertEqual({*node_stats.KEYS}, {*node_stats.render(every)})
        for free in (
            every,
            Capacity({}),
            Capacity({0: 950_000, 7: 0}, 0),
            Capacity({0: 5, 1: 5}, None, nodes),
            Capacity({0: 5}, placement=Placement.BEST_FIT),
            Capacity({cpu: cpu % 7 * 100_000 for cpu in range(64)}, 950_000),
        ):
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

    def test_bad(self):
        good = node_stats.render(Capacity({0: 5, 1: 5}))
        for key, texts in {
            'rt_free': (
                '', 'x', '[]', '950000', 'null', '{"0": "950000"}',
                '{"0": 0.95}', '{"0": true}', '{"0": null}', '{"0": NaN}',
                '{"cpu0": 950000}', '{"3-1": 950000}', '{"0": 950000',
            ),
            'rt_host_free': ('', 'x', '0.95', '{}'),
            'rt_spare': ('1000', '', 'x/y'),
            'rt_nodes': (
                '', 'x', 'null', '["0","1"]', '{"0":0,"1":1}',
                '{"0":[0],"1":[1]}', '{"x":"0","1":"1"}',
                '{"0":"1-0","1":"1"}', '{"0":"0","1":"0-1"}',
                '{"0":"0","1":"1-2"}',
            ),
        }.items():  # fmt: skip
            for text in texts:
                with self.subTest(key=key, text=text):
                    self.assertRaises(
                        ValueError, node_stats.parse, good | {key: text}
                    )

    def test_placement_of_a_newer_version(self):
        stats = node_stats.render(Capacity({0: 5})) | {'rt_placement': 'new'}
        self.assertEqual(Capacity({0: 5}), node_stats.parse(stats))

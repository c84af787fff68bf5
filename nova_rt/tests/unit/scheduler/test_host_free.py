# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.scheduler.host_free."""

import ddt
from oslotest import base

from nova_rt.admission import Capacity
from nova_rt.scheduler import host_free
from nova_rt.tests.unit.scheduler import objects


@ddt.ddt
class ReadTest(base.BaseTestCase):
    def test_cpu_scope(self):
        self.assertEqual(
            Capacity({0: 950000, 7: 0}),
            host_free.read({'rt_free': '{"0": 950000, "7": 0}'}),
        )

    def test_host_scope(self):
        self.assertEqual(
            Capacity({0: 950000}, 400000),
            host_free.read(
                {'rt_free': '{"0": 950000}', 'rt_host_free': '400000'}
            ),
        )

    def test_no_cpu(self):
        self.assertEqual(Capacity({}), host_free.read({'rt_free': '{}'}))

    def test_nothing_published(self):
        self.assertIsNone(host_free.read({'num_instances': '3'}))

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
        '{"0": 950000',
    )
    def test_bad(self, text):
        self.assertRaises(ValueError, host_free.read, {'rt_free': text})

    @ddt.data('', 'x', '0.95', '{}')
    def test_bad_host_free(self, text):
        stats = {'rt_free': '{"0": 950000}', 'rt_host_free': text}
        self.assertRaises(ValueError, host_free.read, stats)


class PlacedTest(base.BaseTestCase):
    def test_counts_this_request_only(self):
        host = objects.host_state(rt_free={0: 950_000})
        self.assertEqual(0, host_free.placed(host))
        spec = objects.request_spec({'rt:reservation': '500/1000'})
        host.consume_from_request(spec)
        host.consume_from_request(spec)
        self.assertEqual(2, host_free.placed(host))

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.scheduler.weights.rt_bandwidth, through Nova's handler."""

import nova.conf
from nova.scheduler import weights
from oslo_config import fixture
from oslotest import base

from nova_rt.scheduler.weights import rt_bandwidth
from nova_rt.tests.unit.scheduler import objects

FLAVOR = {'rt:reservation': '300/1000'}


class RTBandwidthWeigherTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(fixture.Config(nova.conf.CONF))
        self.hosts = [
            objects.host_state('full', rt_free={0: 300_000, 1: 0}),
            objects.host_state('empty', rt_free={0: 950_000, 1: 950_000}),
            objects.host_state(
                'limited',
                rt_free={0: 950_000, 1: 950_000},
                rt_host_free=400_000,
            ),
            objects.host_state('half', rt_free={0: 500_000, 1: 450_000}),
        ]

    def _weigh(self, specs=FLAVOR):
        handler = weights.HostWeightHandler()
        classes = handler.get_matching_classes(
            ['nova_rt.scheduler.weights.rt_bandwidth.RTBandwidthWeigher']
        )
        return handler.get_weighed_objects(
            [cls() for cls in classes],
            self.hosts,
            objects.request_spec(dict(specs)),
        )

    def _order(self, **kwargs):
        return [weighed.obj.host for weighed in self._weigh(**kwargs)]

    def test_most_free_first(self):
        self.assertEqual(['empty', 'half', 'limited', 'full'], self._order())

    def test_multiplier(self):
        self.conf.config(group='nova_rt', weight_multiplier=-2.0)
        self.assertEqual(['full', 'limited', 'half', 'empty'], self._order())
        self.assertEqual(-2.0, self._weigh()[-1].weight)

    def test_no_say_for_plain_servers(self):
        for weighed in self._weigh(specs={}):
            self.assertEqual(0.0, weighed.weight)

    def test_servers_of_this_request_count(self):
        spec = objects.request_spec(dict(FLAVOR))
        for _ in range(4):
            self.hosts[1].consume_from_request(spec)
        self.assertEqual(['half', 'empty', 'limited', 'full'], self._order())

    def test_hosts_that_cannot_be_read_come_last(self):
        self.hosts += [
            objects.host_state('none'),
            objects.host_state('bad', rt_free='garbage'),
        ]
        self.assertEqual({'none', 'bad'}, set(self._order()[-2:]))

    def test_request_that_cannot_be_read(self):
        weigher = rt_bandwidth.RTBandwidthWeigher()
        spec = objects.request_spec({'rt:reservation': 'abc'})
        self.assertEqual([0.0, 0.0], weigher.weigh_objects([None, None], spec))

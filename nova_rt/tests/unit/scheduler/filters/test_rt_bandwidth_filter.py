# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.scheduler.filters.rt_bandwidth_filter."""

import logging

import ddt
import fixtures
from nova.scheduler import filters as nova_filters
from oslo_utils.fixture import uuidsentinel as uuids
from oslotest import base

from nova_rt.reservation.admission import Placement
from nova_rt.scheduler.filters import rt_bandwidth_filter
from nova_rt.tests.unit.scheduler import objects

FLAVOR = {'rt:reservation': '600/1000'}


@ddt.ddt
class RTBandwidthFilterTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(
            fixtures.FakeLogger(level=logging.DEBUG, format='%(message)s')
        )
        self.filter = rt_bandwidth_filter.RTBandwidthFilter()

    def _passes(self, host, specs=FLAVOR, **kwargs):
        spec = objects.request_spec(dict(specs), **kwargs)
        return host in self.filter.filter_all([host], spec)

    def test_is_found_by_nova(self):
        path = (
            'nova_rt.scheduler.filters.rt_bandwidth_filter.RTBandwidthFilter'
        )
        self.assertEqual(
            [rt_bandwidth_filter.RTBandwidthFilter],
            nova_filters.HostFilterHandler().get_matching_classes([path]),
        )

    def test_passes(self):
        """As admission.place() says: here, its arguments."""
        empty = dict.fromkeys(range(4), 950_000)
        half = dict.fromkeys(range(64), 500_000)
        for number, (free, host_free, vcpus, passes) in enumerate(
            (
                # num_instances of its statistics are in the numbers.
                ({0: 600_000}, None, 1, True),
                ({0: 599_999, 1: 599_999}, None, 1, False),
                (half, None, 1, False),
                (empty, None, 4, True),
                (empty, None, 5, False),
                (empty, 1_199_999, 1, True),
                (empty, 1_199_999, 2, False),
            )
        ):
            host = objects.host_state(f'host{number}', free, host_free)
            self.assertIs(passes, self._passes(host, vcpus=vcpus))
            if not passes:
                self.assertIn(f'host{number}, host{number} is refused. RT '
                              'bandwidth: asked 600000',
                              self.log.output)  # fmt: skip

    def _passes_on_nodes(self, numa, **kwargs):
        host = objects.host_state(
            'nodes', {0: 900_000, 1: 100_000, 2: 900_000},
            rt_nodes={0: (0, 1), 1: (2,)},
        )  # fmt: skip
        return self._passes(host, FLAVOR | {'rt:numa': numa}, **kwargs)

    def test_nodes(self):
        self.assertTrue(self._passes_on_nodes('prefer', vcpus=2))
        self.assertTrue(self._passes_on_nodes('any', vcpus=2))
        self.assertFalse(self._passes_on_nodes('same', vcpus=2))
        self.assertIn('node 0 100000, node 1 0', self.log.output)
        self.assertTrue(self._passes_on_nodes('same', vcpus=1))
        hints = {'rt_reservation': ['100/1000']}
        self.assertTrue(self._passes_on_nodes('same', vcpus=2, hints=hints))

    def _count_passed(self, placement):
        """Count the servers of two CPUs that one request can have there."""
        host = objects.host_state(
            str(placement), {0: 1_200_000, 1: 600_000, 2: 600_000},
            rt_placement=placement,
        )  # fmt: skip
        spec = objects.request_spec(dict(FLAVOR), vcpus=2)
        count = 0
        while host in self.filter.filter_all([host], spec):
            host.consume_from_request(spec)
            count += 1
        return count

    def test_several_servers_by_the_heuristic_of_the_host(self):
        """As many as its compute service will claim."""
        self.assertEqual(2, self._count_passed(Placement.WORST_FIT))
        self.assertEqual(1, self._count_passed(Placement.BEST_FIT))

    def test_plain_request(self):
        for host in (
            objects.host_state(),
            objects.host_state(rt_free={0: 0}),
            objects.host_state(rt_free='garbage'),
        ):
            self.assertTrue(self._passes(host, specs={}))

    def test_plain_request_costs_nothing_per_host(self):
        hosts = [objects.host_state()]
        spec = objects.request_spec({})
        self.assertIs(hosts, self.filter.filter_all(hosts, spec))

    def test_rebuild(self):
        host = objects.host_state(rt_free={0: 0})
        hints = {'_nova_check_type': ['rebuild']}
        self.assertTrue(self._passes(host, hints=hints))

    def test_host_without_rt(self):
        self.assertFalse(self._passes(objects.host_state('plainhost')))
        self.assertIn('plainhost', self.log.output)
        self.assertIn('600000', self.log.output)

    @ddt.data('', 'garbage', '[]', '{"0": "x"}', '{"0": 0.9}')
    def test_host_that_cannot_be_read(self, text):
        good = objects.host_state('good', rt_free={0: 950_000})
        bad = objects.host_state('bad', rt_free=text)
        spec = objects.request_spec(dict(FLAVOR))
        self.assertEqual(
            [good], list(self.filter.filter_all([bad, good], spec))
        )
        self.assertIn('bad, bad publishes', self.log.output)

    def test_refusal_is_logged_for_the_server(self):
        records = []
        handler = logging.Handler()
        handler.emit = records.append
        logger = logging.getLogger(rt_bandwidth_filter.__name__)
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        self._passes(objects.host_state(rt_free={0: 0}))
        self.assertEqual([uuids.instance], [r.instance_uuid for r in records])

    def test_request_that_cannot_be_read(self):
        host = objects.host_state(rt_free={0: 950_000})
        self.assertFalse(self._passes(host, {'rt:reservation': 'abc'}))
        self.assertIn("'abc'", self.log.output)

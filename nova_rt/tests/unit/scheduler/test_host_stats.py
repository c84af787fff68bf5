# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.scheduler.host_stats."""

from nova.scheduler import host_manager
from oslotest import base

from nova_rt.reservation.admission import Capacity, Placement
from nova_rt.scheduler import host_stats
from nova_rt.tests.unit.scheduler import objects


class OfTest(base.BaseTestCase):
    def test_nothing_published(self):
        for state in (
            objects.host_state(),
            # It has not reported yet.
            host_manager.HostState('new', 'new', 'cell'),
        ):
            self.assertIsNone(host_stats.parse_free(state))

    def test_host_that_has_not_changed_is_read_once(self):
        first = objects.host_state('same', rt_free={0: 1}, rt_host_free=1)
        again = objects.host_state('same', rt_free={0: 1}, rt_host_free=1)
        self.assertIsNot(first.stats['rt_free'], again.stats['rt_free'])
        self.assertIs(
            host_stats.parse_free(first), host_stats.parse_free(again)
        )

    def test_changes_are_seen(self):
        """Also after a restart with other options, and of each host."""
        nodes = {0: (0,), 1: (1,)}
        for name, free in (
            ('h', Capacity({0: 1, 1: 1}, 1)),
            ('h', Capacity({0: 2, 1: 1}, 1)),
            ('other', Capacity({0: 3, 1: 1}, 1)),
            ('h', Capacity({0: 2, 1: 1}, 2)),
            ('h', Capacity({0: 2, 1: 1})),
            ('h', Capacity({0: 2, 1: 1}, nodes=nodes)),
            ('h', Capacity({0: 2, 1: 1}, None, nodes, Placement.BEST_FIT)),
            ('h', Capacity({0: 2, 1: 1}, placement=Placement.FIRST_FIT)),
        ):
            state = objects.host_state(
                name, free.cpus, free.host_ppm, free.nodes, free.placement
            )
            self.assertEqual(free, host_stats.parse_free(state))

    def test_text_that_cannot_be_read_does_not_leave_the_old(self):
        host_stats.parse_free(objects.host_state('h', {0: 1}))
        bad = objects.host_state('h', 'garbage')
        for _ in range(2):
            self.assertRaises(ValueError, host_stats.parse_free, bad)


class PlacedTest(base.BaseTestCase):
    def test_counts_this_request_only(self):
        host = objects.host_state(rt_free={0: 950_000})
        self.assertEqual(0, host_stats.count_placed(host))
        spec = objects.request_spec({'rt:reservation': '500/1000'})
        host.consume_from_request(spec)
        host.consume_from_request(spec)
        self.assertEqual(2, host_stats.count_placed(host))

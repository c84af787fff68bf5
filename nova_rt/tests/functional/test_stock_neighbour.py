# SPDX-License-Identifier: Apache-2.0
"""A host of ours beside one that runs the stock nova-compute."""

from nova_rt import events
from nova_rt.tests.functional import moves
from nova_rt.tracking import servers

OURS, STOCK = moves.HOSTS


class StockNeighbourTest(moves.MovesTestBase):
    """Servers with a reservation do not go where nothing counts it."""

    def setUp(self):
        super().setUp()
        self.plain = self.plain_flavor()
        self.server = self.create(self.rt_flavor('400/1000'), host=OURS)
        self.before = self.record_of(self.server)

    def start_compute(self, hostname='compute1', *args, **kwargs):
        if hostname == STOCK:
            return self.start_stock_compute(hostname, *args, **kwargs)
        return super().start_compute(hostname, *args, **kwargs)

    def assert_stays(self, server):
        """It runs where it was, its disk and its claim untouched."""
        self.audit_host(OURS)
        self.assertEqual(OURS, self.host_of(server))
        self.assertTrue(self.disk(self.instance(server)).exists())
        self.assertEqual(self.before, self.assert_held(server, OURS))
        self.assertEqual({}, self.moving_keys(server))
        self.assertEqual('error', self.migration(server).status)
        self.assertEqual(
            1, self.containers.started.count(self.instance(server).name)
        )
        self.assert_stable(server, (OURS,))

    def test_resize_to_a_plain_flavor(self):
        """Refused by the source, before anything is stopped or moved."""
        seen = self.listen(OURS)
        server = self.fail_move(
            self.server, self.plain, 'resize', 'compute_resize_instance'
        )
        self.assertIn('nova-rt-compute', self.reason(server))
        (refusal,) = seen
        self.assertEqual(
            (server['id'], events.Action.MOVE), (refusal.uuid, refusal.action)
        )
        self.assert_stays(server)
        # A note that an earlier destination wrote does not deceive it.
        instance = self.instance(self.server)
        servers.note_move(instance, None)
        instance.save()
        server = self.fail_move(
            self.server, self.plain, 'resize', 'compute_resize_instance'
        )
        self.assert_stays(server)

    def test_servers_of_ordinary_flavors(self):
        """They come and go as Nova has it."""
        server = self.create(self.plain, host=OURS)
        server = self.resize(server, self._create_flavor(memory_mb=64))
        self.assertEqual(STOCK, self.host_of(server))
        self.assertEqual({}, self.moving_keys(server))

    def test_resize_to_a_real_time_flavor_elsewhere(self):
        """The source refuses what Placement would keep off, were it asked."""
        self.stub_out(
            'nova_rt.tracking.servers.is_move_noted', lambda *args: False
        )
        self.start_compute('compute3')
        server = self.fail_move(
            self.server, self.rt_flavor('300/1000'), 'resize',
            'compute_resize_instance',
        )  # fmt: skip
        self.assert_stays(server)

# SPDX-License-Identifier: Apache-2.0
"""More is asked for than there is."""

from nova_rt.tests.functional import base


class OverCommitTest(base.RTServersTestBase):
    """Servers that do not fit: ERROR, with numbers, and nothing is left."""

    def setUp(self):
        super().setUp()
        self.start_compute()

    def forget_filters(self):
        """Leave it to the compute, as a scheduler with an old picture does."""
        self.flags(enabled_filters=['ComputeFilter'], group='filter_scheduler')
        scheduler = self.scheduler.manager
        scheduler.host_manager.enabled_filters = []

    def test_no_host_has_room(self):
        flavor = self.rt_flavor('600/1000')
        servers = [self.create(flavor) for _ in range(4)]
        refused = self.create(flavor, state='ERROR')
        fault = base.fault_of(refused)
        self.assertIn('600000', fault)
        self.assertIn(str(self.capacity()[0] - 600_000), fault)
        self.assert_nothing_left(of=[refused])
        for server in servers:
            self.assert_held(server)

    def test_room_in_sum_but_on_no_cpu(self):
        """Fragmented: Placement would let it pass."""
        for _ in range(4):
            self.create(self.rt_flavor('500/1000'))
        refused = self.create(self.rt_flavor('600/1000'), state='ERROR')
        self.assertIn('600000', base.fault_of(refused))
        self.assert_nothing_left(of=[refused])

    def test_more_cpus_than_the_host_has(self):
        refused = self.create(
            self.rt_flavor('10/1000', vcpus=5), state='ERROR'
        )
        self.assertIn('10000', base.fault_of(refused))
        self.assert_nothing_left(of=[refused])

    def test_claim_is_the_gate(self):
        """Refused by the claim on the last host: the fault has numbers."""
        for _ in range(4):
            self.create(self.rt_flavor('500/1000'))
        self.forget_filters()
        refused = self.create(self.rt_flavor('600/1000'), state='ERROR')
        fault = base.fault_of(refused)
        self.assertIn('asked 600000 ppm', fault)
        self.assertIn(f'free {self.capacity()[0] - 500_000} ppm', fault)
        self.assertIn(
            'Cannot claim reservation: RT bandwidth: asked 600000 ppm',
            self.stdlog.logger.output,
        )
        self.assert_nothing_left(of=[refused])

    def test_claim_refused_goes_to_the_next_host(self):
        self.start_compute('compute2')
        for _ in range(8):
            self.create(self.rt_flavor('500/1000'))
        victim = self.create(self.rt_flavor('300/1000'))
        full = self.instance(victim).host
        other = ({'compute1', 'compute2'} - {full}).pop()
        # Make room on one CPU of the other host only.
        for server in self.api.get_servers(detail=False):
            instance = self.instance(server)
            if instance.host == other:
                self._delete_server(server)
                break
        self.forget_filters()
        server = self.create(self.rt_flavor('600/1000'))
        self.assertEqual(other, self.instance(server).host)
        self.assert_held(server, other)
        self.assertNotIn(server['id'], self.claims(full))

    def test_several_servers_in_one_request(self):
        self.start_compute('compute2')
        flavor = self.rt_flavor('600/1000')
        request = self.server_request(flavor, min_count=8, max_count=8)
        request['server']['name'] = 'many'
        self.api.post_server(request)
        servers = [
            self._wait_for_state_change(server, 'ACTIVE')
            for server in self.api.get_servers(detail=False)
        ]
        self.assertEqual(8, len(servers))
        placed = {
            (self.instance(server).host, self.record_of(server).cpus)
            for server in servers
        }
        self.assertEqual(8, len(placed))

    def test_several_servers_that_do_not_all_fit(self):
        flavor = self.rt_flavor('600/1000')
        request = self.server_request(flavor, min_count=5, max_count=5)
        request['server']['name'] = 'many'
        self.api.post_server(request)
        servers = [
            self._wait_for_state_change(server, 'ERROR')
            for server in self.api.get_servers(detail=False)
        ]
        self.assertEqual(5, len(servers))
        self.assert_nothing_left(of=servers)
        self.assertEqual(0, self.used())

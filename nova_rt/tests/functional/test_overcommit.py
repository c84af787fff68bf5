# SPDX-License-Identifier: Apache-2.0
"""More is asked for than there is."""

from nova_rt.tests.functional import base


class OverCommitTest(base.RTServersTestBase):
    """Servers that do not fit: ERROR, with numbers, and nothing is left."""

    def setUp(self):
        super().setUp()
        self.start_compute()

    def test_refused(self):
        flavor = self.rt_flavor('600/1000')
        servers = [self.create(flavor) for _ in range(4)]
        refused = self.create(flavor, state='ERROR')
        fault = base.fault_of(refused)
        self.assertIn('600000', fault)
        self.assertIn(str(self.capacity()[0] - 600_000), fault)
        self.assert_nothing_left(of=[refused])
        for server in servers:
            self.assert_held(server)
            self._delete_server(server)
        refused = self.create(
            self.rt_flavor('10/1000', vcpus=5), state='ERROR'
        )
        self.assertIn('10000', base.fault_of(refused))
        self.assert_nothing_left(of=[refused])
        # Room in sum but on no CPU: Placement would let it pass.
        for _ in range(4):
            self.create(self.rt_flavor('500/1000'))
        refused = self.create(flavor, state='ERROR')
        self.assertIn('600000', base.fault_of(refused))
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

    def create_many(self, number, state):
        request = self.server_request(
            self.rt_flavor('600/1000'), min_count=number, max_count=number
        )
        request['server']['name'] = 'many'
        self.api.post_server(request)
        servers = [
            self._wait_for_state_change(server, state)
            for server in self.api.get_servers(detail=False)
        ]
        self.assertEqual(number, len(servers))
        return servers

    def test_several_servers_in_one_request(self):
        """All of them, or none."""
        servers = self.create_many(5, 'ERROR')
        self.assert_nothing_left(of=servers)
        self.assertEqual(0, self.used())
        for server in servers:
            self._delete_server(server)
        self.start_compute('compute2')
        placed = {
            (self.instance(server).host, self.record_of(server).cpus)
            for server in self.create_many(8, 'ACTIVE')
        }
        self.assertEqual(8, len(placed))

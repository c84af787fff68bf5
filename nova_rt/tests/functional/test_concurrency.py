# SPDX-License-Identifier: Apache-2.0
"""Many servers at once.

On green threads only: in native-threading mode Nova's own fixtures can
deadlock, with and without nova_rt.
"""

import collections
import os
import time

from nova import monkey_patch

from nova_rt.tests.functional import base

HOSTS = ('compute1', 'compute2', 'compute3')
#: The gate does fewer.
ROUNDS = int(os.environ.get('NOVA_RT_CONCURRENCY_ROUNDS', '10'))


class ConcurrencyTest(base.RTServersTestBase):
    """14 servers of 0.6 CPU on 3 hosts of 4 CPUs: 12 fit, always."""

    CAST_AS_CALL = False

    def setUp(self):
        if not monkey_patch.is_patched():
            self.skipTest('needs green threads')
        self.flags(instances=100, cores=100, ram=-1, group='quota')
        super().setUp()
        for hostname in HOSTS:
            self.start_compute(hostname)

    def test_fourteen_at_once(self):
        flavor = self.rt_flavor('600/1000')
        for _ in range(ROUNDS):
            servers = [
                self.api.post_server(self.server_request(flavor))
                for _ in range(14)
            ]
            self.check(servers)
            for server in servers:
                self.api.delete_server(server['id'])
            for server in servers:
                self._wait_until_deleted({'id': server['id']})
            for hostname in HOSTS:
                self.assertEqual({}, self.claims(hostname))
                self.assertEqual(0, self.used(hostname))

    def wait_for_end(self, server):
        for _ in range(240):
            server = self.api.get_server(server['id'])
            if server['status'] == 'ACTIVE' or 'fault' in server:
                return server
            time.sleep(0.5)
        self.fail(f'neither ACTIVE nor in ERROR: {server}')

    def check(self, servers):
        states = collections.Counter()
        used = collections.Counter()
        for server in servers:
            server = self.wait_for_end(server)
            states[server['status']] += 1
            if server['status'] == 'ACTIVE':
                host = self.instance(server).host
                rec = self.assert_held(server, host)
                used.update((host, cpu) for cpu in rec.cpus)
            else:
                self.assertIn('600000', base.fault_of(server))
                self._wait_for_assert(
                    lambda one=server: self.assertEqual(0, self.allocated(one))
                )
        self.assertEqual({'ACTIVE': 12, 'ERROR': 2}, dict(states))
        # One on each CPU of each host: none has more than it can hold.
        self.assertEqual(12, len(used))
        self.assertEqual({1}, set(used.values()))
        for hostname in HOSTS:
            self.assertEqual(4 * 600_000, self.used(hostname))

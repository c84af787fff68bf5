# SPDX-License-Identifier: Apache-2.0
"""More servers at once than a host has room for."""

import concurrent.futures

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin.hosts import container
from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.scenario import capacity

CONF = config.CONF

#: Number of servers that fit on the host, and of those asked for beyond that.
ROOM = 4
TOO_MANY = 3


@decorators.serial
class CapacityTest(capacity.HostTest):
    """All are asked for before the first is there."""

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e61')
    def test_exactly_those_that_fit(self):
        before = self.free()
        everywhere = len(before.cpus)
        # On all CPUs, so that it takes no more servers on a large host.
        reservation = capacity.of(before.most_on_each() / (ROOM + 0.5))
        flavor = self.rt_flavor(reservation, everywhere)

        def ask(_):
            return self.boot_flavor(
                flavor,
                clients=self.os_admin,
                host=self.there.name,
                wait=False,
            )['id']

        with concurrent.futures.ThreadPoolExecutor(ROOM + TOO_MANY) as pool:
            servers = list(pool.map(ask, range(ROOM + TOO_MANY)))
        found = [self.reach(each, 'ACTIVE', 'ERROR') for each in servers]
        states = sorted(each['status'] for each in found)
        self.assertEqual(['ACTIVE'] * ROOM + ['ERROR'] * TOO_MANY, states)

        left = before
        for each in found:
            if each['status'] == 'ACTIVE':
                cpus = self.assert_agree(each['id'], reservation, everywhere)
                left = left.after(cpus, base.ppm(reservation))
            else:
                self.assertIn('RT bandwidth: asked', each['fault']['message'])
                self.assert_nothing_left(each['id'])
        self.wait_until_free(left)

        # All at once again; the host is what it was.
        with concurrent.futures.ThreadPoolExecutor(len(servers)) as pool:
            list(pool.map(self.delete, servers))
        self.wait_until_free(before)
        for each in servers:
            self.assertIsNone(container.find(self.there, each))

# SPDX-License-Identifier: Apache-2.0
"""A program gets its reservation beside any neighbours."""

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin.hosts import container, load
from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.scenario import capacity

CONF = config.CONF

#: Parts of the reservation. Less: a hypervisor below may take time, and a
#: kernel that only limits ends a period at a tick. More: the way into the
#: container, which is not real-time yet.
LEAST, MOST = 0.93, 1.05


class BandwidthTest(capacity.HostTest):
    """Endless loops, and the CPU time that the kernel has counted."""

    def assert_got(self, share, reservation):
        """A loop got its reservation."""
        wanted = base.ppm(reservation) / 10**6
        self.assertGreater(share, wanted * LEAST)
        self.assertLess(share, wanted * MOST)

    def measure(self, *loops):
        """Run loops at the same time.

        :param loops: (container, policy, CPU, number) of each
        :returns: the share of a CPU that each container had
        """
        seconds = CONF.nova_rt.measure_seconds
        for found, policy, cpu, count in loops:
            load.hog(found, seconds, policy, cpu, count)
        return container.shares([each[0] for each in loops], seconds)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e11')
    def test_beside_a_plain_server(self):
        """Two loops share the reservation of one server."""
        reservation = CONF.nova_rt.reservation
        server = self.boot_there(reservation)['id']
        plain = self.boot_flavor(
            self.flavor({}), clients=self.os_admin, host=self.there.name
        )['id']
        (cpu,) = self.assert_agree(server, reservation)

        share, rest = self.measure(
            (self.container(server), 'rr', cpu, 2),
            (self.container(plain), 'other', cpu, 1),
        )

        self.assert_got(share, reservation)
        # How much depends on what else runs there.
        self.assertGreater(rest, 0.05)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e12')
    def test_beside_a_real_time_server(self):
        """Both have the same CPU: the neighbour is on all of the host's."""
        small = CONF.nova_rt.small_reservation
        everywhere = len(capacity.free(self.there).cpus)
        server = self.boot_there(CONF.nova_rt.reservation)['id']
        neighbour = self.boot_there(small, everywhere)['id']
        (cpu,) = self.assert_agree(server)
        self.assertIn(cpu, self.assert_agree(neighbour, small, everywhere))

        share, other = self.measure(
            (self.container(server), 'rr', cpu, 1),
            (self.container(neighbour), 'rr', cpu, 1),
        )

        self.assert_got(share, CONF.nova_rt.reservation)
        self.assert_got(other, small)

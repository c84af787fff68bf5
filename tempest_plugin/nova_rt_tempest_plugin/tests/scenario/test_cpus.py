# SPDX-License-Identifier: Apache-2.0
"""Choice of the CPUs that servers get, and refusals when none has room.

No other test may have servers meanwhile: the free capacity must be known.
"""

import re

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.scenario import capacity

CONF = config.CONF


@decorators.serial
class SpreadingTest(capacity.HostTest):
    """Each server goes to the emptiest CPU, the first of equal ones.

    For two CPUs, in parts of the reservation of the configuration that are
    taken. First fit, or the next CPU in turn, would choose another::

        6/10 -> 6 0     2/10 -> 6 2     3/10 -> 6 5
    """

    PARTS = (0.6, 0.2, 0.3)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e21')
    def test_worst_fit(self):
        left = self.free()
        for part in self.PARTS:
            reservation = base.times(CONF.nova_rt.reservation, part)
            cpu = left.emptiest()
            server = self.boot_there(reservation)['id']
            self.assertEqual([cpu], self.assert_agree(server, reservation))
            left = left.after([cpu], base.ppm(reservation))
            self.wait_until_free(left)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e22')
    def test_two_cpus(self):
        left = self.free()
        if len(left.cpus) < 2:
            self.skipTest('the host offers one CPU')
        reservation = CONF.nova_rt.reservation
        server = self.boot_there(reservation, 2)['id']
        cpus = self.assert_agree(server, reservation, 2)
        left = left.after(cpus, base.ppm(reservation))
        self.wait_until_free(left)
        # One of them is the emptiest no more.
        small = CONF.nova_rt.small_reservation
        other = self.boot_there(small)['id']
        self.assertEqual([left.emptiest()], self.assert_agree(other, small))


@decorators.serial
class FullHostTest(capacity.HostTest):
    """Refusal, with numbers, of a server that does not fit, until it does."""

    #: Of what is free: it fits once.
    PART = 0.6

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e23')
    def test_full_and_free_again(self):
        before = self.free()
        everywhere = len(before.cpus)
        reservation = capacity.of(before.most_on_each() * self.PART)
        asked = base.ppm(reservation)
        server = self.boot_there(reservation, everywhere)['id']
        cpus = self.assert_agree(server, reservation, everywhere)
        self.assertEqual(sorted(before.cpus), cpus)
        left = before.after(cpus, asked)
        self.wait_until_free(left)

        fault = self.refused_there(reservation, everywhere)
        self.assertIn(f'asked {asked} ppm on each of {everywhere}', fault)
        if CONF.nova_rt.refusal_details == 'full':
            numbers = {str(left.host), *map(str, left.cpus.values())}
            self.assertTrue(numbers & set(re.findall(r'\d+', fault)), fault)
        self.assertEqual(
            cpus, self.assert_agree(server, reservation, everywhere)
        )
        self.wait_until_free(left)
        # A small one fits still, but not on more CPUs than there are.
        small = capacity.of(left.most_on_each() * 0.5)
        self.assert_agree(self.boot_there(small)['id'], small)
        fault = self.refused_there(small, everywhere + 1)
        self.assertIn(f'each of {everywhere + 1} CPU(s)', fault)

        self.delete(server)
        again = self.boot_there(reservation, everywhere)['id']
        self.assert_agree(again, reservation, everywhere)

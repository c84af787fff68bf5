# SPDX-License-Identifier: Apache-2.0
"""Nova's own database agrees with the kernel while a server lives.

All else that users and operators do with servers is in the Tempest plug-in.
"""

from lab.measure import container
from lab.tests import base


class ReservationTest(base.LabTestCase):
    """Record and tracker, which no API shows."""

    def test_life(self):
        server = self.create('rt.small')
        self.assert_agree(server, '20000/100000')
        first = self.container(server)

        self.cloud.compute.stop_server(server)
        self.reach(server, 'SHUTOFF')
        self.wait_for(first.gone, 'control groups of a stopped server')
        self.assertIsNone(container.Container.of(server.id))
        self.assert_claimed(server, self.record(server))

        self.cloud.compute.start_server(server)
        self.reach(server, 'ACTIVE')
        self.assert_agree(server, '20000/100000')
        second = self.container(server)

        self.delete(server)
        self.wait_for(second.gone, 'control groups of a deleted server')
        self.assert_nothing_allocated(server)
        self.wait_for(
            lambda: self.stats() == self.before.hosts, 'a claim is left'
        )


class RestartTest(base.LabTestCase):
    """The service of the first host adopts the running servers."""

    on_first = True

    def test_restart_of_nova_compute(self):
        server = self.create('rt.small')
        stats = self.stats()
        base.lab('restart', 'nova-compute')
        self.wait_for(
            lambda: self.stats() == stats, 'the claims are not adopted'
        )
        self.assert_agree(server, '20000/100000')

# SPDX-License-Identifier: Apache-2.0
"""A host dies, and its server goes on elsewhere with its reservation.

Only where the options say how a host dies for real. To declare a host dead
that runs would start the server twice. No other test runs meanwhile.
"""

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin.hosts import container, transport
from nova_rt_tempest_plugin.tests.scenario import moves

CONF = config.CONF

#: A host may have to boot, and Nova takes a while to miss one.
_COMMAND_S = 600
_NOTICE_S = 600


@decorators.serial
class EvacuationTest(moves.MoveTest):
    """With a host that may die."""

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        for name in ('mortal_host', 'kill_command', 'revive_command'):
            if not CONF.nova_rt[name]:
                raise cls.skipException(f'[nova_rt] {name} is not set')
        if CONF.compute.min_compute_nodes < 2:
            raise cls.skipException('[compute] min_compute_nodes is below 2')

    def command(self, name):
        """Run a command of the configuration, and wait for its effect."""
        transport.manage_host().shell(CONF.nova_rt[name], _COMMAND_S)
        wanted = 'down' if name == 'kill_command' else 'up'
        self.wait_for(
            lambda: self.state() == wanted,
            f'{CONF.nova_rt.mortal_host} is not {wanted} for Nova',
            _NOTICE_S,
        )

    def state(self):
        """Return the service nova-compute there."""
        (found,) = self.os_admin.services_client.list_services(
            binary='nova-compute', host=CONF.nova_rt.mortal_host
        )['services']
        return found['state']

    @decorators.attr(type=['multinode'])
    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1831')
    def test_host_dies_and_comes_back(self):
        server = self.boot_flavor(
            self.rt_flavor(self.small),
            clients=self.os_admin,
            host=CONF.nova_rt.mortal_host,
        )['id']
        source = self.place(server)
        self.assert_runs(server, self.small)

        self.addCleanup(self.command, 'revive_command')
        self.command('kill_command')
        self.admin_servers.evacuate_server(server)
        self.reach(server, 'ACTIVE')
        target = self.place(server)
        self.assertNotEqual(source, target)
        # Nova keeps what the dead host had until it comes back.
        self.assert_allocated_on(server, [source, target], self.small)
        if self.looks:
            found = self.container(server)
            self.assertEqual(self.small, str(found.held()))
            self.assertEqual({('rr', 1)}, found.policies())

        self.command('revive_command')
        self.assert_allocated(server, target, self.small)
        self.assert_runs(server, self.small)
        if self.looks:
            dead = transport.compute_host(source.host)
            self.wait_for(
                lambda: not container.defined(dead, server),
                f'{server} is there twice',
            )
        self.end(server)

# SPDX-License-Identifier: Apache-2.0
"""Services of nova_rt are restarted; servers and their reservations stay.

The options say how. No other test runs meanwhile: its servers could not be
started.
"""

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin import reports
from nova_rt_tempest_plugin.hosts import container, transport
from nova_rt_tempest_plugin.tests import base

CONF = config.CONF

#: A restart may wait for systemd, which waits for the service.
_RESTART_S = 300


@decorators.serial
class RestartTest(base.RTTest):
    """One service each."""

    NEEDS_HOSTS = True

    def restart(self, service, host):
        """Restart a service, as the operator has said.

        :returns: once Nova has heard of it, if it is one of Nova's
        """
        before = self.reported_at(service, host)
        host.shell(CONF.nova_rt.restart_commands[service], _RESTART_S)
        if before:
            self.wait_for(
                lambda: self.reported_at(service, host) > before,
                f'{service} does not report itself',
            )

    def reported_at(self, service, host):
        """Return when Nova heard of a service; None if it is not Nova's."""
        found = self.os_admin.services_client.list_services(
            binary=service, host=host.name
        )['services']
        up = [each['updated_at'] for each in found if each['state'] == 'up']
        return max(up, default='') if found else None

    def skip_without(self, service):
        """Skip before anything is made."""
        if service not in CONF.nova_rt.restart_commands:
            self.skipTest(f'[nova_rt] restart_commands has no {service}')

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e31')
    def test_nova_compute_keeps_what_runs(self):
        self.skip_without('nova-compute')
        server = self.boot()['id']
        cpus = self.assert_agree(server)
        running = self.container(server)
        first = running.first_process()
        host = running.host
        stopped = self.boot(CONF.nova_rt.small_reservation)['id']
        self.act(stopped, 'os-stop', 'SHUTOFF')

        self.restart('nova-compute', host)

        self.assertEqual(first, self.container(server).first_process())
        self.assertEqual(cpus, self.assert_agree(server))
        self.assertEqual('SHUTOFF', self.show(stopped)['status'])
        self.assertIsNone(container.find(host, stopped))
        self.assertEqual(
            base.ppm(CONF.nova_rt.small_reservation),
            self.allocations(stopped)[base.BANDWIDTH],
        )
        # It still does what it is told.
        self.act(stopped, 'os-start', 'ACTIVE')
        self.assert_agree(stopped, CONF.nova_rt.small_reservation)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e32')
    def test_nova_compute_repairs_when_it_starts(self):
        self.skip_without('nova-compute')
        server = self.boot()['id']
        self.assert_agree(server)
        found = self.container(server)
        first = found.first_process()
        found.set_held(CONF.nova_rt.small_reservation)
        self.assertEqual(CONF.nova_rt.small_reservation, str(found.held()))

        self.restart('nova-compute', found.host)

        self.wait_until_equal(
            CONF.nova_rt.reservation,
            lambda: str(found.held()),
            'what the kernel holds',
        )
        self.assert_agree(server)
        self.assertEqual(first, self.container(server).first_process())

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e33')
    def test_exporter_and_conductor(self):
        """Restart of the reporting services: nothing is missing then."""
        self.skip_without('nova-rt-exporter')
        self.skip_without('nova-rt-conductor')
        if not (CONF.nova_rt.exporter_url and CONF.nova_rt.manage_command):
            self.skipTest('[nova_rt] exporter_url or manage_command is unset')
        server = self.boot()['id']
        self.assert_agree(server)
        host = self.host(server)
        used = 'nova_rt_server_cpu_used_seconds_total'
        before = reports.of_server(host, server)[used]

        self.restart('nova-rt-exporter', host)
        self.restart('nova-rt-conductor', transport.manage_host())

        # Counters of servers are the kernel's: they go on where they were.
        self.assert_agree(server)
        after = reports.of_server(host, server)[used]
        self.assertEqual(before.keys(), after.keys())
        for cpu, seconds in before.items():
            self.assertGreaterEqual(after[cpu], seconds)
        self.delete(server)
        self.wait_until_equal(
            ['claimed', 'applied', 'released'],
            lambda: reports.history(server),
            'history',
        )

# SPDX-License-Identifier: Apache-2.0
"""A server has its reservation whenever it runs.

The tests of the API have the refused actions.
"""

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc
from tempest.lib.common.utils import data_utils
import testtools

from nova_rt_tempest_plugin.hosts import container
from nova_rt_tempest_plugin.tests import base

CONF = config.CONF
LOOKS = CONF.nova_rt.host_access != 'none'


class LifeTest(base.RTTest):
    """One operation each: before it, after it, and undone."""

    def running(self, server):
        """Return the container of a server, None without access to hosts."""
        return self.container(server) if LOOKS else None

    def assert_same(self, server, cpus, before):
        """The reservation is there, and the container is the one of before."""
        self.assertEqual(cpus, self.assert_agree(server))
        if before:
            self.assertEqual(before.pid, self.container(server).pid)

    def assert_fresh(self, server, cpus, before):
        """The reservation is there, on the same CPUs, in a new container."""
        self.assertEqual(cpus, self.assert_agree(server))
        if before:
            self.assertNotEqual(before.pid, self.container(server).pid)
            self.wait_for(before.gone, 'control groups of the old container')

    def assert_kept(self, server, reservation, before):
        """A stopped server keeps its claim, and nothing of it runs."""
        self.assertEqual(
            base.ppm(reservation), self.allocations(server)[base.BANDWIDTH]
        )
        if before:
            self.wait_for(before.gone, 'control groups of a stopped server')
            self.assertIsNone(container.find(before.host, server))

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e01')
    def test_stop_and_start(self):
        server = self.boot()['id']
        cpus = self.assert_agree(server)
        before = self.running(server)

        self.act(server, 'os-stop', 'SHUTOFF')
        self.assert_kept(server, CONF.nova_rt.reservation, before)

        self.act(server, 'os-start', 'ACTIVE')
        self.assert_fresh(server, cpus, before)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e02')
    def test_reboot(self):
        server = self.boot()['id']
        cpus = self.assert_agree(server)
        for kind in ('HARD', 'SOFT'):
            before = self.running(server)
            self.act(server, 'reboot', 'ACTIVE', {'type': kind})
            self.assert_fresh(server, cpus, before)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e03')
    @testtools.skipUnless(
        CONF.compute_feature_enabled.pause,
        '[compute-feature-enabled] pause is off',
    )
    def test_pause_and_unpause(self):
        server = self.boot()['id']
        cpus = self.assert_agree(server)
        before = self.running(server)

        self.act(server, 'pause', 'PAUSED')
        self.assert_same(server, cpus, before)

        self.act(server, 'unpause', 'ACTIVE')
        self.assert_same(server, cpus, before)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e04')
    def test_rebuild(self):
        server = self.boot()['id']
        cpus = self.assert_agree(server)
        before = self.running(server)
        self.servers.rebuild_server(server, CONF.compute.image_ref)
        self.reach(server, 'ACTIVE')
        self.assert_fresh(server, cpus, before)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e06')
    def test_what_changes_nothing(self):
        """Name, metadata, tags, lock, diagnostics and console."""
        server = self.boot()['id']
        cpus = self.assert_agree(server)
        before = self.running(server)

        # Text of users must not get anywhere but into Nova.
        for name in ("'; rm -rf /tmp/x; '", data_utils.rand_name('rt')):
            self.servers.update_server(server, name=name)
            self.assertEqual(name, self.show(server)['name'])
        self.servers.set_server_metadata(server, {'nova_rt': 'v=9;q=1;p=1'})
        self.servers.update_tag(server, 'rt')
        self.servers.lock_server(server)
        self.assertRaises(lib_exc.Conflict, self.servers.stop_server, server)
        self.admin_servers.show_server_diagnostics(server)
        if CONF.compute_feature_enabled.console_output:
            self.servers.get_console_output(server, length=10)
        self.assert_same(server, cpus, before)

        self.servers.unlock_server(server)
        self.servers.delete_tag(server, 'rt')
        self.servers.delete_server_metadata_item(server, 'nova_rt')
        # Nor does what was changed matter at the next start.
        self.act(server, 'reboot', 'ACTIVE', {'type': 'HARD'})
        self.assert_fresh(server, cpus, before)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e07')
    @testtools.skipUnless(
        CONF.compute_feature_enabled.interface_attach,
        '[compute-feature-enabled] interface_attach is off',
    )
    def test_attach_and_detach_an_interface(self):
        network = self.network_id()
        server = self.boot()['id']
        cpus = self.assert_agree(server)
        before = self.running(server)
        client = self.os_primary.interfaces_client

        port = client.create_interface(server, net_id=network)[
            'interfaceAttachment'
        ]['port_id']
        self.assert_same(server, cpus, before)

        client.delete_interface(server, port)
        self.wait_for(
            lambda: not client.list_interfaces(server)['interfaceAttachments'],
            f'port {port} is still there',
        )
        self.assert_same(server, cpus, before)

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e08')
    @testtools.skipIf(CONF.nova_rt.hints == 'deny', '[nova_rt] hints is deny')
    def test_hint_and_policy_hold_for_life(self):
        wanted = CONF.nova_rt.small_reservation
        policy = ('fifo', 7)
        server = self.boot(
            hint=wanted, specs={'policy': 'fifo', 'priority': '7'}
        )['id']
        cpus = self.assert_agree(server, wanted, policy=policy)
        before = self.running(server)
        self.act(server, 'os-stop', 'SHUTOFF')
        self.assert_kept(server, wanted, before)
        self.act(server, 'os-start', 'ACTIVE')
        self.assertEqual(
            cpus, self.assert_agree(server, wanted, policy=policy)
        )

# SPDX-License-Identifier: Apache-2.0
"""nova-rt-compute starts on a host that is not as it left it."""

import os
import socket
import threading

import fixtures
import libvirt
from nova import exception as nova_exception
from nova.tests.fixtures import libvirt as fakelibvirt

from nova_rt.tests.functional import base


class ReadinessTest(base.RTServersTestBase):
    """systemd kills a unit of Type=notify that never says READY=1."""

    def setUp(self):
        super().setUp()
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'notify')
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.systemd.close)
        self.systemd.bind(path)
        self.systemd.setblocking(False)
        self.useFixture(fixtures.EnvironmentVariable('NOTIFY_SOCKET', path))

    def assert_not_told(self):
        self.assertRaises(BlockingIOError, self.systemd.recv, 512)

    def test_told_once_the_service_listens(self):
        listening = []

        def go_on(manager, context):
            self.assert_not_told()
            listening.append(manager.host)

        self.stub_out('nova_rt.moves.endings.ask_again', go_on)
        self.start_compute()
        self.assertEqual(['compute1'], listening)
        self.assertEqual(b'READY=1', self.systemd.recv(512))
        self.assert_not_told()
        # What the service starts would speak for it.
        self.assertNotIn('NOTIFY_SOCKET', os.environ)

    def test_not_told_if_the_service_cannot_start(self):
        error = nova_exception.InvalidConfiguration('x')
        with fixtures.MockPatch(
            'nova_rt.moves.interrupted.settle', side_effect=error
        ):
            self.assertRaises(
                nova_exception.InvalidConfiguration, self.start_compute
            )
        self.assert_not_told()


class StopTest(base.RTServersTestBase):
    def test_no_thread_is_waited_for_in_vain(self):
        """Nova waits for its pools, and one of their threads has no end."""
        self.start_compute()
        driver = self.computes['compute1'].driver
        ended = threading.Event()

        def work():
            try:
                driver._host._conn_event_thread()
            except BaseException:
                ended.set()

        threading.Thread(target=work, daemon=True).start()
        driver.cleanup_host('compute1')
        self.assertTrue(ended.wait(60))


class RestartTest(base.RTServersTestBase):
    ADMIN_API = True

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.first = self.create(self.rt_flavor('600/1000'))
        self.second = self.create(self.rt_flavor('600/1000'))

    def fail_lookups(self, server, times):
        """Make libvirt fail to find the domain of a server some times."""
        left = [times]
        original = fakelibvirt.Connection.lookupByUUIDString

        def lookup(connection, uuid):
            if uuid == server['id'] and left[0]:
                left[0] -= 1
                raise fakelibvirt.make_libvirtError(
                    libvirt.libvirtError,
                    'client socket is closed',
                    error_code=libvirt.VIR_ERR_RPC,
                )
            return original(connection, uuid)

        self.stub_out(
            'nova.tests.fixtures.libvirt.Connection.lookupByUUIDString',
            lookup,
        )
        return left

    def test_libvirt_fails_for_one_server(self):
        """The service starts, and sees to the others."""
        self.lose_reservation(self.first)
        self.lose_reservation(self.second)
        left = self.fail_lookups(self.first, 2)
        self.restart_compute_service('compute1')
        self.assertEqual([0], left)
        self.assert_held(self.second)
        self.assertIn('client socket is closed', self.stdlog.logger.output)
        self.assertNotIn('Cannot load', self.stdlog.logger.output)
        self.verify()
        self.assert_held(self.first)

    def test_other_partition(self):
        """Nothing is stopped: the service does not start."""
        # For the service, and for its helper, which reads it by itself.
        self.flags_of_ours(partition='other')
        self.kernels['compute1'].partition_name = 'other'
        text = str(self.fail_restart())
        self.assertIn('2 real-time server(s)', text)
        self.assertIn('partition', text)
        for server in (self.first, self.second):
            self.assertTrue(self.guest(server).is_active())
            self.assertNotIn('Stopping', self.stdlog.logger.output)
        # It does when nothing runs.
        for server in (self.first, self.second):
            self.guest(server)._domain.destroy()
        self.restart_compute_service('compute1')

    def test_allocations_move_after_capacity_has_shrunk(self):
        """As for a migration: from the server to the migration's UUID."""
        self.flags_of_ours(reserved_ppm=850_000)
        self.restart_compute_service('compute1')
        self.assertLess(self.inventory()['total'], 600_000)
        reports = self.computes['compute1'].manager.reportclient
        target = {'id': '4c9e8c1e-9a4c-4c4c-8d3e-0d1b5f6a7b8c'}
        self.assertTrue(
            reports.move_allocations(self.ctxt, self.first['id'], target['id'])
        )
        self.assertEqual(600_000, self.allocated(target))
        self.assertEqual(0, self.allocated(self.first))


class FirstAuditTest(base.RTServersTestBase):
    """The first count of a host's servers fails."""

    def test_claims_are_unknown(self):
        self.start_compute()
        server = self.create(self.rt_flavor('600/1000'))
        with fixtures.MockPatch(
            'nova.objects.InstanceList.get_by_host_and_node',
            side_effect=nova_exception.CellTimeout(),
        ):
            self.restart_compute_service('compute1')
            refused = self.create(self.rt_flavor('100/1000'), state='ERROR')
        self.assertIn('not counted', base.fault_of(refused))
        self.assertEqual([server['id']], [*self.claims()])
        self._run_periodics()
        self.assert_held(self.create(self.rt_flavor('100/1000')))
        self.assert_held(server)

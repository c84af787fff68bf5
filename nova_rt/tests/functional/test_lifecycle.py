# SPDX-License-Identifier: Apache-2.0
"""A server's life: its reservation is there whenever it runs."""

from unittest import mock

import fixtures
import libvirt
from nova import exception as nova_exception
from nova.compute import task_states
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from nova.virt import event as virtevent

from nova_rt.compute import manager
from nova_rt.reservation import admission
from nova_rt.tests.fixtures.requests import ask, claim
from nova_rt.tests.functional import base


class LifecycleTest(base.RTServersTestBase):
    """Create, stop, start, reboot, pause, delete."""

    def setUp(self):
        super().setUp()
        self.start_compute()

    def started(self, server):
        """Count the starts of the container."""
        return self.containers.started.count(self.instance(server).name)

    def test_create(self):
        server = self.create(self.rt_flavor('1400/2000', policy='fifo'))
        rec = self.assert_held(server)
        self.assertEqual('1400/2000', str(rec.request.reservation))
        self.assertEqual('fifo', rec.request.policy)
        self.assertEqual((0,), rec.cpus)
        self.assertEqual(700_000, self.used())
        free = self.capacity()
        free[0] -= 700_000
        self.assertEqual(free, self.published())
        # One with a hint, and then all of it is given back.
        hinted = self.create(self.rt_flavor('1400/2000'), '400/2000')
        rec = self.assert_held(hinted)
        self.assertEqual('400/2000', str(rec.request.reservation))
        self.assertEqual(900_000, self.used())
        for each in server, hinted:
            self._delete_server(each)
        self.assertEqual({}, self.claims())
        self.assertEqual(0, self.used())
        self.assertEqual(self.capacity(), self.published())
        self.assertEqual(set(), self.domains())
        self.assertEqual([], self.groups())

    def test_starts_without_connection_to_libvirtd(self):
        """Each further start has the network devices plugged anew."""
        done = []
        for name in ('plug', 'unplug'):
            self.stub_out(
                f'nova.virt.libvirt.vif.LibvirtGenericVIFDriver.{name}',
                lambda driver, instance, vif, name=name: done.append(
                    (name, vif['id'])
                ),
            )
        port = self.neutron.port_1['id']
        plug, unplug = ('plug', port), ('unplug', port)
        self.containers.lost = 2
        flavor = self.rt_flavor('1400/2000', policy='fifo')
        server = self.create(flavor, networks=[{'port': port}])
        self.assertEqual(3, self.started(server))
        self.assertEqual([plug, *[unplug, plug] * 2], done)
        self.assert_held(server)
        self.assertEqual(700_000, self.used())
        done.clear()
        self.containers.lost = 1
        self.ask_for(server, 'reboot', {'type': 'HARD'})
        self.assertEqual(5, self.started(server))
        self.assertEqual([unplug, plug] * 2, done)

    def test_delete_while_systemd_removes_the_group(self):
        server = self.create(self.rt_flavor())
        destroy, calls = fakelibvirt.Domain.destroy, []

        def fail_twice(domain):
            calls.append(domain)
            if len(calls) < 3:
                raise fakelibvirt.make_libvirtError(
                    fakelibvirt.libvirtError,
                    "Unable to read from 'cgroup.controllers': No such file",
                    error_code=libvirt.VIR_ERR_SYSTEM_ERROR,
                )
            return destroy(domain)

        self.useFixture(
            fixtures.MockPatchObject(fakelibvirt.Domain, 'destroy', fail_twice)
        )
        self._delete_server(server)
        self.assertEqual(3, len(calls))
        self.assertEqual({}, self.claims())
        self.assertEqual([], self.groups())

    def test_starts(self):
        """Pausing is none, and each other has the root file system."""
        server = self.create(self.rt_flavor())
        self.ask_for(server, 'pause', state='PAUSED')
        self.ask_for(server, 'unpause')
        self.assert_held(server)
        self.assertEqual(1, self.started(server))
        self._stop_server(server)
        self.assertFalse(self.guest(server).is_active())
        self.assertEqual(600_000, self.used())
        self.assertIn(server['id'], self.claims())
        self._start_server(server)
        self.assert_held(server)
        self.assertEqual(2, self.started(server))
        for hard, starts in (True, 3), (False, 4):
            self._reboot_server(server, hard=hard)
            self.assert_held(server)
            self.assertEqual(starts, self.started(server))
        self.assertNotIn(
            'Failed to soft reboot instance', self.stdlog.logger.output
        )

    def test_restart_of_the_service(self):
        server = self.create(self.rt_flavor('400/1000'))
        stopped = self.create(self.rt_flavor('400/1000'))
        self.ask_for(stopped, 'os-stop', state='SHUTOFF')
        written = self.writes()
        claims = dict(self.claims())
        self.restart_compute_service('compute1')
        self.assertEqual(claims, self.claims())
        self.assert_held(server)
        # Adopted, not touched.
        self.assertEqual(1, self.started(server))
        self.assertEqual(written, self.writes())
        self.assertEqual(0, self.repairs())

    def test_restart_of_the_service_finds_drift(self):
        server = self.create(self.rt_flavor())
        self.lose_reservation(server)
        self.restart_compute_service('compute1')
        self.assert_held(server)
        self.assertEqual(1, self.started(server))
        # What cannot be held is stopped when the kernel says so again.
        self.lose_reservation(server)
        self.refuse_writes()
        self.restart_compute_service('compute1')
        self.assertTrue(self.guest(server).is_active())
        self.verify()
        self.assertFalse(self.guest(server).is_active())

    def test_restart_of_the_service_while_a_server_is_deleted(self):
        """Nova goes on with its reboot, and cannot save the result."""
        gone = self.create(self.rt_flavor('400/1000'))
        server = self.create(self.rt_flavor('400/1000'))
        instance = self.instance(gone)
        instance.task_state = task_states.REBOOT_PENDING_HARD
        instance.save()
        reboot = manager.RTComputeManager._reboot_instance

        def deleted_meanwhile(this, context, instance, *args):
            self.instance(gone).destroy()
            return reboot(this, context, instance, *args)

        with mock.patch.object(
            manager.RTComputeManager, '_reboot_instance', deleted_meanwhile
        ):
            self.restart_compute_service('compute1')
        self.assert_held(server)
        self._run_periodics()
        self.assertEqual([server['id']], [*self.claims()])

    def test_audit_rebuilds_claims(self):
        server = self.create(self.rt_flavor())
        claims = self.claims()
        rec = self.record_of(server)
        self.reservations().hold('a server that is gone', rec)
        self._run_periodics()
        self.assertEqual(claims, self.claims())

    def test_periodic_check_repairs_drift(self):
        server = self.create(self.rt_flavor())
        self.verify()
        self.assertEqual(0, self.repairs())
        self.lose_reservation(server)
        self.verify()
        self.assert_held(server)
        self.assertEqual(1, self.repairs())
        self.assertIn('Reservation not held: ', self.stdlog.logger.output)

    def test_start_that_fails_when_it_runs(self):
        """libvirtd is gone in the moment after the start."""
        server = self.create(self.rt_flavor())
        self._stop_server(server)
        ran = []

        def fail(guest, launch):
            ran.append(guest.is_active())
            raise nova_exception.InternalError('lost')

        with fixtures.MonkeyPatch('nova_rt.lxc.connections.ensure', fail):
            # The tests of Nova wait for the host, and hear of its fault.
            self.assertRaises(
                client.OpenStackApiException,
                self.api.post_server_action,
                server['id'],
                {'os-start': None},
            )
        self.assertEqual([True], ran)
        running = self.computes['compute1'].driver.running.list_running()
        self.assertEqual(set(), running)
        self._start_server(server)
        self.assert_held(server)

    def test_start_behind_our_back(self):
        server = self.create(self.rt_flavor())
        guest = self.guest(server)
        guest.poweroff()
        guest.launch()
        driver = self.computes['compute1'].driver
        rec = self.record_of(server)
        self.assertIsNotNone(driver._rt_host.check(guest.id, rec))
        driver.emit_event(
            virtevent.LifecycleEvent(
                server['id'], virtevent.EVENT_LIFECYCLE_STARTED
            )
        )
        self._wait_for_assert(lambda: self.assert_held(server))


class V1ThrottlingLifecycleTest(LifecycleTest):
    """The same with a kernel that only limits."""

    INTERFACE = 'v1-throttle'


class PlacementTest(base.RTServersTestBase):
    """On which CPUs servers are put."""

    def setUp(self):
        super().setUp()
        self.start_compute()

    def test_spare_cpu_is_taken_first(self):
        """The order is the one of admission.place()."""
        free = admission.Capacity(self.capacity())
        for thousandths, vcpus in (
            (500, 1), (100, 1), (300, 2), (200, 1), (100, 1), (300, 2),
        ):  # fmt: skip
            ppm = thousandths * 1000
            cpus = admission.place(free, ask(vcpus, ppm))
            free = free.free([claim(cpus, ppm)])
            flavor = self.rt_flavor(f'{thousandths}/1000', vcpus)
            self.assertEqual(cpus, self.record_of(self.create(flavor)).cpus)
        self.assertEqual(free.cpus, self.published())


class HostScopeTest(base.RTServersTestBase):
    """Kernels that sum over the whole host, and only limit."""

    INTERFACE = 'v1-throttle'

    def setUp(self):
        super().setUp()
        self.start_compute()

    def test_create_and_delete(self):
        total = self.computes['compute1'].driver._rt_host.capacity().total_ppm
        server = self.create(self.rt_flavor('300/1000', vcpus=2))
        self.assert_held(server)
        self.assertEqual(str(total - 600_000), self.stats()['rt_host_free'])
        self.assertEqual('limit', self.stats()['rt_enforcement'])
        self.assertEqual('v1-throttle', self.stats()['rt_interface'])
        self._delete_server(server)
        self.assertEqual(str(total), self.stats()['rt_host_free'])

    def test_what_placement_is_told(self):
        traits = self.traits()
        self.assertIn('CUSTOM_RT_LIMIT', traits)
        self.assertNotIn('CUSTOM_RT_GUARANTEE', traits)
        total = self.computes['compute1'].driver._rt_host.capacity().total_ppm
        inventory = self.inventory()
        self.assertEqual(total, inventory['total'])
        self.assertEqual(1.0, inventory['allocation_ratio'])
        self.assertEqual(0, inventory['reserved'])

    def test_refused(self):
        """More than the sum of the host, and a guarantee."""
        self.create(self.rt_flavor('600/1000'))
        server = self.create(self.rt_flavor('600/1000'), state='ERROR')
        self.assertIn('600000', base.fault_of(server))
        self.assert_nothing_left(of=[server])
        flavor = self.rt_flavor('100/1000', enforcement='guarantee')
        server = self.create(flavor, state='ERROR')
        self.assert_nothing_left(of=[server])


class GuaranteeTest(base.RTServersTestBase):
    """Kernels that guarantee serve both kinds of flavor."""

    def test_both_kinds(self):
        self.start_compute()
        traits = self.traits()
        self.assertIn('CUSTOM_RT_LIMIT', traits)
        self.assertIn('CUSTOM_RT_GUARANTEE', traits)
        self.create(self.rt_flavor(enforcement='limit'))
        self.create(self.rt_flavor(enforcement='guarantee'))

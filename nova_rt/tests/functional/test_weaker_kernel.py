# SPDX-License-Identifier: Apache-2.0
"""A host boots a kernel that does less than its servers were sold."""

import errno

from nova_rt import events
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.functional import base
from nova_rt.virt.libvirt import host_boot


class WeakerKernelTest(base.RTServersTestBase):
    ADMIN_API = True
    REFUSAL_DETAILS = 'modest'
    # What fails in the compute is no error of nova-api.
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.server = self.create(self.rt_flavor('400/1000'))
        self.right = self.kernels['compute1']

    def reboot_host(self, machine):
        """Boot another kernel; nothing runs then."""
        for each in self.running:
            self.guest(each)._domain.destroy()
        self.kernels['compute1'] = machine
        self.restart_compute_service('compute1')

    def boot_weaker(self):
        self.reboot_host(
            self.useFixture(kernel.make('v1-throttle', cpus=self.CPUS))
        )

    def start(self, result):
        self.api.post_server_action(self.server['id'], {'os-start': None})
        return self._wait_for_instance_action_event(
            self.server, 'start', 'compute_start_instance', result
        )

    def test_is_not_started_until_the_right_kernel_is_back(self):
        self.running = []
        self._stop_server(self.server)
        self.boot_weaker()
        log = self.stdlog.logger.output
        self.assertIn('1 real-time server(s) of this host were sold', log)
        self.assertIn(self.server['id'], log)
        seen = self.listen()
        event = self.start('error')
        self.assertIn('cannot be guaranteed now', event['details'])
        self.assertEqual([], self.groups())
        self.assertEqual(set(), self.mounted)
        self.assertEqual(
            [], [e for e in seen if isinstance(e, events.Applied)]
        )
        # It keeps its claim, and other servers of this host are started.
        self.assertIn(self.server['id'], self.claims())
        self.reboot_host(self.right)
        self.start('success')
        self.assert_held(self.server)

    def test_is_not_resumed(self):
        self.flags(resume_guests_state_on_host_boot=True)
        self.running = [self.server]
        self.boot_weaker()
        server = self._wait_for_state_change(self.server, 'ERROR')
        self.assertIn('cannot be guaranteed now', base.fault_of(server))
        self.running = []
        self.reboot_host(self.right)
        self._wait_for_state_change(server, 'ACTIVE')
        self.assert_held(server)
        self.assertNotIn(host_boot.KEY, self.instance(server).system_metadata)

    def test_is_started_elsewhere(self):
        """Its refusal is over: no later error is taken for it."""
        self.flags(resume_guests_state_on_host_boot=True)
        self.running = [self.server]
        self.boot_weaker()
        self._wait_for_state_change(self.server, 'ERROR')
        self.assertIn(
            host_boot.KEY, self.instance(self.server).system_metadata
        )
        self.start_compute('compute2')
        self.computes['compute1'].stop()
        services = self.api.get_services(host='compute1')
        self.api.put_service_force_down(services[0]['id'], True)
        server = self._evacuate_server(self.server, expected_state='ACTIVE')
        instance = self.instance(server)
        self.assertEqual('compute2', instance.host)
        self.assertNotIn(host_boot.KEY, instance.system_metadata)

    def test_is_refused_by_the_kernel_at_boot(self):
        """The user reads why, as of any other start."""
        self.flags(resume_guests_state_on_host_boot=True)
        self.running = [self.server]
        refusing = self.useFixture(kernel.make(self.INTERFACE, cpus=self.CPUS))
        refusing.refuse(errno.EINVAL)
        self.reboot_host(refusing)
        server = self._wait_for_state_change(self.server, 'ERROR')
        self.assertEqual(
            'the host cannot hold the reservation', base.fault_of(server)
        )

    def test_server_that_was_sold_a_limit(self):
        limited = self.create(self.rt_flavor('300/1000', enforcement='limit'))
        self._stop_server(limited)
        self.running = []
        self._stop_server(self.server)
        self.boot_weaker()
        self.server = limited
        self.start('success')
        self.assert_held(limited)

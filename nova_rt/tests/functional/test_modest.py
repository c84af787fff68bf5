# SPDX-License-Identifier: Apache-2.0
"""Messages about errors to users and administrators, by default."""

import errno
import json
from unittest import mock

from nova import objects

from nova_rt.compute import stopped
from nova_rt.tests.functional import base

# What no user is to know: what is free, of how many hosts, files, answers of
# the kernel and CPUs.
PRIVATE = (
    r'free \d|host\(s\)|room for|only limit|/|\bE[A-Z]{3,}\b|cgroup|lxc|'
    r'Placement|RTBandwidthFilter|Traceback'
)


class ModestTest(base.RTServersTestBase):
    REFUSAL_DETAILS = 'modest'
    # What fails in the compute is no error of nova-api.
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        self.start_compute()

    def assert_told(self, server, user, administrator):
        """Look at all that Nova says of a server in ERROR.

        :param user: the whole message of the fault
        :param administrator: a part of what only administrators read
        """
        found = self.api.get_server(server['id'])
        self.assertEqual('ERROR', found['status'])
        self.assertEqual(user, found['fault']['message'])
        self.assertNotRegex(found['fault']['message'], PRIVATE)
        self.assertNotIn('details', found['fault'])
        found = self.admin_api.get_server(server['id'])
        self.assertEqual(user, found['fault']['message'])
        self.assertIn(administrator, found['fault']['details'])
        self.assertIn(administrator, self.stdlog.logger.output)
        self.assert_actions_say_nothing(server, administrator)

    def assert_actions_say_nothing(self, server, private):
        uri = f'/servers/{server["id"]}/os-instance-actions'
        for action in self.api.get_instance_actions(server['id']):
            found = self.api.api_get(f'{uri}/{action["request_id"]}').body
            text = json.dumps(found)
            self.assertNotIn(private, text)
            self.assertNotIn('Traceback', text)

    def notified(self, event_type):
        """The fault in the last versioned notification of a type."""
        *_, last = self.notifier.wait_for_versioned_notifications(event_type)
        fault = last['payload']['nova_object.data']['fault']
        return fault['nova_object.data']

    def test_no_room(self):
        """The scheduler refuses it, and then the claim."""
        for _ in range(4):
            self.create(self.rt_flavor('500/1000'))
        flavor = self.rt_flavor('600/1000')
        private = f'free {self.capacity()[0] - 500_000}'
        self.assert_told(
            self.create(flavor, state='ERROR'),
            'No valid host was found. RT bandwidth: asked 600000 ppm on each '
            'of 1 CPU(s), which is not free',
            private,
        )
        self.forget_filters()
        self.assert_told(
            self.create(flavor, state='ERROR'),
            'Insufficient compute resources: RT bandwidth: asked 600000 ppm '
            'on each of 1 CPU(s), which is not free.',
            f'{private} ppm',
        )
        fault = self.notified('instance.create.error')
        self.assertNotIn(private, fault['exception_message'])
        # The bus is the operator's.
        self.assertIn(private, fault['traceback'])

    def test_claim_without_allocation(self):
        self.stub_out('nova.scheduler.request_filter.ALL_REQUEST_FILTERS', [])
        self.forget_filters()
        self.assert_told(
            self.create(self.rt_flavor(), state='ERROR'),
            'Insufficient compute resources: '
            'the reservation is not available.',
            'Placement holds 0 CUSTOM_RT_BANDWIDTH',
        )

    def test_kernel_refuses(self):
        """A first start, and another one."""
        server = self.create(self.rt_flavor())
        self.refuse_writes(errno.EINVAL)
        refused = self.create(self.rt_flavor(), state='ERROR')
        self.ask_for(server, 'reboot', {'type': 'HARD'}, 'ERROR')
        for each in refused, server:
            self.assert_told(
                each, 'the host cannot hold the reservation', 'EINVAL'
            )

    def test_error_of_others(self):
        """As for any server, Nova shows the class of such errors alone."""
        host = self.computes['compute1'].driver._rt_host
        host.apply = mock.Mock(side_effect=RuntimeError('/dev/secret'))
        self.assert_told(
            self.create(self.rt_flavor(), state='ERROR'),
            'RuntimeError',
            '/dev/secret',
        )

    def test_stopped_while_it_ran(self):
        server = self.create(self.rt_flavor())
        self.lose_reservation(server)
        self.refuse_writes(errno.EBUSY)
        for _ in range(2):
            self.verify()
        event = self._wait_for_instance_action_event(
            server, 'stop', stopped.EVENT, 'error'
        )
        self.assertEqual(
            'the host cannot hold the reservation', event['details']
        )
        fault = self.notified('instance.power_off.error')
        self.assertNotRegex(fault['exception_message'], PRIVATE)
        self.assertIn('EBUSY', fault['traceback'])
        stored = objects.InstanceFault.get_latest_for_instance(
            self.ctxt, server['id']
        )
        self.assertEqual(
            'the host cannot hold the reservation', stored.message
        )
        self.assertIn('EBUSY', stored.details)
        self.assert_actions_say_nothing(server, 'EBUSY')

    def test_what_the_user_wrote(self):
        """Nothing of it is hidden."""
        self.skip_api_filter()
        server = self.create(
            self.rt_flavor('1400/2000'), '1500/2000', state='ERROR'
        )
        self.assertIn('700000', base.fault_of(server))

# SPDX-License-Identifier: Apache-2.0
"""Actions that are refused to real-time servers, which run on untouched."""

import json

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc

from nova_rt_tempest_plugin.tests import base

CONF = config.CONF

CANNOT_GO_LIVE = 'use cold migration'


class RefusedActionsTest(base.RTTest):
    """Each leaves the server ACTIVE, its reservation held, and a reason."""

    def setUp(self):
        super().setUp()
        self.server = self.boot()['id']
        self.cpus = self.assert_agree(self.server)
        self.first = self._first_process()

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('390cf84e-5d7b-4c86-b90a-8b3d4e5a6b76')
    def test_what_containers_cannot_do(self):
        self._refused('cannot be saved', 'suspend')
        self._refused('no second root disk', 'rescue')

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('8e514d93-a2c0-41db-ae5f-d08293afb0cb')
    def test_live_migration(self):
        self._refused(
            CANNOT_GO_LIVE,
            'os-migrateLive',
            {'host': None, 'block_migration': 'auto'},
            admin=True,
            moves=True,
        )

    def _refused(self, words, action, value=None, *, admin=False, moves=False):
        """Ask for an action; see its reason, and the server as before.

        :param moves: it needs another host, and is refused before that where
            the cloud has no other
        """
        known = self._requests()
        client = self.admin_servers if admin else self.servers
        try:
            # Not action(): it expects an answer without a body of all.
            client.post(
                f'servers/{self.server}/action', json.dumps({action: value})
            )
        except lib_exc.BadRequest as err:
            self.assertTrue(moves, self.message(err))
            self.assertIn('No valid host', self.message(err))
        else:
            (request,) = self._requests() - known
            self._wait_for_reason(request, words, moves)
        self.reach(self.server, 'ACTIVE')
        self.assertEqual(self.cpus, self.assert_agree(self.server))
        self.assertEqual(self.first, self._first_process())

    def _requests(self):
        found = self.admin_servers.list_instance_actions(self.server)
        return {each['request_id'] for each in found['instanceActions']}

    def _wait_for_reason(self, request, words, moves):
        wanted = (words, 'No valid host') if moves else (words,)

        def known():
            found = self.admin_servers.show_instance_action(
                self.server, request
            )['instanceAction']
            # An event has details once it has failed.
            texts = [each.get('details') or '' for each in found['events']]
            self.texts = [*texts, found['message'] or '']
            return any(word in text for word in wanted for text in self.texts)

        self.texts = []
        try:
            self.wait_for(known, 'no reason')
        except self.failureException:
            self.fail(f'none of {wanted} in {self.texts}')

    def _first_process(self):
        if CONF.nova_rt.host_access == 'none':
            return None
        return self.container(self.server).first_process()


class NoHostTest(base.RTTest):
    """Servers that no host takes, and their faults."""

    VCPUS = 512

    def refused_everywhere(self, reservation):
        """Ask for more CPUs than a host has, and than VCPUs have a limit."""
        specs = self.rt_specs(reservation) | {'resources:VCPU': '0'}
        return self.refused(flavor=self.flavor(specs, self.VCPUS))

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('b1847ec6-d5f3-440e-9182-03b5c6d2e3fe')
    def test_more_cpus_than_any_host(self):
        reservation = CONF.nova_rt.small_reservation
        fault = self.refused_everywhere(reservation)
        self.assertIn(f'each of {self.VCPUS} CPU(s)', fault)
        self.assertIn(f'asked {base.ppm(reservation)} ppm', fault)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('c2958fd7-e604-451f-a293-14c6d7e3f40f')
    def test_more_than_a_cpu(self):
        """The whole of every CPU is more than any host offers."""
        _, period = CONF.nova_rt.reservation.split('/')
        fault = self.refused_everywhere(f'{period}/{period}')
        self.assertIn('asked 1000000 ppm', fault)
        if CONF.nova_rt.refusal_details == 'modest':
            self.assertNotIn('free ', fault.replace('not free', ''))

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('d3a690e8-f715-4620-b3a4-25d7e8f40510')
    def test_guarantee_that_no_kernel_gives(self):
        for provider in self.rt_providers().values():
            found = self.providers.list_resource_provider_traits(provider)
            if base.GUARANTEE in found['traits']:
                self.skipTest('a host guarantees')
        specs = self.rt_specs(CONF.nova_rt.reservation)
        flavor = self.flavor(specs | {'rt:enforcement': 'guarantee'})
        self.assertIn('No valid host', self.refused(flavor=flavor))

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('e4b7a1f9-0826-4731-84b5-36e8f9051621')
    def test_policy_that_user_namespaces_forbid(self):
        """Programs in it could not use the reservation."""
        if not CONF.nova_rt.user_namespaces:
            self.skipTest('[nova_rt] user_namespaces is not set')
        fault = self.refused(flavor=self.rt_flavor(policy='other'))
        self.assertIn('user namespace', fault)

# SPDX-License-Identifier: Apache-2.0
"""Bad decisions of others, and the compute service's answer to them."""

import fixtures
from nova import exception as nova_exception

from nova_rt.tests.functional import base


class NotAdmittedTest(base.RTServersTestBase):
    """A scheduler without our filter asks Placement for no bandwidth."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.scheduler.request_filter.ALL_REQUEST_FILTERS', []
            )
        )
        self.scheduler.manager.host_manager.enabled_filters = []

    def test_no_allocation(self):
        refused = self.create(self.rt_flavor('600/1000'), state='ERROR')
        fault = base.fault_of(refused)
        self.assertIn('Placement holds 0', fault)
        self.assertIn('600000', fault)
        self.assertEqual([], self.containers.started)
        self.assert_nothing_left(of=[refused])

    def test_too_small_an_allocation(self):
        flavor = self.rt_flavor('600/1000')
        self.admin_api.post_extra_spec(
            flavor,
            {'extra_specs': {'resources:CUSTOM_RT_BANDWIDTH': '500000'}},
        )
        refused = self.create(flavor, state='ERROR')
        self.assertIn('Placement holds 500000', base.fault_of(refused))
        self.assert_nothing_left(of=[refused])

    def test_the_flavor_asks_for_it(self):
        flavor = self.rt_flavor('600/1000')
        self.admin_api.post_extra_spec(
            flavor,
            {'extra_specs': {'resources:CUSTOM_RT_BANDWIDTH': '600000'}},
        )
        self.assert_held(self.create(flavor))


class ServerGroupTest(base.RTServersTestBase):
    """Another server of the group was faster to this host."""

    def setUp(self):
        super().setUp()
        self.start_compute('compute1')

    def violate(self, hosts):
        def validate(manager, context, instance, *args, **kwargs):
            if manager.host in hosts:
                raise nova_exception.GroupAffinityViolation(
                    instance_uuid=instance.uuid, policy='Anti-affinity'
                )

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.compute.manager.ComputeManager.'
                '_validate_instance_group_policy',
                validate,
            )
        )

    def test_on_the_only_host(self):
        self.violate({'compute1'})
        server = self.create(self.rt_flavor(), state='ERROR')
        self.assertIn('Anti-affinity', base.fault_of(server))
        self.assert_nothing_left(of=[server])
        self._run_periodics()
        # Else BuildFailureWeigher holds it against the host.
        self.assertEqual('0', self.stats().get('failed_builds', '0'))

    def test_the_next_host_takes_it(self):
        self.start_compute('compute2')
        self.create(self.rt_flavor('100/1000'))
        self.violate({'compute1'})
        server = self.create(self.rt_flavor())
        self.assertEqual('compute2', self.instance(server).host)
        self.assert_held(server, 'compute2')

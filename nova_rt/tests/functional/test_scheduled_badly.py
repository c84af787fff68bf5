# SPDX-License-Identifier: Apache-2.0
"""Bad decisions of others, and the compute service's answer to them."""

from nova import exception as nova_exception

from nova_rt.tests.functional import base


class NotAdmittedTest(base.RTServersTestBase):
    """A scheduler without our filter asks Placement for no bandwidth."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.stub_out('nova.scheduler.request_filter.ALL_REQUEST_FILTERS', [])
        self.forget_filters()

    def test_allocations(self):
        """None, too small an one, and one that the flavor asks for."""
        for asked, held in (None, 0), (500_000, 500_000), (600_000, None):
            flavor = self.rt_flavor('600/1000')
            if asked:
                specs = {'resources:CUSTOM_RT_BANDWIDTH': str(asked)}
                self.admin_api.post_extra_spec(flavor, {'extra_specs': specs})
            if held is None:
                self.assert_held(self.create(flavor))
                break
            refused = self.create(flavor, state='ERROR')
            fault = base.fault_of(refused)
            self.assertIn(f'Placement holds {held}', fault)
            self.assertIn('600000', fault)
            self.assertEqual([], self.containers.started)
            self.assert_nothing_left(of=[refused])


class ServerGroupTest(base.RTServersTestBase):
    """Another server of the group was faster to this host."""

    def test_it(self):
        self.start_compute('compute1')
        violating = {'compute1'}

        def validate(manager, context, instance, *args, **kwargs):
            if manager.host in violating:
                raise nova_exception.GroupAffinityViolation(
                    instance_uuid=instance.uuid, policy='Anti-affinity'
                )

        self.stub_out(
            'nova.compute.manager.ComputeManager.'
            '_validate_instance_group_policy',
            validate,
        )
        server = self.create(self.rt_flavor(), state='ERROR')
        self.assertIn('Anti-affinity', base.fault_of(server))
        self.assert_nothing_left(of=[server])
        self._run_periodics()
        # Else BuildFailureWeigher holds it against the host.
        self.assertEqual('0', self.stats().get('failed_builds', '0'))
        # The next host takes it.
        self.start_compute('compute2')
        violating.clear()
        self.create(self.rt_flavor('100/1000'))
        violating.add('compute1')
        server = self.create(self.rt_flavor())
        self.assertEqual('compute2', self.instance(server).host)
        self.assert_held(server, 'compute2')

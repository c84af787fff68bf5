# SPDX-License-Identifier: Apache-2.0
"""A project gets no more bandwidth than its limit, from Keystone to Nova."""

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc

from nova_rt_tempest_plugin.tests import base

CONF = config.CONF

RESOURCE = f'class:{base.BANDWIDTH}'


class BandwidthLimitTest(base.RTTest):
    """A project of its own, with room for one server and a half."""

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.nova_rt.unified_limits:
            raise cls.skipException('[nova_rt] unified_limits is not set')
        if not CONF.auth.use_dynamic_credentials:
            raise cls.skipException(
                '[auth] use_dynamic_credentials is not set: it limits the '
                'project of its user'
            )

    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        cls.ppm = base.ppm(CONF.nova_rt.reservation)
        cls.limit = cls.ppm * 3 // 2
        client = cls.os_admin.identity_limits_client
        known = client.get_registered_limits()['registered_limits']
        registered = [
            each for each in known if each['resource_name'] == RESOURCE
        ]
        if not registered:
            raise cls.skipException(f'no limit is registered for {RESOURCE}')
        (made,) = client.create_limit(
            registered[0]['region_id'],
            registered[0]['service_id'],
            cls.os_primary.credentials.project_id,
            RESOURCE,
            cls.limit,
        )['limits']
        cls.addClassResourceCleanup(client.delete, f'limits/{made["id"]}')

    @decorators.idempotent_id('a0736fb5-c4e2-43fd-a071-f2a4b5c1d2ed')
    def test_refused_until_something_is_deleted(self):
        flavor = self._flavor(CONF.nova_rt.reservation)
        server = self.boot_flavor(flavor)
        error = self.assertRaises(lib_exc.Forbidden, self.boot_flavor, flavor)
        self.assertIn(
            f'Resource {RESOURCE} is over limit of {self.limit} due to '
            f'current usage {self.ppm} and delta {self.ppm}',
            self.message(error),
        )
        # Half of that fits, and plain servers do not count.
        self.boot_flavor(self._flavor(CONF.nova_rt.small_reservation))
        self.plain()
        self.delete(server['id'])
        self.boot_flavor(flavor)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('b18470c6-d5f3-440e-b182-03b5c6d2e3fe')
    def test_a_hint_does_not_get_around_it(self):
        """Limit that counts the flavor: less by a hint does not help."""
        if CONF.nova_rt.hints == 'deny':
            self.skipTest('[nova_rt] hints is deny')
        twice = base.times(CONF.nova_rt.reservation, 2)
        self.assertRaises(
            lib_exc.Forbidden,
            self.boot_flavor,
            self._flavor(twice),
            hint=CONF.nova_rt.small_reservation,
        )

    def _flavor(self, reservation):
        return self.flavor(
            self.rt_specs(reservation) | self.counted_specs(reservation)
        )

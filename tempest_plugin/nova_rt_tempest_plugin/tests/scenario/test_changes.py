# SPDX-License-Identifier: Apache-2.0
"""A change for which its host has no room, through nova-rt-api."""

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc
import testtools

from nova_rt_tempest_plugin import api
from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.scenario import capacity

CONF = config.CONF


@decorators.serial
class NoRoomTest(capacity.HostTest):
    """A host that another server fills."""

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.nova_rt.api:
            raise cls.skipException('[nova_rt] api is not set')

    def setUp(self):
        super().setUp()
        self.api = api.ReservationsClient(self.os_admin)
        self.small = CONF.nova_rt.small_reservation
        self.server = self.boot_there(self.small)['id']
        self.more = base.times(CONF.nova_rt.reservation, 1.5)

    def fill(self):
        """Leave less than is going to be asked for."""
        made = []
        step = base.ppm(self.more) - base.ppm(self.small)
        while self.free().most() >= step:
            most = self.free().most()
            made.append(self.boot_there(capacity.of(most))['id'])
        return made

    def condition(self):
        return self.api.show(self.server)[1]['condition']

    def wait_for_condition(self, wanted):
        self.wait_until_equal(
            wanted, lambda: self.condition()['type'], 'condition'
        )
        return self.condition()

    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a108')
    def test_fail(self):
        """It is refused with the numbers of the host."""
        self.fill()
        self.api.set(self.server, self.more)
        found = self.wait_for_condition('Infeasible')
        self.assertEqual(base.ppm(self.more), found['asked_ppm'])
        self.assertLess(found['free_ppm'], found['asked_ppm'])
        self.reach(self.server, 'ACTIVE')
        self.assert_agree(self.server, self.small)

    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a109')
    def test_defer(self):
        """It comes when another server is deleted."""
        others = self.fill()
        self.api.set(self.server, self.more, on_no_room='defer')
        self.wait_for_condition('Deferred')
        self.assert_agree(self.server, self.small)
        for each in others:
            self.delete(each)
        self.wait_for_condition('Applied')
        self.reach(self.server, 'ACTIVE')
        self.assert_agree(self.server, self.more)

    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a110')
    @testtools.skipUnless(
        CONF.compute_feature_enabled.cold_migration,
        '[compute-feature-enabled] cold_migration is off',
    )
    def test_migrate(self):
        """The server moves to a host that has room."""
        self.fill()
        try:
            self.api.set(self.server, self.more, on_no_room='migrate')
        except lib_exc.BadRequest as err:
            raise self.skipException(f'without credentials: {err}') from err
        self.wait_for_condition('Applied')
        found = self.reach(self.server, 'ACTIVE')
        self.assertNotEqual(self.there.name, found['OS-EXT-SRV-ATTR:host'])
        self.assert_agree(self.server, self.more)

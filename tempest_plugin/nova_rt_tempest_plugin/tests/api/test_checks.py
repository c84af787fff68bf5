# SPDX-License-Identifier: Apache-2.0
"""The tests' own checks can fail: each sees a fault when there is one.

A check that always passes says nothing. Here each of the things
that it looks at is damaged by hand, and mended afterwards.
"""

import json
import uuid

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin.tests import base

CONF = config.CONF


class AgreementTest(base.RTTest):
    """``assert_agree`` sees each kind of damage."""

    NEEDS_HOSTS = True

    def setUp(self):
        super().setUp()
        self.server = self.boot()['id']
        self.assert_agree(self.server)
        self.found = self.container(self.server)

    @decorators.idempotent_id('f5c8b20a-1937-4842-95c6-47f90a162732')
    def test_kernel_holds_less(self):
        self.addCleanup(self.found.set_held, CONF.nova_rt.reservation)
        self._assert_seen(
            lambda: self.found.set_held(
                base.times(CONF.nova_rt.reservation, 0.5)
            ),
            f'{base.times(CONF.nova_rt.reservation, 0.5)}',
        )

    @decorators.idempotent_id('06d9c31b-2a48-4953-a6d7-580a1b273843')
    def test_process_is_not_real_time(self):
        first = str(self.found.first_process())
        host = self.found.host
        self.addCleanup(host.run, 'chrt', '--rr', '--pid', '1', first)
        self._assert_seen(
            lambda: host.run('chrt', '--other', '--pid', '0', first),
            "('other', 0)",
        )

    @decorators.idempotent_id('17ead42c-3b59-4a64-b7e8-691b2c384954')
    def test_placement_holds_less(self):
        own = base.ppm(CONF.nova_rt.reservation)
        self.addCleanup(self._allocate, own)
        self._assert_seen(lambda: self._allocate(own // 2), str(own // 2))

    @decorators.idempotent_id('28fbe53d-4c6a-4b75-88f9-7a2c3d495a65')
    def test_another_reservation_is_reported(self):
        if not (CONF.nova_rt.manage_command or CONF.nova_rt.exporter_url):
            self.skipTest('neither the database nor the exporter is asked')
        other = base.times(CONF.nova_rt.reservation, 0.5)
        # As if the kernel and Placement had changed together.
        self.settle_s = 3
        self.assertRaises(
            self.failureException,
            self.assert_reported,
            self.server,
            other,
            self.found.cpus(),
        )

    def _assert_seen(self, damage, words):
        """The check fails, with its finding.

        nova-rt-compute repairs servers at times: it may be the first to see
        the damage, but not three times in a row.
        """
        for _ in range(3):
            damage()
            try:
                self.assert_agree(self.server)
            except self.failureException as err:
                self.assertIn(words, str(err))
                return
        self.fail('not seen')

    def _allocate(self, amount):
        """Write an allocation of other bandwidth into Placement."""
        url = f'/allocations/{self.server}'
        found = dict(self.placement.list_allocations(self.server))
        for provider in found['allocations'].values():
            provider['resources'][base.BANDWIDTH] = amount
            del provider['generation']
        self.placement.put(url, json.dumps(found))


class NothingLeftTest(base.RTTest):
    """``assert_nothing_left`` sees remains."""

    @decorators.idempotent_id('390cf64e-5d7b-4c86-990a-8b3d4e5a6b76')
    def test_a_port(self):
        server = str(uuid.uuid4())
        client = self.os_admin.ports_client
        port = client.create_port(
            network_id=self.network_id(), device_id=server
        )['port']['id']
        self.addCleanup(client.delete_port, port)
        self.assertEqual((port,), self.look(server).ports)

    @decorators.idempotent_id('4a1d075f-6e8c-4d97-aa1b-9c4e5f6b7c87')
    def test_a_server(self):
        server = self.boot()['id']
        left = self.look(server)
        self.assertNotEqual((), left.allocations)
        if CONF.nova_rt.host_access != 'none':
            self.assertTrue(left.domain)

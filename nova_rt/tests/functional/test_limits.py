# SPDX-License-Identifier: Apache-2.0
"""Unified limits on bandwidth: what nova-api counts, and says."""

from nova.limit import local as local_limit
from nova.tests.functional.api import client
from oslo_limit import fixture as limit_fixture

from nova_rt.reservation import extra_specs, resources
from nova_rt.reservation.request import Request
from nova_rt.tests.functional import base

LIMIT = f'class:{extra_specs.RESOURCE_CLASS}'


class BandwidthLimitTest(base.RTServersTestBase):
    """A project may hold one CPU; the host has four."""

    def setUp(self):
        super().setUp()
        self.flags(driver='nova.quota.UnifiedLimitsDriver', group='quota')
        registered = {
            local_limit.SERVER_METADATA_ITEMS: 128,
            local_limit.INJECTED_FILES: 5,
            local_limit.INJECTED_FILES_CONTENT: 10 * 1024,
            local_limit.INJECTED_FILES_PATH: 255,
            'servers': 10,
            'class:VCPU': 10,
            'class:MEMORY_MB': 10_000,
            'class:DISK_GB': 1_000,
            LIMIT: 1_000_000,
        }
        self.useFixture(limit_fixture.LimitFixture(registered, {}))
        self.start_compute()

    def flavor(self, reservation, vcpus=1):
        """A flavor as the manual has it made."""
        specs = {extra_specs.RESERVATION: reservation}
        request = Request.from_flavor(specs, vcpus)
        return self._create_flavor(
            memory_mb=64, vcpu=vcpus, disk=10, ephemeral=0,
            extra_spec=specs | resources.ask(request),
        )  # fmt: skip

    def assert_over_limit(self, flavor, current_ppm, delta_ppm):
        refusal = self.assertRaises(
            client.OpenStackApiException,
            self.api.post_server,
            self.server_request(flavor),
        )
        self.assertEqual(403, refusal.response.status_code)
        self.assertIn(
            f'Resource {LIMIT} is over limit of 1000000 due to current usage '
            f'{current_ppm} and delta {delta_ppm}',
            refusal.response.text,
        )

    def test_refused_with_the_numbers(self):
        """Each vCPU counts, and what is deleted counts no more."""
        flavor = self.flavor('300/1000', vcpus=2)
        server = self.create(flavor)
        self.assert_over_limit(flavor, 600_000, 600_000)
        self.create(self.flavor('400/1000'))
        self.assert_over_limit(self.flavor('2/1000'), 1_000_000, 2_000)
        self._delete_server(server)
        self._delete_server(self.create(flavor))
        # A hint asks for less, and no more than that is held; a plain server
        # is not counted.
        refusal = self.assertRaises(
            client.OpenStackApiException,
            self.api.post_server,
            self.server_request(flavor, '900/1000'),
        )
        self.assertEqual(400, refusal.response.status_code)
        self.create(flavor, '100/1000')
        self.assert_over_limit(self.flavor('950/1000'), 600_000, 950_000)
        self.create(self.plain_flavor())

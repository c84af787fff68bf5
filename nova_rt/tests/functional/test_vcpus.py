# SPDX-License-Identifier: Apache-2.0
"""Real-time servers and plain ones do not take each other's CPUs."""

from nova.tests.functional.api import client

from nova_rt.tests.functional import base


class SharedSetTest(base.RTServersTestBase):
    """A host set up as the manual says: few CPUs for plain servers."""

    def setUp(self):
        self.flags(cpu_shared_set='0', group='compute')
        self.flags(cpu_allocation_ratio=2.0)
        self.flags_of_ours(cpu_set='1-3')
        super().setUp()
        self.start_compute()
        self.plain = self._create_flavor(memory_mb=64, vcpu=1)
        self.assertEqual(1, self.inventory('VCPU')['total'])

    def inventory(self, resource_class):
        found = self._get_provider_inventory(self.compute_rp_uuids['compute1'])
        return found[resource_class]

    def vcpus_used(self):
        usages = self._get_provider_usages(self.compute_rp_uuids['compute1'])
        return usages['VCPU']

    def test_more_cpus_than_the_shared_set(self):
        """Neither max_unit nor the total of VCPU bounds it."""
        server = self.create(self.rt_flavor('600/1000', vcpus=3))
        rec = self.assert_held(server)
        self.assertEqual({1, 2, 3}, set(rec.cpus))
        self.assertEqual(0, self.vcpus_used())

    def test_plain_servers_fill_the_shared_set(self):
        for _ in range(2):
            self.create(self.plain)
        self.create(self.plain, state='ERROR')
        self.assertEqual(2, self.vcpus_used())
        self.assert_held(self.create(self.rt_flavor('600/1000', vcpus=2)))
        self.assertEqual(2, self.vcpus_used())

    def test_rt_servers_fill_the_bandwidth(self):
        flavor = self.rt_flavor('600/1000')
        for _ in range(3):
            self.create(flavor)
        self.create(flavor, state='ERROR')
        for _ in range(2):
            self.create(self.plain)
        self.assertEqual(2, self.vcpus_used())

    def test_flavor_that_asks_for_vcpus_itself(self):
        flavor = self._create_flavor(
            memory_mb=64,
            vcpu=3,
            extra_spec={
                'rt:reservation': '600/1000',
                'resources:VCPU': '3',
            },
        )
        self.assert_held(self.create(flavor))
        self.assertEqual(0, self.vcpus_used())


class QuotaTest(base.RTServersTestBase):
    """What the quota of cores counts, as the manual says."""

    def setUp(self):
        super().setUp()
        self.start_compute()

    def test_cores_are_the_flavors(self):
        self.flags(cores=2, group='quota')
        self.create(self.rt_flavor('100/1000', vcpus=2))
        self.assert_over_quota()

    def test_counted_from_placement(self):
        """Each request is held against the quota, but nothing adds up."""
        self.flags(cores=2, group='quota')
        self.flags(count_usage_from_placement=True, group='quota')
        flavor = self.rt_flavor('100/1000', vcpus=2)
        self.create(flavor)
        self.create(flavor)
        self.assert_over_quota(vcpus=3)

    def assert_over_quota(self, vcpus=1):
        refusal = self.assertRaises(
            client.OpenStackApiException,
            self.api.post_server,
            self.server_request(self.rt_flavor('100/1000', vcpus=vcpus)),
        )
        self.assertEqual(403, refusal.response.status_code)
        self.assertIn('Quota exceeded for cores', refusal.response.text)

# SPDX-License-Identifier: Apache-2.0
"""Real-time servers and plain ones do not take each other's CPUs."""

from nova.tests.functional.api import client

from nova_rt.reservation import node_stats
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
        self.assertEqual(1, self.inventory(name='VCPU')['total'])

    def vcpus_used(self):
        usages = self._get_provider_usages(self.compute_rp_uuids['compute1'])
        return usages['VCPU']

    def test_more_cpus_than_the_shared_set(self):
        """Neither max_unit nor the total of VCPU bounds it."""
        server = self.create(self.rt_flavor('600/1000', vcpus=3))
        rec = self.assert_held(server)
        self.assertEqual({1, 2, 3}, set(rec.cpus))
        self.assertEqual(0, self.vcpus_used())

    def test_each_fills_its_own(self):
        """Plain servers the shared set, the others the bandwidth."""
        for _ in range(2):
            self.create(self.plain)
        self.create(self.plain, state='ERROR')
        self.assertEqual(2, self.vcpus_used())
        flavor = self.rt_flavor('600/1000')
        for _ in range(3):
            self.assert_held(self.create(flavor))
        self.create(flavor, state='ERROR')
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


class OverlapTest(base.RTServersTestBase):
    def test_power_management(self):
        """Nova would switch the CPUs of reservations off."""
        self.flags(cpu_dedicated_set='2-3', group='compute')
        self.flags(cpu_power_management=True, group='libvirt')
        self.flags_of_ours(cpu_set='1-2', smt=True)
        self.assert_not_started(
            'cpu_set = 1-2', '2 are in [compute] cpu_dedicated_set',
            'cpu_power_management',
        )  # fmt: skip

    def test_everything_is_given_to_others(self):
        self.flags(cpu_shared_set='0-3', group='compute')
        self.assert_not_started('no CPU is left', '0-3 are in [compute]')


class QuotaTest(base.RTServersTestBase):
    """The quota of cores counts what the manual says."""

    def setUp(self):
        super().setUp()
        self.start_compute()

    def test_cores_are_the_flavors(self):
        """Counted from Placement, each request is held, but no sum."""
        self.flags(cores=2, group='quota')
        flavor = self.rt_flavor('100/1000', vcpus=2)
        self.create(flavor)
        self.assert_over_quota()
        self.flags(count_usage_from_placement=True, group='quota')
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


class NodesTest(base.RTServersTestBase):
    """A host with two NUMA nodes, whose CPUs are numbered in turn."""

    CPUS = 6
    NODES = ((0, 2, 4), (1, 3, 5))

    def setUp(self):
        super().setUp()
        self.start_compute()

    def cpus_of(self, vcpus, reservation='400/1000', **specs):
        server = self.create(self.rt_flavor(reservation, vcpus, **specs))
        return self.assert_held(server).cpus

    def published_nodes(self):
        return node_stats.parse(self.stats()).nodes

    def test_one_node_first(self):
        self.assertEqual({0: (0, 2, 4), 1: (1, 3, 5)}, self.published_nodes())
        self.assertEqual((0, 2), self.cpus_of(2))
        self.assertEqual((1, 3), self.cpus_of(2, numa='same'))
        # 4 and 5 are the emptiest.
        self.assertEqual((4, 5), self.cpus_of(2, numa='any'))
        self.assertEqual((0,), self.cpus_of(1, numa='same'))

    def test_fallback(self):
        self.assertEqual((0, 1, 2, 3), self.cpus_of(4))

    def test_refused(self):
        """By the scheduler, and by the claim if the host is chosen without."""
        self.cpus_of(1, '600/1000')
        self.cpus_of(1, '600/1000')
        flavor = self.rt_flavor('400/1000', 3, numa='same')
        seen = self.listen()
        fault = base.fault_of(self.create(flavor, state='ERROR'))
        self.assertIn('asked 400000 ppm on each of 3 CPU(s)', fault)
        self.assertIn('rt:numa=same', fault)
        self.assertIn('node 0 300000, node 1 300000', fault)
        self.assertEqual([], seen)
        self.forget_filters()
        refused = self.create(flavor, state='ERROR')
        self.assertIn('node 0 300000, node 1 300000', base.fault_of(refused))
        self.assert_nothing_left(of=[refused])

    def test_several_servers_in_one_request(self):
        """The scheduler counts two, the third would need both nodes."""
        flavor = self.rt_flavor('600/1000', 2, numa='same')
        body = self.server_request(flavor, min_count=3, max_count=3)
        server = self._wait_for_state_change(
            self.api.post_server(body), 'ERROR'
        )
        self.assertIn('room for 2', base.fault_of(server))
        body = self.server_request(flavor, min_count=2, max_count=2)
        self.api.post_server(body)
        for server in self.api.get_servers():
            if server['status'] != 'ERROR':
                self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual(
            [(0, 2), (1, 3)],
            sorted(claim.cpus for claim in self.claims().values()),
        )


class HeuristicsTest(base.RTServersTestBase):
    """Options of compute hosts, which the scheduler does not read."""

    def test_best_fit(self):
        self.flags_of_ours(placement='best_fit')
        self.start_compute()
        stats = self.stats()
        self.assertEqual('best_fit', stats[node_stats.PLACEMENT])
        self.assertNotIn(node_stats.NODES, stats)
        small = self.rt_flavor('300/1000')
        large = self.rt_flavor('700/1000')
        cpus = [
            self.assert_held(self.create(flavor)).cpus
            for flavor in (large, small, small, large, small)
        ]
        # 0: 700, 1: 300 + 300, 2: 700, and the last beside the fullest.
        self.assertEqual([(0,), (1,), (1,), (2,), (1,)], cpus)

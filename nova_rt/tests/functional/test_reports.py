# SPDX-License-Identifier: Apache-2.0
"""A kernel that says what each CPU has, and what was used of it."""

import fixtures
from nova.tests.fixtures import libvirt as fakelibvirt

from nova_rt.tests.functional import base


class ReportsTest(base.RTServersTestBase):
    def setUp(self):
        super().setUp()
        self.start_compute()
        self.kernel = self.kernels['compute1']

    def _group(self, server):
        return self.kernel.group_of(self.guest(server).id)

    def _somebody_reserves(self, text, cpus):
        group = self.kernel.root / 'user'
        self.kernel.make_group(group)
        self.kernel.set_cpus(group, cpus)
        self.kernel.write(group / 'cpu.rt.max', text)

    def test_capability(self):
        self.assertEqual('guarantee', self.stats()['rt_enforcement'])
        self.assertEqual('v2-rt-max-cpu', self.stats()['rt_interface'])
        self.assertNotIn('rt_host_free', self.stats())
        self.assertEqual(dict.fromkeys(range(4), 900_000), self.published())
        self.assertEqual(3_600_000, self.inventory()['total'])
        # One server is bounded by the CPUs alone.
        self.assertEqual(2**31 - 1, self.inventory()['max_unit'])
        self.assertIn('CUSTOM_RT_GUARANTEE', self.traits())

    def test_more_than_one_cpus_worth(self):
        """Each CPU has a sum of its own."""
        flavor = self.rt_flavor('900/1000')
        servers = [self.create(flavor) for _ in range(4)]
        self.assertEqual(
            [(0,), (1,), (2,), (3,)],
            sorted(self.assert_held(server).cpus for server in servers),
        )
        self.assertEqual(dict.fromkeys(range(4), 0), self.published())
        fifth = self.create(flavor, state='ERROR')
        self.assert_nothing_left(of=[fifth])
        for server in servers:
            self._delete_server(server)
        self.assertEqual(dict.fromkeys(range(4), 900_000), self.published())

    def test_what_others_reserve_is_not_offered(self):
        self._somebody_reserves('800000 1000000', (0, 1))
        self._run_periodics()
        self.assertEqual(
            {0: 100_000, 1: 100_000, 2: 900_000, 3: 900_000}, self.published()
        )
        self.assertEqual(2_000_000, self.inventory()['total'])
        server = self.create(self.rt_flavor('500/1000', vcpus=2))
        self.assertEqual((2, 3), self.assert_held(server).cpus)

    def test_what_others_reserved_since(self):
        """The claim reads anew: no audit has seen it."""
        self._somebody_reserves('800000 1000000', (0, 1, 2))
        server = self.create(self.rt_flavor('500/1000'))
        self.assertEqual((3,), self.assert_held(server).cpus)
        server = self.create(self.rt_flavor('500/1000'), state='ERROR')
        self.assertIn('500000', base.fault_of(server))
        self.assert_nothing_left(of=[server])

    def test_others_take_what_is_left_of_everything(self):
        """Running servers go on; there is nothing for new ones."""
        server = self.create(self.rt_flavor('500/1000'))
        self.kernel.run_deadline_tasks(900_000)
        self._run_periodics(raise_on_error=True)
        self.assertEqual(dict.fromkeys(range(4), 0), self.published())
        inventory = self.inventory()
        self.assertEqual((1, 1), (inventory['total'], inventory['reserved']))
        self.assert_held(server)
        refused = self.create(self.rt_flavor('2/1000'), state='ERROR')
        self.assert_nothing_left(of=[refused])
        self.kernel.run_deadline_tasks(0)
        self._run_periodics()
        self.assertEqual(3_600_000, self.inventory()['total'])
        self._delete_server(server)
        self.assertEqual(0, self.used())

    def _diagnostics(self, server):
        # As libvirt-lxc: it has no virtual CPUs to tell of.
        def vcpus(domain):
            raise fakelibvirt.make_libvirtError(
                fakelibvirt.libvirtError, 'not supported', error_code=3
            )

        with fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.vcpus', vcpus
        ):
            return self.admin_api.api_get(
                f'/servers/{server["id"]}/diagnostics'
            ).body

    def test_diagnostics(self):
        server = self.create(self.rt_flavor('600/1000', vcpus=2))
        group = self._group(server)
        first, second = self.assert_held(server).cpus
        self.kernel.use(group, first, 10, 4, 5500)
        self.kernel.use(group, second, 3, 0, 77)
        # The kernel lists all on which it ran; the server holds two.
        self.kernel.use(group, 3, 10, 4, 999)
        found = self._diagnostics(server)
        self.assertEqual(2, found['num_cpus'])
        self.assertEqual(
            [(0, 5_500_000), (1, 77_000)],
            [(cpu['id'], cpu['time']) for cpu in found['cpu_details']],
        )
        (group / 'cpu.rt.stat').unlink()
        self.assertEqual(0, self._diagnostics(server)['num_cpus'])
        plain = self.create(self.plain_flavor())
        self.assertEqual(0, self._diagnostics(plain)['num_cpus'])

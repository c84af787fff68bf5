# SPDX-License-Identifier: Apache-2.0
"""Servers that use a pool of spare bandwidth: their life, and their moves."""

from nova_rt import events
from nova_rt.reservation import extra_specs
from nova_rt.tests.functional import base, moves

POOL = '1000/10000'
#: What a pool takes of each CPU.
POOL_PPM = 100_000


class SpareTest(moves.MovesTestBase):
    """Two hosts: each test chooses which of them have a pool."""

    REFUSAL_DETAILS = 'full'

    def setUp(self):
        self.pools = ('compute1', 'compute2')
        super().setUp()

    def start_compute(self, hostname='compute1', *args, **kwargs):
        pool = POOL if hostname in self.pools else None
        self.flags_of_ours(spare_pool=pool)
        return super().start_compute(hostname, *args, **kwargs)

    def restart_without_pool(self, *hosts):
        self.pools = ()
        self.flags_of_ours(spare_pool=None)
        for host in hosts:
            self.restart_compute_service(host)
            self.audit_host(host)

    def flavor(self, **specs):
        return self.rt_flavor(
            '40000/100000', **{'spare': POOL, 'policy': 'fifo', **specs}
        )

    def read(self, server, name='cpu.rt.spare'):
        """Read a file of the group with the server's reservation."""
        host = self.host_of(server)
        pid = self.guest(server, host).id
        group = self.kernels[host].group_of(pid)
        return (group / name).read_text().strip()

    def assert_served(self, server):
        rec = self.assert_held(server, self.host_of(server))
        self.assertEqual(POOL, str(rec.request.spare))
        self.assertEqual('2', self.read(server))
        self.assertIn('spare=1', self.read(server, 'cpu.rt.effective'))
        pid = self.guest(server, self.host_of(server)).id
        self.assertIn((pid, 2), self.priorities)
        return rec

    def test_inventory(self):
        """The pool is taken once from each CPU, and published."""
        for host in moves.HOSTS:
            self.assertIn(extra_specs.TRAIT_SPARE, self.traits(host))
            self.assertEqual(POOL, self.stats(host)['rt_spare'])
            self.assertEqual(
                self.CPUS * (900_000 - POOL_PPM),
                self.inventory(host)['total'],
            )

    def test_life(self):
        servers = [self.create(self.flavor()) for _ in range(2)]
        for server in servers:
            self.assert_served(server)
        # Their own bandwidth, and no more.
        self.assertEqual(800_000, sum(self.used(host) for host in moves.HOSTS))
        self._reboot_server(servers[0], hard=True)
        self.assert_served(servers[0])
        self.hard_reboot(servers[1])
        self.assert_served(servers[1])
        for server in servers:
            self._delete_server(server)
        self.assert_sums()
        # One of another flavor has none of it.
        self.priorities.clear()
        server = self.create(self.rt_flavor('40000/100000'))
        self.assertEqual('0', self.read(server))
        self.assertEqual([], self.priorities)

    def test_hosts_without_such_a_pool(self):
        self.restart_without_pool('compute1')
        self.assertNotIn(extra_specs.TRAIT_SPARE, self.traits('compute1'))
        for _ in range(3):
            server = self.create(self.flavor())
            self.assertEqual('compute2', self.host_of(server))
        server = self.create(self.flavor(spare='2000/10000'), state='ERROR')
        self.assertIn('this host has 1000/10000 us', base.fault_of(server))
        self.restart_without_pool(*moves.HOSTS)
        server = self.create(self.flavor(), state='ERROR')
        self.assertIn(
            'rt:spare=1000/10000 needs a pool of spare bandwidth that serves '
            '1000 us within 10000 us, and this host has none',
            base.fault_of(server),
        )

    def test_migrated(self):
        server = self.create(self.flavor())
        server = self.migrate(server)
        self.assert_served(server)
        self.audit()
        self.assert_stable(server)
        server = self.confirm(server)
        self.assert_served(server)
        self.assert_stable(server)

    def test_resized(self):
        """To a flavor with a pool, and back."""
        server = self.create(self.rt_flavor('40000/100000'))
        server = self.resize(server, self.flavor())
        self.assert_served(server)
        server = self.revert(server)
        self.assertEqual('0', self.read(server))
        self.assert_held(server, self.host_of(server))
        self.assert_stable(server)

    def test_drift(self):
        """A subscription that was lost is repaired, and the pool as well."""
        server = self.create(self.flavor())
        host = self.host_of(server)
        machine = self.kernels[host]
        group = machine.group_of(self.guest(server, host).id)
        for path in (
            group / 'cpu.rt.spare',
            machine.partition / 'cpu.rt.spare.max',
        ):
            seen = self.listen(host)
            machine.write(path, '0')
            self.verify(host)
            self.assertEqual(
                [events.Drifted, events.Repaired], [*map(type, seen)][:2]
            )
            self.assert_served(server)
        self.assertTrue(self.guest(server, host).is_active())

    def test_the_operator_takes_the_pool_away(self):
        """The server runs on, and is not started again."""
        server = self.create(self.flavor())
        host = self.host_of(server)
        self.restart_without_pool(host)
        for _ in range(3):
            self.verify(host)
            self.assertTrue(self.guest(server, host).is_active())
        self.assertIn(
            'set [nova_rt] spare_pool back', self.stdlog.logger.output
        )
        event = self.ask_in_vain(
            server, 'reboot', {'type': 'HARD'}, 'compute_reboot_instance'
        )
        self.assertIn('needs a pool of spare', event['details'])
        self.pools = (host,)
        self.flags_of_ours(spare_pool=POOL)
        self.restart_compute_service(host)
        self.hard_reboot(server)
        self.assert_served(server)


class OlderKernelTest(base.RTServersTestBase):
    def test_refused(self):
        self.flags_of_ours(spare_pool='9500/10000')
        self.assert_not_started('spare_pool = 9500/10000', '950000 ppm')
        self.kernels.clear()
        self.INTERFACE = 'v1-throttle'
        self.flags_of_ours(spare_pool=POOL)
        self.assert_not_started('spare_pool', 'no pools of spare bandwidth')

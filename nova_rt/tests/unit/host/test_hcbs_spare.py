# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.hcbs_spare, and of hosts without pools."""

import fixtures

from nova_rt import exception
from nova_rt.host import hcbs_files
from nova_rt.host.interface import Usage
from nova_rt.reservation import spare
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import specs
from nova_rt.tests.unit.host import base
from nova_rt.tests.unit.host.base import PID

POOL = Reservation(1000, 10_000)


def _record(**values):
    values = {'reservation': '40000/100000', **values}
    flavor = {f'rt:{name}': text for name, text in values.items()}
    return Record(specs.parse(flavor, 2), (1, 3))


class HostTestCase(base.HostTestCase):
    INTERFACE = 'v2-rt-max-cpu'

    def make_host(self, spare_pool='1000/10000', **kwargs):
        return super().make_host(spare_pool=spare_pool, **kwargs)

    def _read(self, group, name='cpu.rt.spare.max'):
        return (group / name).read_text().strip()

    def _make_group(self, name):
        group = self.kernel.root / name
        self.kernel.make_group(group)
        self.kernel.enable(self.kernel.root)
        return group

    def _refuses(self, *texts):
        err = self.assertRaises(exception.HostNotPrepared, self.host.start)
        for text in ('spare_pool', *texts):
            self.assertIn(text, str(err))


class PoolTest(HostTestCase):
    """The pool of the partition, when nova-rt-compute starts."""

    def test_size(self):
        self.host.look()
        self.assertEqual([], self.kernel.writes)
        group = self._make_group('user')
        self.kernel.set_cpus(group, '2')
        self.kernel.write(group / 'cpu.rt.max', '300000 1000000')
        self.host.start()
        self.assertEqual('1000 10000 250', self._read(self.kernel.partition))
        self.assertEqual(POOL, self.host.capacity().spare)
        # Once on each CPU; the kernel's part is rounded up.
        self.assertEqual(
            [800_000, 800_000, 500_000, 800_000],
            [*self.host.capacity().cpus.values()],
        )
        self.assertEqual(
            {'(spare pool)': 100_000, 'user': 300_000},
            self.host.capability.others,
        )
        self.assertFalse(self.host.capability.unowned)
        self.make_host('2000/20000').start()
        self.assertEqual('2000 20000 500', self._read(self.kernel.partition))

    def test_in_a_reserved_partition(self):
        group = self._make_group('machine')
        self.kernel.write(group / 'cpu.rt.max', '500000 1000000')
        self.host.start()
        self.assertEqual([400_000] * 4, [*self.host.capacity().cpus.values()])

    def test_written_once(self):
        self.host.start()
        self.kernel.writes.clear()
        self.make_host().start()
        self.assertNotIn(
            'cpu.rt.spare.max', [path.name for path, _ in self.kernel.writes]
        )

    def test_taken_away(self):
        self.host.start()
        self.host = self.make_host(None)
        self.host.start()
        self.assertIsNone(self.host.capacity().spare)
        self.assertEqual(3_600_000, self.host.capacity().total_ppm)

    def test_no_room(self):
        """The numbers are in the error; what is held stays as it is."""
        self.make_host(None).start()
        group = self._make_group('user')
        self.kernel.write(group / 'cpu.rt.max', '850000 1000000')
        self._refuses('100000 ppm of each CPU', 'user 850000 ppm',
                      '50000 on CPU 3')  # fmt: skip

    def test_not_held(self):
        """The kernel takes it, and holds something else."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.tests.fixtures.reservations.Reservations.write_pool',
                lambda *args: None,
            )
        )
        self._refuses(
            'expected 1000/10000 on CPUs 0-3', 'CPU 0 has none',
        )  # fmt: skip

    def test_older_kernel(self):
        self.boot(pools=False)
        self._refuses('needs a kernel with cpu.rt.spare.max')
        self.make_host(None).start()

    def test_no_numbers(self):
        self.host = self.make_host('20000/10000')
        self._refuses('us')

    def test_partition_removed(self):
        """systemd does that with its last container."""
        self.host.start()
        self.kernel.remove_group(self.kernel.partition)
        self.host.refresh()
        self.assertEqual('1000 10000 250', self._read(self.kernel.partition))
        self.assertEqual(POOL, self.host.capacity().spare)
        self.assertEqual([800_000] * 4, [*self.host.capacity().cpus.values()])

    def test_no_room_for_another_one(self):
        """Bandwidth that others have taken meanwhile is not sold twice."""
        self.host.start()
        self.kernel.remove_group(self.kernel.partition)
        group = self._make_group('user')
        self.kernel.write(group / 'cpu.rt.max', '850000 1000000')
        self.host.refresh()
        self.assertIsNone(self.host.capacity().spare)
        self.assertEqual(0, self.host.capacity().total_ppm)
        self.kernel.write(group / 'cpu.rt.max', '100000 1000000')
        self.host.refresh()
        self.assertEqual(POOL, self.host.capacity().spare)
        self.assertEqual([700_000] * 4, [*self.host.capacity().cpus.values()])

    def test_reported_once(self):
        """While it is missing, at each look; and once when it is back."""
        self.host.start()
        self.kernel.remove_group(self.kernel.partition)
        group = self._make_group('user')
        self.kernel.write(group / 'cpu.rt.max', '850000 1000000')
        for _ in range(3):
            self.host.refresh()
        self.assertEqual(1, self.log.output.count('cannot be had now'))
        self.assertNotIn('is back', self.log.output)
        self.kernel.write(group / 'cpu.rt.max', '100000 1000000')
        for _ in range(3):
            self.host.refresh()
        self.assertEqual(1, self.log.output.count('is back'))
        self.kernel.write(group / 'cpu.rt.max', '0 1000000')
        self.kernel.remove_group(self.kernel.partition)
        self.kernel.write(group / 'cpu.rt.max', '850000 1000000')
        self.host.refresh()
        self.assertEqual(2, self.log.output.count('cannot be had now'))

    def _with_other_pools(self, others):
        """Let some CPUs have other pools than the kernel has given them."""
        real = hcbs_files.parse_pool
        return fixtures.MonkeyPatch(
            'nova_rt.host.hcbs_files.parse_pool',
            lambda text: {
                cpu: each
                for cpu, each in (real(text) | others).items()
                if each is not None
            },
        )

    def test_another_pool_on_one_cpu(self):
        """The host has none then, and names the CPU."""
        other = hcbs_files.EffectiveShare(2_000_000, 20_000_000)
        for pool, text in ((None, 'none'), (other, '2000000/20000000 ns')):
            self.host = self.make_host()
            self.host.start()
            with self._with_other_pools({2: pool}):
                for _ in range(2):
                    self.host.refresh()
                self.assertIsNone(self.host.capacity().spare)
                self.assertGreaterEqual(
                    800_000, max(self.host.capacity().cpus.values())
                )
                self._refuses(f'differs on CPUs 2: CPU 2 has {text}')
            self.assertEqual(1, self.log.output.count(f'CPU 2 has {text}'))
            self.host.refresh()
            self.assertEqual(POOL, self.host.capacity().spare)

    def test_usage(self):
        without = self.make_host(None)
        without.look()
        self.assertEqual({}, without.read_pool_usage())
        self.host.start()
        self.assertEqual(
            dict.fromkeys(range(4), Usage(0, 0, 0)),
            self.host.read_pool_usage(),
        )


class SubscriptionTest(HostTestCase):
    """A server with rt:spare, and one without."""

    def setUp(self):
        super().setUp()
        self.host.start()
        self.group = self.kernel.add_container(PID, 'web', (1, 3))
        self.rec = _record(spare='1000/10000')
        self.host.apply(PID, self.rec)

    def test_subscribes(self):
        level = self.group
        self.assertEqual('2', self._read(level, 'cpu.rt.spare'))
        self.assertIn('spare=1', self._read(level, 'cpu.rt.effective'))
        self.assertIsNone(self.host.check(PID, self.rec))
        self.host.check_promise(self.rec)

    def test_admitted_once(self):
        self.host.refresh()
        before = self.host.free([self.rec]).cpus
        self.kernel.add_container(8, 'other', (1, 3))
        self.host.apply(8, self.rec)
        self.host.refresh()
        self.assertEqual(
            before[1] - 400_000, self.host.free([self.rec] * 2).cpus[1]
        )

    def test_drifted(self):
        level = self.group
        self.kernel.write(level / 'cpu.rt.spare', '9')
        self.assertIn(
            'cpu.rt.spare: expected 2, found 9',
            self.host.check(PID, self.rec),
        )
        self.assertIn('expected 2', self.host.observe(PID, self.rec)[0])
        self.host.apply(PID, self.rec)
        self.assertIsNone(self.host.check(PID, self.rec))

    def test_without(self):
        """A server with another flavor uses no pool any more."""
        rec = _record()
        self.assertIn('expected 0, found 2', self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertEqual('0', self._read(self.group, 'cpu.rt.spare'))

    def test_the_pool_is_gone(self):
        """Another program took it; the next check has it back."""
        path = self.kernel.partition / 'cpu.rt.spare.max'
        self.kernel.write(path, '0')
        self.assertIn(
            'no pool of spare bandwidth serves it on CPUs 1,3',
            self.host.check(PID, self.rec),
        )
        self.host.apply(PID, self.rec)
        self.assertIsNone(self.host.check(PID, self.rec))

    def test_never_a_verdict(self):
        """Whatever is wrong with the pool, the server is not stopped."""
        path = self.kernel.partition / 'cpu.rt.spare.max'
        self.kernel.write(path, '0')
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.tests.fixtures.reservations.Reservations.write_pool',
                lambda *args: None,
            )
        )
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, PID, self.rec
        )
        self.assertFalse(err.verdict)

    def test_the_operator_has_no_pool_any_more(self):
        """It runs on without, and is not started again."""
        self.host = self.make_host(None)
        self.host.start()
        self.assertIsNone(self.host.check(PID, self.rec))
        err = self.assertRaises(
            spare.NoPool, self.host.check_promise, self.rec
        )
        self.assertIn('serves 1000 us within 10000 us', str(err))
        self.host.check_promise(_record())

    def test_usage(self):
        level = self.group
        self.kernel.use(level, 3, 20, 10, 700)
        self.kernel.use_pool(self.kernel.partition, level, 3, 200, 4)
        usage = self.host.read_usage(PID)
        self.assertEqual(Usage(20, 10, 700, 200, 4), usage[3])
        self.assertEqual(Usage(4, 4, 200), self.host.read_pool_usage()[3])


class OtherKernelsTest(HostTestCase):
    def test_refused(self):
        for name in ('v1-throttle', 'v2-sched-ext'):
            self.boot(name)
            self._refuses(name, 'has no pools of spare bandwidth')

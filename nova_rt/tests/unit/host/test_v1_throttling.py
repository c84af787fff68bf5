# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.v1_throttling."""

import errno
import shutil

import fixtures

from nova_rt import exception
from nova_rt.host import v1_throttling
from nova_rt.host.interface import Share, Usage
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures.requests import ask, claim
from nova_rt.tests.unit.host import base


class V1ThrottlingTestCase(base.HostTestCase):
    def _kernel(self, **kwargs):
        self.boot(**kwargs)
        self.files = self.kernel.files
        self.backend = v1_throttling.V1Throttling.detect(self.files)

    def _look(self, partition='machine'):
        return self.backend.look_at(self.kernel.root / partition)

    def _prepare(self):
        return self.backend.prepare(self._look())

    def _read(self, group):
        return self.backend.read_share(group)

    def _share(self, group, runtime_us, period_us=1_000_000):
        """Somebody else's group."""
        if not group.exists():
            self.kernel.make_group(group)
        self.kernel.write(group / 'cpu.rt_period_us', str(period_us))
        self.kernel.write(group / 'cpu.rt_runtime_us', str(runtime_us))


class LookTest(V1ThrottlingTestCase):
    def test_host(self):
        self._kernel(cpus=2)
        found = self._look()
        self.assertEqual(
            Capacity({0: 950_000, 1: 950_000}, 950_000), found.ceiling
        )
        self.assertEqual('limit', found.enforcement)
        self.assertEqual('host', found.scope)
        self.assertFalse(found.prepared)

    def test_what_is_left(self):
        for machine, shares, partition, others, left in (
            # The smaller of the group and the sysctl.
            ({'runtime_us': 800_000}, {}, 'machine', {}, 800_000),
            ({'limit_us': 800_000}, {}, 'machine', {}, 800_000),
            ({}, {'user': (3, 100), 'idle': (0,)}, 'machine',
             {'user': 30_000}, 920_000),
            ({}, {'cloud': (400_000,), 'cloud/other': (100_000,)},
             'cloud/machine', {'other': 100_000}, 300_000),
        ):  # fmt: skip
            with self.subTest(machine=machine, shares=shares):
                self._kernel(**machine)
                for name, share in shares.items():
                    self._share(self.kernel.root / name, *share)
                found = self._look(partition)
                self.assertEqual(others, found.others)
                self.assertEqual(left, found.ceiling.host_ppm)

    def test_nothing_is_left(self):
        def write_no_number():
            (self.kernel.root / 'cpu.rt_runtime_us').write_text('what\n')

        for machine, change, *texts in (
            # The cpuset controller is on cgroup v2, or nowhere.
            ({}, lambda: self.kernel.remove_cpusets(), '/cpuset ',
             'mount -t cgroup -o cpuset'),
            # The kernel would accept reservations and enforce none.
            ({'limit_us': -1}, None, 'sched_rt_runtime_us is -1'),
            ({'runtime_us': 0}, None, 'holds 0/1000000 us',
             '/cpu/cpu.rt_runtime_us'),
            ({}, lambda: self._share(self.kernel.root / 'user', 950_000),
             'user 950000 ppm'),
            ({}, write_no_number, 'what', 'EIO'),
        ):  # fmt: skip
            with self.subTest(texts):
                self._kernel(**machine)
                if change:
                    change()
                err = self.assertRaises(exception.HostNotPrepared, self._look)
                for text in texts:
                    self.assertIn(text, str(err))


class PrepareTest(V1ThrottlingTestCase):
    def test_partition_holds_it(self):
        self._kernel()
        found = self._prepare()
        self.assertTrue(found.prepared)
        self.assertEqual(
            Share(950_000, 1_000_000), self._read(found.partition)
        )
        self.assertEqual(found, self._look())

    def test_host_keeps_bandwidth_in_the_kernel(self):
        """Its own real-time processes have groups of their own."""
        self._kernel()
        self.backend.reserved_ppm = 300_000
        found = self._prepare()
        self.assertEqual(
            Share(650_000, 1_000_000), self._read(found.partition)
        )
        self.assertEqual(950_000, found.ceiling.host_ppm)
        self.assertEqual(found, self._look())
        for runtime_us in (100_000, 300_000):
            self._share(self.kernel.root / 'sound', runtime_us)
            again = self._prepare()
            self.assertEqual(found.ceiling, again.ceiling)
            self.assertEqual(650_000, self._read(found.partition).ppm)

    def test_host_keeps_more_than_before(self):
        """Servers that run keep what they have, and no more is offered."""
        self._kernel()
        self._prepare()
        self._share(self.kernel.partition / 'running', 800_000)
        self.backend.reserved_ppm = 300_000
        found = self._prepare()
        self.assertEqual(950_000, self._read(found.partition).ppm)
        self.assertEqual(950_000, found.ceiling.host_ppm)
        self.assertIn('reserved_ppm', self.log.output)
        self._share(self.kernel.partition / 'running', 600_000)
        self.assertEqual(650_000, self._read(self._prepare().partition).ppm)

    def test_deadline_servers_behind_the_files(self):
        """They leave the fair server its bandwidth, and nothing says so."""
        self._kernel(servers=True)
        found = self._prepare()
        self.assertEqual(900_000, found.ceiling.host_ppm)
        self.assertEqual('limit', found.enforcement)
        # A restart finds it as it is.
        self.assertEqual(found, self._prepare())

    def test_fair_server_that_was_changed(self):
        """The CPU with the largest counts for all."""
        self._kernel(servers=True, cpus=2)
        server = self.files.sys / 'kernel/debug/sched/fair_server/cpu1'
        server.mkdir(parents=True)
        (server / 'runtime').write_text('70000000\n')
        (server / 'period').write_text('1000000000\n')
        self.assertEqual(880_000, self._prepare().ceiling.host_ppm)

    def test_an_own_period_is_kept(self):
        """It cannot be changed while groups in it hold bandwidth."""
        self._kernel()
        partition = self.kernel.partition
        self._share(partition, 30_000, 100_000)
        self._share(partition / 'running', 300)
        self.assertEqual(950_000, self._prepare().ceiling.host_ppm)
        self.assertEqual(
            '95000', self.files.read(partition / 'cpu.rt_runtime_us')
        )

    def test_rounded_down_to_what_it_holds(self):
        self._kernel(runtime_us=949_999)
        self._share(self.kernel.partition, 30, 1000)
        found = self._prepare()
        self.assertEqual(949_000, found.ceiling.host_ppm)
        self.assertEqual(found, self._look())

    def test_others_took_it_in_between(self):
        self._kernel()
        found = self._look()
        self._share(self.kernel.root / 'user', 100_000)
        err = self.assertRaises(
            exception.HostNotPrepared, self.backend.prepare, found
        )
        self.assertIn('EINVAL', str(err))
        self.assertIn('950000 ppm', str(err))

    def _fail(self, number, method='write'):
        self._kernel()

        def refuse(*args):
            raise OSError(number, 'refused')

        found = self._look()
        self.useFixture(fixtures.MockPatchObject(self.files, method, refuse))
        return self.assertRaises(
            exception.HostError, self.backend.prepare, found
        )

    def test_kernel_answers(self):
        for number, kind, text in (
            (errno.EPERM, exception.HostNotPrepared, 'CAP_SYS_NICE'),
            (errno.EACCES, exception.HostNotPrepared, 'nova_rt_privileged'),
            (errno.EROFS, exception.HostNotPrepared, 'read-only'),
            (errno.EBUSY, exception.HostNotPrepared, 'promised'),
            (errno.EINVAL, exception.HostNotPrepared, 'other groups hold'),
            (errno.ENOENT, exception.NoRTInterface, 'gone'),
        ):
            err = self._fail(number)
            self.assertIsInstance(err, kind)
            self.assertIn(errno.errorcode[number], str(err))
            self.assertIn(text, str(err))

    def test_no_group_can_be_made(self):
        err = self._fail(errno.EACCES, 'make_group')
        self.assertIsInstance(err, exception.HostNotPrepared)

    def test_partition_reads_otherwise(self):
        self._kernel()
        found = self._look()
        write = self.files.write

        def other(path, text):
            write(path, '900000' if text == '950000' else text)

        self.useFixture(fixtures.MockPatchObject(self.files, 'write', other))
        err = self.assertRaises(
            exception.HostNotPrepared, self.backend.prepare, found
        )
        self.assertIn('expected 950000/1000000 us', str(err))
        self.assertIn('found 900000/1000000 us', str(err))


class HoldTest(V1ThrottlingTestCase):
    """The order of writes, which the kernel is particular about."""

    def setUp(self):
        super().setUp()
        self._kernel()
        self.found = self._prepare()

    def _container(self, pid, *nested, cpus=None):
        group = self.kernel.add_container(pid, 'web', cpus, nested=nested)
        self.kernel.writes.clear()
        found = self.backend.hierarchy.find_container(
            pid, self.found.partition
        )
        self.assertEqual(group, found.group)
        return found

    def _hold(self, container, runtime_us, period_us):
        cpus = self.backend.hierarchy.read_cpus(container)
        request = Request(Reservation(runtime_us, period_us), len(cpus))
        self.backend.hold(self.found, container, Record(request, cpus))

    def _refused(self, number, container, *numbers):
        err = self.assertRaises(OSError, self._hold, container, *numbers)
        self.assertEqual(number, err.errno)
        return str(err)

    def test_outermost_first_when_growing(self):
        self._hold(self._container(7, 'libvirt'), 5, 100)
        self.assertEqual(
            [('lxc-7-web.libvirt-lxc', 'cpu.rt_period_us', '100'),
             ('lxc-7-web.libvirt-lxc', 'cpu.rt_runtime_us', '5'),
             ('libvirt', 'cpu.rt_period_us', '100'),
             ('libvirt', 'cpu.rt_runtime_us', '5')],
            [(path.parent.name, path.name, text)
             for path, text in self.kernel.writes],
        )  # fmt: skip

    def test_innermost_first_when_changing(self):
        container = self._container(7, 'libvirt')
        self._hold(container, 5, 100)
        self.kernel.writes.clear()
        self._hold(container, 600, 1000)
        self.assertEqual(
            [('libvirt', '2'), ('libvirt', '4194304'),
             ('lxc-7-web.libvirt-lxc', '2'),
             ('lxc-7-web.libvirt-lxc', '4194304'),
             ('lxc-7-web.libvirt-lxc', '1000'),
             ('lxc-7-web.libvirt-lxc', '600'),
             ('libvirt', '1000'), ('libvirt', '600')],
            [(path.parent.name, text) for path, text in self.kernel.writes],
        )  # fmt: skip

    def test_one_write_with_the_same_period(self):
        """A container never has less than the smaller of both shares."""
        container = self._container(7, 'libvirt')
        self._hold(container, 400, 1000)
        outer, inner = 'lxc-7-web.libvirt-lxc', 'libvirt'
        for runtime_us, order in (600, (outer, inner)), (300, (inner, outer)):
            self.kernel.writes.clear()
            self._hold(container, runtime_us, 1000)
            self.assertEqual(
                [(name, 'cpu.rt_runtime_us', f'{runtime_us}')
                 for name in order],
                [(path.parent.name, path.name, text)
                 for path, text in self.kernel.writes],
            )  # fmt: skip

    def test_from_any_share_to_any(self):
        """No order of writes that the kernel refuses, with RT tasks in it."""
        shares = (
            (600, 1000), (300, 2000), (900, 1000), (9000, 10_000), (500, 2000)
        )  # fmt: skip
        container = self._container(7, 'libvirt')
        first = True
        for old in shares:
            for new in shares:
                self._hold(container, *old)
                if first:
                    self.files.set_policy(container.group, 7, 2, 1)
                    first = False
                self._hold(container, *new)
                self.assertEqual(
                    [Share(*new)] * 2, [*map(self._read, container.levels)]
                )

    def test_what_will_not_pass_is_not_repeated(self):
        container = self._container(7)
        for number in (errno.EPERM, errno.EACCES, errno.EROFS):
            self.kernel.refuse(number)
            self.kernel.writes.clear()
            self._refused(number, container, 5, 100)
            self.assertEqual(1, len(self.kernel.writes))


class OnlineTest(base.HostTestCase):
    """CPUs that go off line while nova-rt-compute runs."""

    CLAIMS = tuple(claim((cpu,), 100_000) for cpu in (0, 1, 2))

    def setUp(self):
        super().setUp()
        self.host.start()

    def test_is_not_offered(self):
        """It has nothing of anybody and would be the emptiest."""
        self.kernel.take_off_line(3)
        self.assertEqual((0,), self.host.place(self.CLAIMS, ask(1, 100_000)))
        self.assertEqual(0, self.host.capacity().cpus[3])
        self.assertEqual(950_000, self.host.capacity().total_ppm)
        err = self.assertRaises(
            exception.InsufficientBandwidth, self.host.place, (), ask(4, 2)
        )
        self.assertEqual(0, err.free_ppm[-1])

    def test_is_offered_again(self):
        self.kernel.take_off_line(3)
        self.host.refresh()
        self.kernel.bring_on_line(3)
        self.assertEqual((3,), self.host.place(self.CLAIMS, ask(1, 100_000)))

    def test_what_is_claimed_there_stays_claimed(self):
        self.kernel.take_off_line(3)
        self.host.refresh()
        free = self.host.free([*self.CLAIMS, claim((3,), 200_000)])
        self.assertEqual(0, free.cpus[3])
        self.assertEqual(950_000 - 500_000, free.host_ppm)

    def test_cpu_that_nobody_chose(self):
        """It came after the service had started."""
        self.kernel.take_off_line(3)
        self.host.start()
        self.kernel.bring_on_line(3)
        self.host.refresh()
        self.assertEqual({0, 1, 2}, set(self.host.capacity().cpus))

    def test_partition_loses_its_bandwidth_meanwhile(self):
        """It is given the same again, whatever CPUs there are."""
        self.kernel.take_off_line(3)
        self.host.refresh()
        self.kernel.reset_partition()
        self.kernel.add_container(7, 'web', (1,))
        self.host.apply(7, base.make_record())
        self.assertEqual(950_000, self.host.capacity().total_ppm)


class UsageTest(base.HostTestCase):
    """CPU time, from the hierarchy of cpuacct."""

    def setUp(self):
        super().setUp()
        self.group = self.kernel.add_container(
            7, 'web', (1, 2), nested=('libvirt',)
        )
        self.host.start()

    def count(self, possible, text):
        """Set the CPUs in the kernel's lists, and what it counts on each."""
        top = self.kernel.files.cgroup / 'cpuacct'
        shutil.rmtree(top, ignore_errors=True)
        path = top / self.group.parent.relative_to(self.kernel.root)
        path.mkdir(parents=True)
        (path / 'cpuacct.usage_percpu').write_text(text)
        directory = self.kernel.files.sys / 'devices' / 'system' / 'cpu'
        (directory / 'possible').write_text(possible)

    def test_cpus(self):
        """Those that it may use, and those on which it has run.

        That was before its cpuset held, or before a CPU went off line.
        """
        for possible, text, used_us in (
            ('0-2\n', '0 999 8000999 \n', {1: 0, 2: 8000}),
            ('0-3\n', '149953 0 8000999 0 \n', {0: 149, 1: 0, 2: 8000}),
            # The kernel leaves out those for which it has no room.
            ('0,2\n', '2100 8000999 \n', {0: 2, 2: 8000}),
        ):
            with self.subTest(text):
                self.count(possible, text)
                # They stay the same until the kernel reboots.
                vars(self.host._backend.hierarchy).pop('_possible', None)
                self.assertEqual(
                    {
                        cpu: Usage(None, None, us)
                        for cpu, us in used_us.items()
                    },
                    self.host.read_usage(7),
                )

    def test_not_mounted(self):
        self.assertIsNone(self.host.read_usage(7))

    def test_no_list_of_times(self):
        for text in ('', '1 x', '1', '1 2 3', 'cpu user system\n0 1 2\n'):
            with self.subTest(text):
                self.count('0-1\n', text)
                err = self.assertRaises(OSError, self.host.read_usage, 7)
                self.assertEqual(errno.EIO, err.errno)

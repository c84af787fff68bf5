# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.capability."""

import errno

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.admission import Capacity
from nova_rt.host import capability, cgroup, interfaces
from nova_rt.tests.fixtures import kernel


class CapabilityTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.cgroup.PATIENCE_S', 0)
        )

    def _kernel(self, *args, **kwargs):
        self.kernel = self.useFixture(kernel.FakeKernel(*args, **kwargs))
        return self.kernel.files

    def _look(self, files, partition='machine'):
        return capability.look(files, capability.find(files), partition)

    def _share(self, group, runtime_us, period_us=1_000_000):
        """Somebody else's group."""
        if not group.exists():
            self.kernel.make_group(group)
        self.kernel.write(group / 'cpu.rt_period_us', str(period_us))
        self.kernel.write(group / 'cpu.rt_runtime_us', str(runtime_us))


class FindTest(CapabilityTest):
    def test_each(self):
        for interface in interfaces.ALL:
            found = capability.find(self._kernel(interface.name))
            self.assertEqual(interface.name, found.name)

    def test_none(self):
        """Cgroup v2 of a mainline kernel."""
        err = self.assertRaises(
            exception.NoRTInterface, capability.find, self._kernel('none')
        )
        for help_ in ('CONFIG_RT_GROUP_SCHED', 'rt_group_sched=1', 'HCBS'):
            self.assertIn(help_, str(err))

    def test_words_that_are_not_known(self):
        """Another kernel with a file of that name: nobody knows what."""
        for text in ('0 ceiling=900000', '', 'x ceiling_ppm=1 reserved_ppm=0'):
            files = self._kernel('v2-rt-max-cpu')
            (files.cgroup / 'cpu.rt.effective').write_text(text)
            err = self.assertRaises(
                exception.NoRTInterface, capability.find, files
            )
            self.assertIn('is not understood', str(err))

    def test_without_reports(self):
        """The same file of another series: it sums over the host."""
        files = self._kernel('v2-rt-max-cpu')
        (files.cgroup / 'cpu.rt.effective').unlink()
        self.assertEqual('v2-rt-max', capability.find(files).name)

    def test_v1_without_the_files(self):
        files = self._kernel()
        (files.cgroup / 'cpu' / 'cpu.rt_runtime_us').unlink()
        self.assertRaises(exception.NoRTInterface, capability.find, files)

    def test_unreadable(self):
        """Fails, instead of passing for a kernel with less."""
        files = self._kernel()

        def read(path):
            raise PermissionError(errno.EACCES, 'denied', str(path))

        self.useFixture(fixtures.MockPatchObject(files, 'read', read))
        err = self.assertRaises(
            exception.NoRTInterface, capability.find, files
        )
        self.assertIn('denied', str(err))


class LookTest(CapabilityTest):
    def test_host(self):
        found = self._look(self._kernel(cpus=2))
        self.assertEqual(
            Capacity({0: 950_000, 1: 950_000}, 950_000), found.ceiling
        )
        self.assertEqual('limit', found.enforcement)
        self.assertEqual('host', found.scope)
        self.assertFalse(found.prepared)

    def test_cpus(self):
        found = self._look(self._kernel('v2-hcbs-multi', cpus=2))
        self.assertEqual(Capacity({0: 950_000, 1: 950_000}), found.ceiling)
        self.assertEqual('guarantee', found.enforcement)

    def test_nothing_is_written(self):
        for interface in interfaces.ALL:
            files = self._kernel(interface.name)
            self._look(files)
            self.assertEqual([], self.kernel.writes)
            self.assertFalse(self.kernel.partition.exists())

    def test_other_groups_count(self):
        files = self._kernel()
        self._share(self.kernel.root / 'user', 3, 100)
        self._share(self.kernel.root / 'idle', 0)
        found = self._look(files)
        self.assertEqual({'user': 30_000}, found.others)
        self.assertEqual(920_000, found.ceiling.host_ppm)

    def test_other_groups_on_some_cpus(self):
        files = self._kernel('v1-hcbs-multi', cpus=2)
        self.kernel.make_group(self.kernel.root / 'user')
        multi = self.kernel.root / 'user' / 'cpu.rt_multi_runtime_us'
        self.kernel.write(multi, '1 150000')
        found = self._look(files)
        self.assertEqual(Capacity({0: 950_000, 1: 800_000}), found.ceiling)

    def test_groups_without_the_files(self):
        """On cgroup v2, until the cpu controller is enabled for them."""
        for interface in interfaces.ALL:
            files = self._kernel(interface.name)
            self.kernel.make_group(self.kernel.root / 'user')
            self.kernel.make_group(self.kernel.partition)
            if interface.version == 1:
                # Being removed.
                for name in interface.files:
                    (self.kernel.root / 'user' / name).unlink()
            found = self._look(files)
            self.assertEqual({}, found.others)
            self.assertTrue(capability.prepare(files, found).prepared)

    def test_the_smaller_of_group_and_sysctl(self):
        for group, sysctl in ((800_000, 950_000), (950_000, 800_000)):
            files = self._kernel(runtime_us=group, limit_us=sysctl)
            self.assertEqual(800_000, self._look(files).ceiling.host_ppm)

    def test_throttling_switched_off(self):
        """The kernel would accept reservations and enforce none."""
        files = self._kernel(limit_us=-1)
        err = self.assertRaises(exception.HostNotPrepared, self._look, files)
        self.assertIn('sched_rt_runtime_us is -1', str(err))

    def test_fair_server(self):
        files = self._kernel(
            'v2-rt-max', runtime_us=1_000_000, limit_us=950_000
        )
        self.assertEqual(900_000, self._look(files).ceiling.host_ppm)

    def test_fair_server_that_was_changed(self):
        files = self._kernel(
            'v2-rt-max', cpus=1, runtime_us=1_000_000, limit_us=-1
        )
        server = files.sys / 'kernel/debug/sched/fair_server/cpu0'
        server.mkdir(parents=True)
        (server / 'runtime').write_text('20000000\n')
        (server / 'period').write_text('1000000000\n')
        self.assertEqual(980_000, self._look(files).ceiling.host_ppm)

    def test_host_group_without_bandwidth(self):
        """How an HCBS kernel boots."""
        files = self._kernel('v2-rt-max', runtime_us=0)
        err = self.assertRaises(exception.HostNotPrepared, self._look, files)
        self.assertIn('holds 0/1000000 us', str(err))
        self.assertIn(str(self.kernel.root / 'cpu.rt.max'), str(err))

    def test_fair_server_takes_a_cpu(self):
        """Where the kernel sums over the host, that CPU counts for all."""
        files = self._kernel('v2-hcbs-scalar', cpus=2)
        server = files.sys / 'kernel/debug/sched/fair_server/cpu1'
        server.mkdir(parents=True)
        for name in ('runtime', 'period'):
            (server / name).write_text('1000000000\n')
        err = self.assertRaises(exception.HostNotPrepared, self._look, files)
        self.assertIn('nothing is left', str(err))

    def test_others_hold_all(self):
        files = self._kernel()
        self._share(self.kernel.root / 'user', 950_000)
        err = self.assertRaises(exception.HostNotPrepared, self._look, files)
        self.assertIn('user 950000 ppm', str(err))

    def test_others_hold_all_of_each_cpu(self):
        files = self._kernel('v2-rt-max-cpu')
        self.kernel.enable(self.kernel.root)
        self.kernel.make_group(self.kernel.root / 'user')
        max_ = self.kernel.root / 'user' / 'cpu.rt.max'
        self.kernel.write(max_, '900000 1000000')
        err = self.assertRaises(exception.HostNotPrepared, self._look, files)
        # The kernel has some of 2^20 more than is reserved: less than 1 ppm.
        self.assertIn('has 900000 ppm of a CPU', str(err))
        self.assertIn('user 900000 ppm', str(err))

    def test_partition_in_a_group(self):
        files = self._kernel()
        self._share(self.kernel.root / 'cloud', 400_000)
        self._share(self.kernel.root / 'cloud' / 'other', 100_000)
        found = self._look(files, '/cloud/machine')
        self.assertEqual(300_000, found.ceiling.host_ppm)
        self.assertEqual({'other': 100_000}, found.others)

    def test_partition_names(self):
        files = self._kernel()
        for name in ('', '/', '..', 'a/../b', 'a//b', '.'):
            self.assertRaises(
                exception.HostNotPrepared, self._look, files, name
            )


class PrepareTest(CapabilityTest):
    def _prepare(self, files):
        found = capability.prepare(files, self._look(files))
        capability.try_out(files, found)
        return found

    def test_each(self):
        for interface in interfaces.ALL:
            files = self._kernel(interface.name)
            found = self._prepare(files)
            self.assertTrue(found.prepared)
            tree = cgroup.Tree(files, interface)
            held = tree.read(found.partition)
            if interface.reports:
                # Less the fair server; and the partition needs nothing.
                self.assertEqual(900_000, found.ceiling.cpus[3])
                self.assertTrue(held.without_bound)
            else:
                self.assertEqual(950_000, found.ceiling.cpus[3])
                self.assertEqual(950_000, held.on(3))
            # The trial has left nothing.
            self.assertEqual([], list(files.groups(found.partition)))
            self.assertEqual(found, self._look(files))

    def test_servers_behind_the_files_of_v1(self):
        """They leave the fair server its bandwidth, and nothing says so."""
        files = self._kernel(servers=True)
        found = self._prepare(files)
        self.assertEqual(900_000, found.ceiling.host_ppm)
        self.assertEqual('limit', found.enforcement)
        # A restart finds it as it is.
        self.assertEqual(found, self._prepare(files))

    def test_busy_for_another_reason(self):
        files = self._kernel('v2-rt-max')
        found = self._look(files)

        def refuse(path, text):
            raise OSError(errno.EBUSY, 'refused')

        self.useFixture(fixtures.MockPatchObject(files, 'write', refuse))
        self.kernel.enable(self.kernel.root)
        self.assertRaises(
            exception.HostNotPrepared, capability.prepare, files, found
        )

    def test_an_own_period_is_kept(self):
        """It cannot be changed while groups in it hold bandwidth."""
        files = self._kernel()
        self._share(self.kernel.partition, 30_000, 100_000)
        self._share(self.kernel.partition / 'running', 300)
        found = self._prepare(files)
        self.assertEqual(950_000, found.ceiling.host_ppm)
        partition = self.kernel.partition
        self.assertEqual('95000', files.read(partition / 'cpu.rt_runtime_us'))

    def test_rounded_down_to_what_it_holds(self):
        files = self._kernel(runtime_us=949_999)
        self._share(self.kernel.partition, 30, 1000)
        found = self._prepare(files)
        self.assertEqual(949_000, found.ceiling.host_ppm)
        self.assertEqual(found, self._look(files))

    def test_others_took_it_in_between(self):
        files = self._kernel()
        found = self._look(files)
        self._share(self.kernel.root / 'user', 100_000)
        err = self.assertRaises(
            exception.HostNotPrepared, capability.prepare, files, found
        )
        self.assertIn('EINVAL', str(err))
        self.assertIn('950000 ppm', str(err))

    def _fail(self, number, method='write'):
        files = self._kernel()

        def refuse(*args):
            raise OSError(number, 'refused')

        found = self._look(files)
        self.useFixture(fixtures.MockPatchObject(files, method, refuse))
        return self.assertRaises(
            exception.HostError, capability.prepare, files, found
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
        files = self._kernel()
        found = self._look(files)
        write = files.write

        def other(path, text):
            write(path, '900000' if text == '950000' else text)

        self.useFixture(fixtures.MockPatchObject(files, 'write', other))
        err = self.assertRaises(
            exception.HostNotPrepared, capability.prepare, files, found
        )
        self.assertIn('was to hold 950000/1000000 us', str(err))
        self.assertIn('holds 900000/1000000 us', str(err))


class TryOutTest(CapabilityTest):
    def _prepared(self, name='v1-throttle'):
        files = self._kernel(name)
        return files, capability.prepare(files, self._look(files))

    def _is_clean(self, found):
        groups = self.kernel.files.groups(found.partition)
        self.assertEqual([], [group.name for group in groups])

    def test_not_held(self):
        for interface in interfaces.ALL:
            files, found = self._prepared(interface.name)
            write = files.write

            def ignore(path, text, write=write):
                if not path.name.endswith(('runtime_us', 'max')):
                    write(path, text)

            self.useFixture(fixtures.MockPatchObject(files, 'write', ignore))
            err = self.assertRaises(
                exception.NoRTInterface, capability.try_out, files, found
            )
            self.assertIn('does not hold', str(err))
            self._is_clean(found)

    def test_refused(self):
        files, found = self._prepared()

        def refuse(path, text):
            raise OSError(errno.EBUSY, 'refused')

        self.useFixture(fixtures.MockPatchObject(files, 'write', refuse))
        err = self.assertRaises(
            exception.HostNotPrepared, capability.try_out, files, found
        )
        self.assertIn('EBUSY', str(err))
        self._is_clean(found)

    def test_full(self):
        """A restart on a full host must not fail for want of 2 ppm."""
        files, found = self._prepared()
        self._share(found.partition / 'a', 450_000)
        self._share(found.partition / 'b', 500_000)
        before = list(self.kernel.writes)
        capability.try_out(files, found)
        self.assertEqual(before, self.kernel.writes)

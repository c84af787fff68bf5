# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.probe, and of what all back ends have to do."""

import errno

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.host import probe
from nova_rt.tests.fixtures import kernel

NAMES = [kind.interface.name for kind in probe.BACKENDS]


class ProbeTestCase(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.cgroup.PATIENCE_S', 0)
        )

    def _kernel(self, *args, **kwargs):
        self.kernel = self.useFixture(kernel.make(*args, **kwargs))
        return self.kernel.files

    def _look(self, files):
        backend = probe.find_backend(files)
        return backend, backend.look_at(self.kernel.partition)

    def _prepare(self, files):
        backend, found = self._look(files)
        return backend, backend.prepare(found)


class TableTest(base.BaseTestCase):
    def test_names(self):
        """The names are published; they are those of the documentation."""
        self.assertEqual(
            {
                'v1-throttle': ('limit', 'host'),
                'v2-rt-max-cpu': ('guarantee', 'cpu'),
                'v2-sched-ext': ('soft', 'cpu'),
            },
            {
                kind.interface.name: (
                    kind.interface.enforcement,
                    kind.interface.scope,
                )
                for kind in probe.BACKENDS
            },
        )

    def test_each_has_a_fake(self):
        self.assertEqual({*NAMES, 'none'}, {*kernel.KERNELS})

    def test_privileged_side_lets_exactly_these_files_through(self):
        names = {name for kind in probe.BACKENDS for name in kind.FILES}
        self.assertEqual(
            {'cpu.rt_runtime_us', 'cpu.rt_period_us', 'cpu.rt.max'}, names
        )
        for kind in probe.BACKENDS:
            fake = self.useFixture(kernel.make(kind.interface.name))
            group = fake.add_container(7, 'web')
            for name in (*names, 'cpu.rt_multi_runtime_us', 'cpu.max'):
                (group / name).touch()
                try:
                    fake.files.write(group / name, '2')
                    passed = True
                except OSError as err:
                    passed = err.errno != errno.EACCES
                self.assertEqual(name in kind.FILES, passed, name)


class FindTest(ProbeTestCase):
    def test_each(self):
        for name in NAMES:
            found = probe.find_backend(self._kernel(name))
            self.assertEqual(name, found.interface.name)

    def _not_found(self, files):
        err = self.assertRaises(
            exception.NoRTInterface, probe.find_backend, files
        )
        return str(err)

    def test_none(self):
        """Cgroup v2 of a mainline kernel."""
        text = self._not_found(self._kernel('none'))
        for help_ in ('CONFIG_RT_GROUP_SCHED', 'rt_group_sched=1', 'HCBS'):
            self.assertIn(help_, text)

    def test_interface_of_another_day(self):
        """A newer series, say: it is named, and not taken for none."""
        files = self._kernel('none')
        slice_ = files.cgroup / 'system.slice'
        slice_.mkdir()
        for path in (files.cgroup / 'cpu.rt.runtime', slice_ / 'cpu.rt.local'):
            path.write_text('0\n')
        text = self._not_found(files)
        self.assertIn('cpu.rt.local, cpu.rt.runtime', text)
        self.assertIn('does not know', text)
        self.assertNotIn('no file for RT bandwidth', text)

    def test_cpu_controller_without_its_link(self):
        """Its kernel is the right one, and is not to be changed."""
        files = self._kernel('v1-throttle')
        (files.cgroup / 'cpu').rename(files.cgroup / 'cpu,cpuacct')
        text = self._not_found(files)
        self.assertIn(f'ln -s cpu,cpuacct {files.cgroup}/cpu', text)
        self.assertNotIn('CONFIG_RT_GROUP_SCHED', text)
        (files.cgroup / 'cpu').symlink_to('cpu,cpuacct')
        self.assertEqual(
            'v1-throttle', probe.find_backend(files).interface.name
        )

    def test_words_that_are_not_known(self):
        """Another kernel with a file of that name: nobody knows what."""
        for text in ('0 ceiling=900000', '', 'x ceiling_ppm=1 reserved_ppm=0'):
            files = self._kernel('v2-rt-max-cpu')
            (files.cgroup / 'cpu.rt.effective').write_text(text)
            self.assertIn('is not understood', self._not_found(files))

    def test_without_reports(self):
        """The same file of another series, which no test of ours runs."""
        files = self._kernel('v2-rt-max-cpu')
        (files.cgroup / 'cpu.rt.effective').unlink()
        self.assertIn('another HCBS series', self._not_found(files))

    def test_v1_without_the_files(self):
        files = self._kernel()
        (files.cgroup / 'cpu' / 'cpu.rt_runtime_us').unlink()
        self._not_found(files)

    def test_unreadable(self):
        """Fails, instead of passing for a kernel with less."""
        for name in NAMES:
            files = self._kernel(name)
            top = self.kernel.root
            real = files.read

            def read(path, top=top, real=real):
                if path.parent == top:
                    raise PermissionError(errno.EACCES, 'denied', str(path))
                return real(path)

            self.useFixture(fixtures.MockPatchObject(files, 'read', read))
            self.assertIn('denied', self._not_found(files))


class EveryBackendTest(ProbeTestCase):
    def test_groups_without_the_files(self):
        """Being removed, or without the cpu controller on cgroup v2."""
        for name in NAMES:
            files = self._kernel(name)
            self.kernel.make_group(self.kernel.root / 'user')
            self.kernel.make_group(self.kernel.partition)
            for path in (self.kernel.root / 'user').glob('cpu.rt*'):
                path.unlink()
            backend, found = self._look(files)
            self.assertEqual({}, found.others)
            self.assertTrue(backend.prepare(found).prepared)

    def test_prepared(self):
        for name in NAMES:
            files = self._kernel(name)
            backend, found = self._prepare(files)
            probe.self_test(backend, found)
            self.assertTrue(found.prepared)
            self.assertEqual(kernel.CEILINGS[name], found.ceiling.cpus[3])
            # The trial has left nothing.
            self.assertEqual([], list(files.groups(found.partition)))
            self.assertEqual(found, self._look(files)[1])


class SelfTestTest(ProbeTestCase):
    def _fails(self, kind, text, written):
        """Test a kernel that does something else with what is written."""
        for name in NAMES:
            backend, found = self._prepare(self._kernel(name))
            for method in ('write', 'reserve', 'release'):
                self.useFixture(
                    fixtures.MockPatchObject(
                        self.kernel.files, method, written
                    )
                )
            err = self.assertRaises(kind, probe.self_test, backend, found)
            self.assertIn(text, str(err))
            groups = self.kernel.files.groups(found.partition)
            self.assertEqual([], [group.name for group in groups])

    def test_not_held(self):
        self._fails(
            exception.NoRTInterface, 'does not hold', lambda *args: None
        )

    def test_refused(self):
        def refuse(*args):
            raise OSError(errno.EBUSY, 'refused')

        self._fails(exception.HostNotPrepared, 'EBUSY', refuse)

    def test_full(self):
        """A restart on a full host must not fail for want of 2 ppm."""
        files = self._kernel('v1-throttle')
        backend, found = self._prepare(files)
        for name, runtime_us in (('a', 450_000), ('b', 500_000)):
            group = found.partition / name
            self.kernel.make_group(group)
            self.kernel.write(group / 'cpu.rt_runtime_us', str(runtime_us))
        before = list(self.kernel.writes)
        probe.self_test(backend, found)
        self.assertEqual(before, self.kernel.writes)

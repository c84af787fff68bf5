# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.status."""

from importlib import metadata

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import status
from nova_rt.tests.fixtures import kernel


class HostTestCase(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.out = self.useFixture(fixtures.StringStream('stdout')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stdout', self.out))
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        self.flags = self.useFixture(config.Config(self.conf)).config

    def _check(self, interface, prepare=False, **kwargs):
        self.kernel = self.useFixture(kernel.make(interface, **kwargs))
        return self._check_again(prepare)

    def _check_again(self, prepare=False):
        self.out.seek(0)
        self.out.truncate()
        code = status.check_host(self.conf, prepare, self.kernel.files)
        self.out.seek(0)
        return code, self.out.read()


class HostCheckTest(HostTestCase):
    def test_looks_only(self):
        code, text = self._check('v1-throttle')
        self.assertEqual(0, code)
        self.assertIn('v1-throttle, cgroup v1', text)
        self.assertIn('rt:enforcement=limit', text)
        self.assertIn('not prepared', text)
        self.assertEqual([], self.kernel.writes)
        self.assertFalse(self.kernel.partition.exists())

    def test_prepare(self):
        code, text = self._check('v2-rt-max-cpu', prepare=True, cpus=2)
        self.assertEqual(0, code)
        self.assertIn('guarantee: ', text)
        self.assertRegex(text, r'Capacity +1800000 ppm')
        self.assertNotIn('not prepared', text)

    def test_prepared(self):
        """It tries the kernel out and leaves nothing behind."""
        self._check('v1-throttle', prepare=True)
        self.kernel.writes.clear()
        code, text = self._check_again()
        self.assertEqual(0, code)
        self.assertIn('the kernel holds reservations', text)
        self.assertNotEqual([], self.kernel.writes)
        groups = self.kernel.files.groups(self.kernel.partition)
        self.assertEqual([], list(groups))

    def test_options(self):
        self.flags(group='nova_rt', cpu_set='1', reserved_ppm=50_000)
        _, text = self._check('v1-throttle')
        self.assertRegex(text, r'CPUs offered +1\n')
        self.assertRegex(text, r'Capacity +900000 ppm')

    def test_no_interface(self):
        code, text = self._check('none')
        self.assertEqual(1, code)
        self.assertIn('CONFIG_RT_GROUP_SCHED', text)

    def test_set_up_in_the_way(self):
        code, text = self._check('v1-throttle', limit_us=-1)
        self.assertEqual(1, code)
        self.assertIn('sched_rt_runtime_us', text)


class HostUsageTest(HostTestCase):
    def _usage(self):
        self.out.seek(0)
        self.out.truncate()
        code = status.show_usage(self.conf, self.kernel.files)
        self.out.seek(0)
        return code, self.out.read()

    def test_usage(self):
        self._check('v2-rt-max-cpu', prepare=True)
        group = self.kernel.add_container(7, 'web', (1, 3), nested=['libvirt'])
        self.kernel.write(group / 'cpu.rt.max', '600 1000')
        self.kernel.use(group, 3, 10, 4, 5500)
        code, text = self._usage()
        self.assertEqual(0, code)
        rows = [line.split() for line in text.splitlines()[1:]]
        self.assertEqual(
            [['1', '0', '0', '0'], ['3', '10', '4', '5']],
            [row[:4] for row in rows],
        )
        self.assertIn('600/1000 us  lxc-7-web.libvirt-lxc/libvirt', text)

    def test_usage_of_nothing(self):
        self._check('v2-rt-max-cpu')
        code, text = self._usage()
        self.assertEqual((0, 1), (code, len(text.splitlines())))

    def test_usage_that_is_not_counted(self):
        self._check('v1-throttle')
        code, text = self._usage()
        self.assertEqual(1, code)
        self.assertIn('does not count this with v1-throttle', text)

    def test_usage_without_an_interface(self):
        self._check('none')
        self.assertEqual(1, self._usage()[0])


class UpgradeCheckTest(base.BaseTestCase):
    def test_all_is_well(self):
        checks = status.Checks(cfg.CONF)
        self.assertEqual(0, checks._nova().code)
        self.assertEqual(0, checks._validators().code)

    def test_other_release(self):
        with fixtures.MonkeyPatch(
            'importlib.metadata.version', lambda name: '35.0.1'
        ):
            result = status.Checks(cfg.CONF)._nova()
        self.assertEqual(2, result.code)
        self.assertIn('35.0.1', result.details)

    def test_release_is_that_of_the_requirement(self):
        (nova,) = (
            line
            for line in metadata.requires('nova_rt')
            if line.startswith('nova')
        )
        self.assertIn(f'>={status.NOVA_MAJOR}', nova)
        self.assertIn(f'<{status.NOVA_MAJOR + 1}', nova)

    def test_validators_that_do_not_load(self):
        point = metadata.EntryPoint('rt', 'nova_rt.no_such', 'group')
        for found in ((), (point,)):
            with fixtures.MonkeyPatch(
                'importlib.metadata.entry_points',
                lambda found=found, **_: found,
            ):
                result = status.Checks(cfg.CONF)._validators()
            self.assertEqual(2, result.code)
            self.assertIn('nova-api cannot load', result.details)


class MainTest(base.BaseTestCase):
    def test_upgrade_check(self):
        conf = cfg.ConfigOpts()
        self.useFixture(fixtures.MonkeyPatch('oslo_config.cfg.CONF', conf))
        self.useFixture(
            fixtures.MonkeyPatch(
                'sys.argv', ['nova-rt-status', 'upgrade', 'check']
            )
        )
        out = self.useFixture(fixtures.StringStream('stdout')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stdout', out))
        # Without a database the flavors are not checked.
        self.assertEqual(1, status.main())
        out.seek(0)
        self.assertIn('Flavors were not checked', out.read())

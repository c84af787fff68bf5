# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.status."""

from importlib import metadata
import json
import pathlib
import subprocess
import sys

import fixtures
import nova.conf
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import nova_compat, status
from nova_rt.conf import nova_api
from nova_rt.reservation import admission
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

    def _check_again(self, prepare=False, **options):
        self.out.seek(0)
        self.out.truncate()
        code = status.check_host(
            self.conf, prepare, self.kernel.files, **options
        )
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

    def test_cpus_of_other_servers(self):
        """CPUs 8 and 9 are threads of the cores of plain servers."""
        self.flags(group='nova_rt', cpu_set='2-15')
        self.give_others('cpu_shared_set', '0-1')
        self.kernel = self.useFixture(kernel.make(cpus=16))
        self.kernel.number_by_core()
        code, text = self._check_again()
        self.assertEqual(0, code)
        self.assertRegex(text, r'CPUs offered +2-7\n')
        self.assertRegex(text, r'CPUs left out +8-9 .*cpu_shared_set')

    def give_others(self, name, cpus):
        self.conf.register_opt(cfg.StrOpt(name), group='compute')
        self.flags(group='compute', **{name: cpus})

    def test_nodes(self):
        _, text = self._check('v1-throttle', nodes=[(0, 1), (2, 3)])
        self.assertRegex(text, r'CPUs of node 0 +0-1\nCPUs of node 1 +2-3\n')
        _, text = self._check('v1-throttle', nodes=[range(4)])
        self.assertNotIn('node', text)

    def test_json(self):
        """The same facts, for a script."""
        self.flags(group='nova_rt', cpu_set='1', reserved_ppm=50_000)
        self._check('v1-throttle', nodes=[(0, 1), (2, 3)])
        code, text = self._check_again(form='json')
        self.assertEqual(0, code)
        found = json.loads(text)
        self.assertEqual(
            {'interface': 'v1-throttle', 'cgroup': 'cgroup v1',
             'enforcement': 'limit', 'ceiling_ppm': 950_000,
             'reserved_ppm': 50_000, 'capacity_ppm': 900_000,
             'cpus_online': [0, 1, 2, 3], 'cpus_offered': [1],
             'prepared': False, 'spare_pool': None},
            {name: value for name, value in found.items()
             if name not in ('scope', 'nodes', 'other_groups_ppm',
                             'partition')},
        )  # fmt: skip
        self.assertIn(found['scope'], list(admission.Scope))

    def test_pool(self):
        self.flags(group='nova_rt', spare_pool='1000/10000')
        code, text = self._check('v2-rt-max-cpu', prepare=True)
        self.assertEqual(0, code)
        self.assertRegex(text, r'Spare pool +1000/10000\n')
        self.assertRegex(text, r'Capacity +3200000 ppm')

    def test_cannot_hold_reservations(self):
        """Said for people, and for a script."""

        def overlap():
            self.flags(group='nova_rt', cpu_set='1-3')
            self.give_others('cpu_dedicated_set', '3-5')

        def allow():
            self.flags(group='nova_rt', cpu_set=None)
            self.flags(group='compute', cpu_dedicated_set=None)

        for interface, kwargs, change, said in (
            ('none', {}, lambda: None, 'CONFIG_RT_GROUP_SCHED'),
            ('v1-throttle', {'limit_us': -1}, lambda: None,
             'sched_rt_runtime_us'),
            ('v1-throttle', {}, lambda: self.kernel.remove_cpusets(),
             'cgroup v1 has no cpuset'),
            ('v2-rt-max-cpu', {}, overlap,
             '3 are in [compute] cpu_dedicated_set'),
            ('v2-rt-max-cpu', {}, lambda: (allow(), self.proc('thread-self')),
             'CONFIG_PROC_CHILDREN'),
            ('v2-rt-max-cpu', {}, lambda: self.proc('filesystems'), 'FUSE'),
        ):  # fmt: skip
            self.kernel = self.useFixture(kernel.make(interface, **kwargs))
            change()
            code, text = self._check_again()
            self.assertEqual(1, code)
            self.assertIn(said, text)
            code, text = self._check_again(form='json')
            self.assertEqual(1, code)
            self.assertIn(said, json.loads(text)['error'])

    def proc(self, name):
        """Put something into procfs."""
        path = self.kernel.files.proc / name
        if name == 'filesystems':
            path.write_text('\text4\n')
        else:
            path.mkdir()


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

    def test_usage_that_is_not_known(self):
        for interface, said in (
            ('v1-throttle', 'does not count this with v1-throttle'),
            ('none', 'cannot hold reservations'),
        ):
            self._check(interface)
            code, text = self._usage()
            self.assertEqual(1, code)
            self.assertIn(said, text)

    def test_usage_of_nothing(self):
        self._check('v2-rt-max-cpu')
        code, text = self._usage()
        self.assertEqual((0, 1), (code, len(text.splitlines())))


class UpgradeCheckTest(base.BaseTestCase):
    def test_all_is_well(self):
        checks = status.Checks(cfg.CONF)
        self.assertEqual(0, checks._nova().code)
        self.assertEqual(0, checks._validators().code)

    def _version(self, version):
        with fixtures.MonkeyPatch(
            'importlib.metadata.version', lambda name: version
        ):
            return status.Checks(cfg.CONF)._nova()

    def test_nova_that_was_tried(self):
        for version in ('34.0.0', '34.1.2', '33.0.0.dev373', '33.1.0.dev347'):
            self.assertEqual(0, self._version(version).code, version)

    def test_nova_that_fits_but_was_never_tried(self):
        for version in ('35.0.1', '33.0.0', '340.0.0'):
            result = self._version(version)
            self.assertEqual(1, result.code, version)
            self.assertIn(f'Nova {version} ', result.details)
            self.assertIn('00a030403f', result.details)

    def test_nova_that_does_not_fit(self):
        """Whatever it calls itself."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.cmd.nova_compat.find_misfits', lambda: ['a is gone']
            )
        )
        checks = status.Checks(cfg.CONF)
        self.assertEqual(2, checks._nova().code)
        self.assertIn('  a is gone', checks._advice)

    def test_release_of_the_requirement_was_tried(self):
        (nova,) = (
            line
            for line in metadata.requires('nova_rt')
            if line.startswith('nova')
        )
        self.assertIn('>=34', nova)
        self.assertIn('<35', nova)
        self.assertIn('34.', nova_compat.TRIED)

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


class FilterCheckTest(base.BaseTestCase):
    """A scheduler without our filter takes real-time flavors for plain."""

    def check(self, text):
        """Check with a nova.conf that says this."""
        file = (
            pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'n.conf'
        )
        file.write_text(text)
        conf = cfg.ConfigOpts()
        nova.conf.scheduler.register_opts(conf)
        nova.conf.database.register_opts(conf)
        conf(['--config-file', str(file)])
        with fixtures.MonkeyPatch('nova.conf.CONF', conf):
            return status.Checks(conf)._filter()

    def test_filters(self):
        enabled = '[filter_scheduler]\nenabled_filters = ComputeFilter,'
        for text, code, said in (
            (f'{enabled}RTBandwidthFilter\n', 0, ''),
            (f'{enabled}NotRTBandwidthFilter\n', 2,
             'RTBandwidthFilter is not in'),
            # A node of the control plane has the database; a host has none.
            ('[api_database]\nconnection = sqlite://\n', 2,
             'RTBandwidthFilter is not in'),
            ('', 1, 'where nova-scheduler has its nova.conf'),
        ):  # fmt: skip
            result = self.check(text)
            self.assertEqual(code, result.code)
            self.assertIn(said, result.details or '')


class MovesTest(base.BaseTestCase):
    """Credentials for changes that migrate servers."""

    def check(self, **options):
        conf = cfg.ConfigOpts()
        nova_api.register_opts(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        for name, value in options.items():
            conf.set_override(name, value, 'nova_rt_nova')
        return status.Checks(conf)._moves()

    def test_none(self):
        """They are optional; the table says what is refused."""
        result = self.check()
        self.assertEqual(0, result.code)
        self.assertIn('on_no_room = migrate are refused', result.details)

    def test_incomplete(self):
        result = self.check(auth_type='password')
        self.assertEqual(2, result.code)
        self.assertIn('auth_url', result.details)


class MainTest(base.BaseTestCase):
    def test_configuration_that_cannot_be_used(self):
        """One line, by every program that reads nova.conf."""
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        file = top / 'nova.conf'
        for program, words, code in (
            ('nova_rt.cmd.status', ['host', 'check'], 255),
            ('nova_rt.manage.app', ['host', 'list'], 2),
        ):
            for text in (
                b'[nova_rt\n', b'# f\xfcr\n', b'[nova_rt]\nsmt = perhaps\n',
            ):  # fmt: skip
                if text.endswith(b'perhaps\n') and code == 2:
                    continue  # It asks for what its commands need.
                file.write_bytes(text)
                done = subprocess.run(
                    [sys.executable, '-W', 'ignore', '-m', program,
                     '--config-file', file, *words],
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                self.assertEqual(code, done.returncode, done.stderr)
                self.assertIn(str(file), done.stderr)
                self.assertEqual(1, done.stderr.count('\n'), done.stderr)

    def test_upgrade_check(self):
        self.useFixture(fixtures.TempHomeDir())
        top = pathlib.Path.home() / '.nova'
        top.mkdir()
        (top / 'nova-rt-conductor.conf').write_text(
            '[nova_rt_nova]\nauth_type = password\n'
        )
        conf = cfg.ConfigOpts()
        self.useFixture(fixtures.MonkeyPatch('oslo_config.cfg.CONF', conf))
        self.useFixture(
            fixtures.MonkeyPatch(
                'sys.argv', ['nova-rt-status', 'upgrade', 'check']
            )
        )
        out = self.useFixture(fixtures.StringStream('stdout')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stdout', out))
        # Credentials that lack the address of Keystone.
        self.assertEqual(2, status.main())
        out.seek(0)
        text = out.read()
        # Without a database the flavors are not checked.
        self.assertIn('Flavors were not checked', text)
        self.assertIn('Filter of nova-scheduler', text)
        self.assertIn('auth_url', text)

# SPDX-License-Identifier: Apache-2.0
"""The files that operators install, read by sudo, systemd and others."""

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from nova.conf import CONF, base
import nova.privsep
import os_brick.privileged
from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_rootwrap import wrapper
import vif_plug_ovs.privsep

from lab import accounts, paths, unit
from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import exporter
import nova_rt.privsep

ETC = paths.CHECKOUT / 'etc' / 'nova_rt'
SUDOERS = ETC / 'sudoers.d' / 'nova-rt'
DROP_IN = ETC / 'systemd' / 'nova-compute.service.d' / 'nova-rt.conf'
EXPORTER_UNIT = ETC / 'systemd' / 'nova-rt-exporter.service'
STOCK_UNIT = paths.TEMPLATES / 'nova-compute.service'
FILES = ['/etc/nova/nova.conf', '/etc/nova/nova-compute.conf']
SOCKET = '/tmp/tmpab12_xyz/privsep.sock'
# The contexts of all helpers that nova-rt-compute starts.
CONTEXTS = [
    context
    for module in (
        nova_rt.privsep,
        nova.privsep,
        vif_plug_ovs.privsep,
        os_brick.privileged,
    )
    for name, context in vars(module).items()
    # The other two are os-vif's for its tests and os-brick's for PowerFlex.
    if hasattr(context, 'pypath')
    and name not in ('vif_plug_test', 'brick_privsep_hide_output')
]
# Read now: who parses a command line forgets them, they are set as defaults.
CAPABILITIES = {
    context.pypath: {
        capabilities.CAPS_BYVALUE[number]
        for number in context.conf.capabilities
    }
    for context in CONTEXTS
}
# What sudo is run on in a mount namespace of its own.
_IN_NAMESPACE = """
mount --make-rprivate /
for name in passwd group sudoers; do
    mount --bind "$0/$name" "/etc/$name"
done
exec setpriv --reuid=nova --regid=nova --clear-groups sudo -n "$@"
"""


def arguments(context, socket=SOCKET):
    """Return the arguments that nova-rt-compute gives sudo for a context.

    They are those of oslo.privsep.
    """
    words = []
    for file in FILES:
        words += ['--config-file', file]
    words += ['--privsep_context', context.pypath]
    return [*words, '--privsep_sock_path', socket]


def make_directory(test):
    """Make a directory of units, of this test alone."""
    run = paths.WORK / 'run'
    run.mkdir(parents=True, exist_ok=True)
    return pathlib.Path(
        test.enterContext(tempfile.TemporaryDirectory(dir=run))
    )


def systemd(test, words, unit_file, drop_in=None):
    """Run systemd-analyze on a unit, and on a file that changes it."""
    if not shutil.which('systemd-analyze'):
        test.skipTest('no systemd-analyze')
    directory = make_directory(test)
    targets = {unit_file: directory / unit_file.name}
    if drop_in:
        targets[drop_in] = directory / f'{unit_file.name}.d' / drop_in.name
    for source, target in targets.items():
        target.parent.mkdir(exist_ok=True)
        # The programs are elsewhere, and systemd looks for them.
        target.write_text(
            source.read_text().replace(
                'ExecStart=/usr/bin/', f'ExecStart={paths.VENV}/bin/'
            )
        )
    return subprocess.run(
        ['systemd-analyze', *words, targets[unit_file]],
        capture_output=True,
        text=True,
        check=False,
    )


class SudoersTest(unittest.TestCase):
    """The rules let the helpers of nova-rt-compute through, and no other."""

    def setUp(self):
        super().setUp()
        self.directory = make_directory(self)
        # User nova reads it.
        self.directory.chmod(0o755)

    def test_syntax(self):
        visudo = shutil.which('visudo', path='/usr/sbin:/usr/bin')
        if not visudo:
            self.skipTest('no visudo')
        file = self.directory / 'nova-rt'
        file.write_text(SUDOERS.read_text())
        file.chmod(0o440)
        subprocess.run(
            [visudo, '--check', '--strict', f'--file={file}'], check=True
        )

    def test_command_is_that_of_oslo_privsep(self):
        CONF([], project='nova', default_config_files=[])
        self.addCleanup(CONF.reset)
        CONF.set_override('config_file', FILES)
        for context in CONTEXTS:
            with self.subTest(context.pypath):
                self.assertEqual(
                    ['sudo', 'privsep-helper', *arguments(context)],
                    context.helper_command(SOCKET),
                )

    def _sudo(self, words):
        """Ask sudo to decide as for user nova; the helper prints its ID."""
        if os.geteuid() or not shutil.which('sudo'):
            self.skipTest('needs root and sudo')
        rules = SUDOERS.read_text()
        helper = self.directory / 'privsep-helper'
        helper.write_text('#!/bin/sh\nid -u\n')
        helper.chmod(0o755)
        rules = rules.replace('/usr/bin/privsep-helper', str(helper))
        passwd = pathlib.Path('/etc/passwd').read_text()
        group = pathlib.Path('/etc/group').read_text()
        for name, text in (
            ('passwd', accounts.with_user(passwd)),
            ('group', accounts.with_groups(group)),
            ('sudoers', f'Defaults env_reset\n{rules}'),
        ):
            (self.directory / name).write_text(text)
        (self.directory / 'sudoers').chmod(0o440)
        command = ['unshare', '--mount', 'sh', '-eu', '-c', _IN_NAMESPACE]
        answer = subprocess.run(
            [*command, self.directory, helper, *words],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            env={'PATH': '/usr/sbin:/usr/bin:/sbin:/bin'},
        )
        if answer.returncode:
            self.assertIn('a password is required', answer.stderr)
        else:
            self.assertEqual('0\n', answer.stdout)
        return answer.returncode == 0

    def test_every_helper_is_permitted(self):
        self.assertLessEqual(4, len(CONTEXTS))
        for context in CONTEXTS:
            with self.subTest(context.pypath):
                self.assertTrue(self._sudo(arguments(context)))

    def test_nothing_else_is(self):
        good = arguments(nova_rt.privsep.rt_pctxt)
        text = ' '.join(good)
        for what, bad in {
            'another context': text.replace('rt_pctxt', 'other_pctxt'),
            'any name of Python': text.replace(
                'nova_rt.privsep.rt_pctxt', 'os.system'
            ),
            'a dot that is a letter': text.replace(
                'nova_rt.privsep', 'nova_rtxprivsep'
            ),
            'other configuration': text.replace('/etc/nova/', '/tmp/nova/'),
            'a way out of /etc/nova': text.replace(
                '/etc/nova/nova.conf', '/etc/nova/../../tmp/nova.conf'
            ),
            'a file less': text.replace(
                '--config-file /etc/nova/nova-compute.conf ', ''
            ),
            'a file more': f'--config-file /tmp/x {text}',
            'a file more at the end': f'{text} --config-file /tmp/x',
            'a directory': f'{text} --config-dir /tmp/x',
            'a log': f'{text} --log-file /etc/passwd',
            'another socket': text.replace('/tmp/tmpab12_xyz', '/run/docker'),
            'a way out of /tmp': text.replace(
                '/tmp/tmpab12_xyz', '/tmp/../run/tmpab12_xyz'
            ),
            'a second line': f'{text}\n--config-file /tmp/x',
            'nothing': '',
        }.items():
            with self.subTest(what):
                self.assertFalse(self._sudo(re.split('[ ]', bad)))


class UnitTest(unittest.TestCase):
    """The drop-in of nova-compute's unit."""

    def setUp(self):
        self.unit = unit.read((STOCK_UNIT, DROP_IN))

    def test_starts_with_both_files(self):
        command = list(self.unit.command)
        self.assertEqual('/usr/bin/nova-rt-compute', command[0])
        given = [
            after
            for word, after in itertools.pairwise(command)
            if word == '--config-file'
        ]
        self.assertEqual(FILES, given)

    def test_helpers_get_their_capabilities(self):
        for name, wanted in CAPABILITIES.items():
            with self.subTest(name):
                self.assertTrue(wanted)
                self.assertLessEqual(wanted, set(self.unit.capabilities))

    def test_nothing_that_hides_mounts_or_disarms_sudo(self):
        # systemd.exec(5) of systemd 252.
        directives = {
            line.partition('=')[0]
            for line in DROP_IN.read_text().splitlines()
            if '=' in line and not line.startswith('#')
        }
        self.assertEqual(
            {
                'ExecStart',
                'CapabilityBoundingSet',
                'LimitCORE',
                'TimeoutStartSec',
                'TimeoutStopSec',
            },
            directives,
        )

    def test_nothing_is_killed_in_its_middle(self):
        """Not a start, and no shutdown before Nova ends it itself."""
        self.assertIn('\nTimeoutStartSec=infinity\n', DROP_IN.read_text())
        nova_s = base.NOVA_DEFAULT_GRACEFUL_SHUTDOWN_TIMEOUT
        directory = ETC / 'systemd'
        for name, needed_s in (
            ('nova-compute.service.d/nova-rt.conf', nova_s),
            ('nova-scheduler.service.d/nova-rt.conf', nova_s),
            # Of oslo.service: Nova's own default is not known there.
            ('nova-rt-conductor.service', 60),
        ):
            text = (directory / name).read_text()
            (stop_s,) = re.findall(r'(?m)^TimeoutStopSec=(\d+)$', text)
            self.assertGreater(int(stop_s), needed_s, name)

    def test_systemd_understands_it(self):
        answer = systemd(self, ('verify', '--man=no'), STOCK_UNIT, DROP_IN)
        self.assertEqual((0, ''), (answer.returncode, answer.stderr))


class ExporterUnitTest(unittest.TestCase):
    """The unit of nova-rt-exporter."""

    def setUp(self):
        # Directives may come twice: no parser of INI files.
        self.found = {}
        for line in EXPORTER_UNIT.read_text().splitlines():
            name, equals, value = line.partition('=')
            if equals and not line.startswith('#'):
                self.found.setdefault(name, []).append(value)

    def test_reads_its_own_configuration(self):
        """No file of Nova's, and no group that may read one."""
        self.assertEqual(
            ['/usr/bin/nova-rt-exporter'], self.found['ExecStart']
        )
        self.assertNotIn('SupplementaryGroups', self.found)
        self.assertNotIn('Group', self.found)

    def test_its_configuration(self):
        """Every option of the file is there, with its default."""
        file = EXPORTER_UNIT.parents[1] / 'exporter.conf'
        options = exporter.read_options(['--config-file', str(file)])
        defaults = exporter.read_options(['--config-file', '/dev/null'])
        group = 'nova_rt_exporter'
        self.assertEqual(dict(defaults[group]), dict(options[group]))
        for line in file.read_text().splitlines():
            found = re.fullmatch(r'#(\w+) = (.*)', line)
            if found is None:
                continue
            value = defaults[group][found[1]]
            if value is not None:
                self.assertEqual(str(value), found[2], line)

    def test_no_privileges(self):
        for name, value in {
            'CapabilityBoundingSet': '',
            'AmbientCapabilities': '',
            'NoNewPrivileges': 'yes',
            'DynamicUser': 'yes',
            'ProtectSystem': 'strict',
        }.items():
            self.assertEqual([value], self.found[name])
        self.assertNotIn('User', self.found)

    def test_nothing_that_hides_the_containers(self):
        for name in ('ProtectProc', 'ProcSubset', 'PrivateUsers',
                     'PrivateNetwork', 'InaccessiblePaths'):  # fmt: skip
            self.assertNotIn(name, self.found)

    def test_systemd_understands_it(self):
        answer = systemd(self, ('verify', '--man=no'), EXPORTER_UNIT)
        self.assertEqual((0, ''), (answer.returncode, answer.stderr))

    def test_systemd_finds_it_safe(self):
        # Of 100: 10 is the best, 100 no protection at all.
        words = ('security', '--offline=yes', '--threshold=20')
        answer = systemd(self, words, EXPORTER_UNIT)
        self.assertEqual(0, answer.returncode, answer.stdout[-200:])


class SysctlTest(unittest.TestCase):
    """Settings of the kernel, by a file of sysctl.d."""

    FILE = ETC / 'sysctl.d' / '60-nova-rt-compute.conf'

    def setUp(self):
        super().setUp()
        lines = self.FILE.read_text().splitlines()
        self.values = {
            name.strip(' -'): int(value)
            for name, _, value in (
                line.partition('=')
                for line in lines
                if line and not line.startswith('#')
            )
        }

    def test_kernel_knows_each(self):
        for name in self.values:
            path = pathlib.Path('/proc/sys', *name.split('.'))
            self.assertTrue(path.is_file(), name)

    def test_periods_that_nova_admits_pass(self):
        conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(conf)
        self.assertEqual(
            conf.nova_rt.min_period_us,
            self.values['kernel.sched_deadline_period_min_us'],
        )


class RootwrapTest(unittest.TestCase):
    """The reason why there is no filter for nova-rootwrap."""

    def test_privsep_helper_passes_without_any_filter(self):
        words = ['privsep-helper', '--privsep_context', 'os.system']
        found = wrapper.match_filter(
            wrapper.load_filters([]), words, [f'{paths.VENV}/bin']
        )
        self.assertEqual('root', found.run_as)

    def test_none_is_shipped(self):
        self.assertEqual([], list(ETC.rglob('*.filters')))

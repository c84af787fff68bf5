# SPDX-License-Identifier: Apache-2.0
"""The privileged helper as it really runs, with the capabilities it has."""

import errno
import os
import pathlib
import sys

import fixtures
from oslo_config import cfg

import nova_rt.privsep
import nova_rt.privsep.cgroup
from nova_rt.tests.host import machine

_HELPER = pathlib.Path(sys.executable).parent / 'privsep-helper'


class DaemonTest(machine.MachineTestCase):
    def setUp(self):
        super().setUp()
        self.group = self.machine.top / 'web'
        self.machine.files.make_group(self.group)
        self.file = self.group / 'cpu.rt_runtime_us'

    def _daemon(self, *settings):
        """Run the functions in a helper with these settings."""
        directory = self.useFixture(fixtures.TempDir()).path
        path = pathlib.Path(directory) / 'nova.conf'
        path.write_text('\n'.join(('[nova_rt_privileged]', *settings)))
        context = nova_rt.privsep.rt_pctxt
        command = f'{_HELPER} --config-file {path}'
        group = context.cfg_section
        cfg.CONF([], project='nova', default_config_files=[])
        cfg.CONF.set_override('helper_command', command, group=group)
        self.addCleanup(cfg.CONF.clear_override, 'helper_command', group=group)
        self.useFixture(fixtures.MockPatchObject(context, 'client_mode', True))
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PYTHONPATH', os.pathsep.join(filter(None, sys.path))
            )
        )
        self.addCleanup(context.stop)
        return nova_rt.privsep.cgroup

    def _fails(self, number, function, *args):
        err = self.assertRaises(OSError, function, *args)
        self.assertEqual(number, err.errno)

    def test_enough(self):
        task = self.machine.add_task(self.group)
        daemon = self._daemon()
        daemon.write(str(self.file), '10000')
        daemon.set_policy(str(self.group), os.getpid(), os.SCHED_RR, 2, False)
        self.assertEqual(os.SCHED_RR, os.sched_getscheduler(task))
        probe = f'{self.machine.top}/nova-rt-probe-1'
        daemon.make_group(probe)
        daemon.remove_probe(probe)

    def test_errors_keep_their_errno(self):
        self.machine.add_task(self.group)
        daemon = self._daemon()
        policy = str(self.group), os.getpid(), os.SCHED_RR, 2, False
        self._fails(errno.EPERM, daemon.set_policy, *policy)
        self._fails(errno.EINVAL, daemon.write, str(self.file), '900000')
        self._fails(errno.EEXIST, daemon.make_group, str(self.group))
        self._fails(
            errno.ENOENT, daemon.write, f'{self.group}/gone/cpu.rt.max', ''
        )
        self._fails(errno.EACCES, daemon.write, '/etc/passwd', '')
        daemon.write(str(self.file), '10000')
        daemon.set_policy(*policy)
        self._fails(errno.EBUSY, daemon.write, str(self.file), '0')

    def test_policy_needs_sys_nice(self):
        self.machine.add_task(self.group)
        daemon = self._daemon('capabilities = CAP_DAC_OVERRIDE')
        daemon.write(str(self.file), '10000')
        self._fails(
            errno.EPERM,
            daemon.set_policy,
            str(self.group),
            os.getpid(),
            os.SCHED_RR,
            2,
            False,
        )

    def test_aside(self):
        """It keeps the policy, and is an ordinary task in between."""
        daemon = self._daemon()
        daemon.write(str(self.file), '10000')
        task = self.machine.add_task(self.group)
        os.sched_setscheduler(task, os.SCHED_FIFO, os.sched_param(7))
        self._fails(errno.EBUSY, daemon.write, str(self.file), '0')
        daemon.write_aside(str(self.file), '9000')
        self.assertEqual(os.SCHED_FIFO, os.sched_getscheduler(task))
        self.assertEqual(7, os.sched_getparam(task).sched_priority)
        self._fails(errno.EINVAL, daemon.write_aside, str(self.file), '90000')
        self.assertEqual(os.SCHED_FIFO, os.sched_getscheduler(task))

    def test_partition_needs_dac_override(self):
        daemon = self._daemon('capabilities = CAP_SYS_NICE')
        path = self.machine.root / f'{self.machine.name}-partition'
        self.addCleanup(lambda: path.exists() and path.rmdir())
        self._fails(errno.EACCES, daemon.make_group, str(path))

# SPDX-License-Identifier: Apache-2.0
"""The privileged helper as it really runs, with the capabilities it has."""

import contextlib
import errno
from operator import gt
import os
import pathlib
import sys
import threading
import time

import fixtures
from oslo_config import cfg

from nova_rt.host import helpers
import nova_rt.privsep
import nova_rt.privsep.cgroup
from nova_rt.tests.host import machine

_HELPER = pathlib.Path(sys.executable).parent / 'privsep-helper'


def _held():
    """Descriptors and threads of this process."""
    return [len(os.listdir('/proc/self/fd')), threading.active_count()]


class EveryMachine:
    #: Texts that give a group 1 % of a CPU, 0.9 %, too much, and nothing.
    LITTLE, LESS, TOO_MUCH, NOTHING = '10000', '9000', '900000', '0'

    def setUp(self):
        super().setUp()
        self.group = self.machine.top / 'web'
        self.machine.make_group(self.group)
        self.file = self.group / self.machine.RUNTIME_FILE

    def _daemon(self, *settings):
        """Run the functions in a helper with these settings."""
        directory = self.useFixture(fixtures.TempDir()).path
        path = pathlib.Path(directory) / 'nova.conf'
        self.path = str(path)
        path.write_text(
            '\n'.join((
                '[nova_rt]', f'partition = {self.machine.partition}',
                '[nova_rt_privileged]', *settings,
            ))
        )  # fmt: skip
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
        daemon.write(str(self.file), self.LITTLE)
        daemon.set_policy(str(self.group), os.getpid(), os.SCHED_RR, 2, False)
        self.assertEqual(os.SCHED_RR, os.sched_getscheduler(task))
        probe = f'{self.machine.top}/nova-rt-probe-1'
        daemon.make_group(probe)
        daemon.remove_probe(probe)

    def test_ended_when_it_is_idle(self):
        """With what it had here, however often."""
        daemon = self._daemon()
        self.useFixture(fixtures.MockPatchObject(helpers, 'IDLE_S', 0))
        helper = helpers.Helper(nova_rt.privsep.rt_pctxt, 'of a test')
        most = [10_000, 10_000]
        for _ in range(4):
            helper.call(daemon.write, str(self.file), self.LITTLE)
            self.assertEqual(1, self._count_helpers())
            helper.end_if_idle()
            deadline = time.monotonic() + 60
            # What reads its log ends a little later than itself.
            while self._count_helpers() or any(map(gt, _held(), most)):
                self.assertLess(time.monotonic(), deadline, _held())
                time.sleep(0.05)
            most = _held()

    def _count_helpers(self):
        """Count the helpers with this test's configuration."""
        found = 0
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                found += self.path.encode() in path.read_bytes()
        return found

    def test_errors_keep_their_errno(self):
        self.machine.add_task(self.group)
        daemon = self._daemon()
        daemon.write(str(self.file), self.NOTHING)
        policy = str(self.group), os.getpid(), os.SCHED_RR, 2, False
        self._fails(errno.EPERM, daemon.set_policy, *policy)
        self._fails(errno.EINVAL, daemon.write, str(self.file), self.TOO_MUCH)
        self._fails(errno.EEXIST, daemon.make_group, str(self.machine.top))
        self._fails(
            errno.ENOENT,
            daemon.write,
            f'{self.group}/gone/{self.machine.RUNTIME_FILE}',
            '',
        )
        self._fails(errno.EACCES, daemon.write, '/etc/passwd', '')
        daemon.write(str(self.file), self.LITTLE)
        daemon.set_policy(*policy)
        self._fails(errno.EBUSY, daemon.write, str(self.file), self.NOTHING)

    def test_policy_needs_sys_nice(self):
        self.machine.add_task(self.group)
        daemon = self._daemon('capabilities = CAP_DAC_OVERRIDE')
        daemon.write(str(self.file), self.LITTLE)
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
        daemon.write(str(self.file), self.LITTLE)
        task = self.machine.add_task(self.group)
        os.sched_setscheduler(task, os.SCHED_FIFO, os.sched_param(7))
        self._fails(errno.EBUSY, daemon.write, str(self.file), self.NOTHING)
        daemon.write_aside(str(self.file), self.LESS)
        self.assertEqual(os.SCHED_FIFO, os.sched_getscheduler(task))
        self.assertEqual(7, os.sched_getparam(task).sched_priority)
        self._fails(
            errno.EINVAL, daemon.write_aside, str(self.file), self.TOO_MUCH
        )
        self.assertEqual(os.SCHED_FIFO, os.sched_getscheduler(task))

    def test_files_need_chown(self):
        os.chown(self.file, 100_000, 100_000)
        daemon = self._daemon('capabilities = CAP_SYS_NICE, CAP_DAC_OVERRIDE')
        self._fails(errno.EPERM, daemon.chown_to_root, str(self.group))
        self.assertEqual(100_000, self.file.stat().st_uid)

    def test_files_are_taken(self):
        """By the capabilities that it has, also from an odd mode."""
        os.chown(self.file, 100_000, 100_000)
        self.file.chmod(0o666)
        self._daemon().chown_to_root(str(self.group))
        found = self.file.stat()
        self.assertEqual(
            (0, 0, 0o644), (found.st_uid, found.st_gid, found.st_mode & 0o777)
        )

    def test_group_that_libvirt_has_left(self):
        """And not one that somebody is in."""
        daemon = self._daemon()
        group = self.machine.top / 'lxc-4194304-web.libvirt-lxc'
        inner = group / 'libvirt'
        for each in (group, inner):
            self.machine.make_group(each)
        # libvirt gives them to the container's root.
        os.chown(group, 100_000, 100_000)
        task = self.machine.add_task(inner)
        self._fails(errno.EBUSY, daemon.reclaim, str(group))
        self._fails(errno.EACCES, daemon.reclaim, str(self.group))
        self._fails(errno.EACCES, daemon.reclaim, str(inner))
        self.machine.remove_task(task)
        self._soon(daemon.reclaim, str(group))
        self.assertFalse(group.exists())
        self._fails(errno.ENOENT, daemon.reclaim, str(group))
        self.assertTrue(self.group.is_dir())

    @staticmethod
    def _soon(function, *args):
        """Once it has been there for some seconds."""
        for _ in range(200):
            try:
                return function(*args)
            except OSError as err:
                if err.errno != errno.EBUSY:
                    raise
            time.sleep(0.05)
        raise AssertionError(f'{args} stay busy')

    def test_confined_to_its_own_partition(self):
        """Whatever the caller's configuration says."""
        outside = self.machine.top.parent / f'{self.machine.name}-other'
        self.machine.make_group(outside)
        self.addCleanup(self.machine._remove, outside)
        daemon = self._daemon()
        cfg.CONF.set_override('partition', outside.name, group='nova_rt')
        file = outside / self.machine.RUNTIME_FILE
        before = file.read_text()
        self._fails(errno.EACCES, daemon.write, str(file), self.LITTLE)
        self._fails(errno.EACCES, daemon.chown_to_root, str(outside))
        self._fails(
            errno.EACCES, daemon.set_policy, str(outside), os.getpid(),
            os.SCHED_RR, 1, False,
        )  # fmt: skip
        self.assertEqual(before, file.read_text())

    def test_partition_needs_dac_override(self):
        path = self.machine.root / f'{self.machine.name}-partition'
        self.machine.set_partition(path)
        daemon = self._daemon('capabilities = CAP_SYS_NICE')
        self.addCleanup(lambda: path.exists() and path.rmdir())
        self._fails(errno.EACCES, daemon.make_group, str(path))


class V1ThrottlingTest(EveryMachine, machine.MachineTestCase):
    pass


class HCBSTest(EveryMachine, machine.MachineTestCase):
    MACHINE = machine.HCBSMachine

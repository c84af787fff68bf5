# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.privsep.cgroup: what it lets through."""

import errno
import os
import pathlib
import subprocess
import sys

import fixtures
from oslo_privsep import capabilities
from oslotest import base

import nova_rt.privsep
from nova_rt.privsep import cgroup


class ContextTest(base.BaseTestCase):
    def test_least_capabilities(self):
        # In a process of its own: the capabilities are defaults of the
        # global configuration, which fixtures of Nova's clear.
        program = (
            'import nova_rt.privsep as p; print(*p.rt_pctxt.conf.capabilities)'
        )
        answer = subprocess.run(
            [sys.executable, '-c', program],
            capture_output=True,
            check=True,
            text=True,
        )
        self.assertEqual(
            {capabilities.CAP_DAC_OVERRIDE, capabilities.CAP_SYS_NICE},
            {int(number) for number in answer.stdout.split()},
        )


class PrivilegedTest(base.BaseTestCase):
    """The functions as the daemon runs them, on a directory."""

    def setUp(self):
        super().setUp()
        context = nova_rt.privsep.rt_pctxt
        self.useFixture(
            fixtures.MockPatchObject(context, 'client_mode', False)
        )
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.root = self.top / 'cgroup'
        self.root.mkdir()
        for name, path in (('ROOT', self.root), ('PROC', self.top / 'proc')):
            self.useFixture(fixtures.MockPatchObject(cgroup, name, str(path)))
        self.group = self._group('cpu', 'machine', 'web')

    def _group(self, *names):
        path = self.root
        for name in names:
            path = path / name
            path.mkdir(exist_ok=True)
            (path / 'cgroup.procs').touch()
            (path / 'cpu.rt_runtime_us').touch()
        return path

    def _refused(self, function, *args, number=errno.EACCES):
        err = self.assertRaises(OSError, function, *args)
        self.assertEqual(number, err.errno)


class WriteTest(PrivilegedTest):
    def test_bandwidth(self):
        for name in ('cpu.rt_runtime_us', 'cpu.rt_period_us', 'cpu.rt.max'):
            path = self.group / name
            path.touch()
            cgroup.write(str(path), '1 2')
            self.assertEqual('1 2', path.read_text())

    def test_other_files(self):
        for name in ('cpu.shares', 'cgroup.procs', 'tasks', 'cpu.rt_runtime',
                     'cpu.rt.max.effective.local', 'cpuset.cpus'):  # fmt: skip
            (self.group / name).touch()
            self._refused(cgroup.write, str(self.group / name), '1')

    def test_controllers(self):
        path = self.group / 'cgroup.subtree_control'
        path.touch()
        cgroup.write(str(path), '+cpu')
        for text in ('-cpu', '+memory', '+cpu +memory'):
            self._refused(cgroup.write, str(path), text)

    def test_link_to_a_hierarchy(self):
        """As where /sys/fs/cgroup/cpu leads to cpu,cpuacct."""
        (self.root / 'link').symlink_to('cpu')
        cgroup.write(str(self.root / 'link/machine/cpu.rt_runtime_us'), '1')
        path = self.root / 'cpu/machine/cpu.rt_runtime_us'
        self.assertEqual('1', path.read_text())

    def test_outside(self):
        outside = self.top / 'etc'
        outside.mkdir()
        (outside / 'cgroup.procs').touch()
        (outside / 'cpu.rt_runtime_us').touch()
        (self.group / 'out').symlink_to(outside)
        for path in (
            outside / 'cpu.rt_runtime_us',
            self.group / 'out' / 'cpu.rt_runtime_us',
            self.group / '../../../../etc/cpu.rt_runtime_us',
        ):
            self._refused(cgroup.write, str(path), '1')
        self.assertEqual('', (outside / 'cpu.rt_runtime_us').read_text())

    def test_file_that_is_a_link(self):
        path = self.group / 'cpu.rt_period_us'
        path.symlink_to(self.top / 'secret')
        self._refused(cgroup.write, str(path), '1', number=errno.ELOOP)

    def test_gone(self):
        path = self.root / 'cpu/machine/gone/cpu.rt_runtime_us'
        self._refused(cgroup.write, str(path), '1', number=errno.ENOENT)

    def test_answer_of_the_kernel(self):
        def refuse(descriptor, data):
            raise OSError(errno.EBUSY, 'busy')

        path = str(self.group / 'cpu.rt_runtime_us')
        before = os.listdir('/proc/self/fd')
        with fixtures.MockPatch('os.write', refuse):
            self._refused(cgroup.write, path, '0', number=errno.EBUSY)
        self.assertEqual(len(before), len(os.listdir('/proc/self/fd')))


class GroupTest(PrivilegedTest):
    def test_make(self):
        cgroup.make_group(str(self.root / 'cpu/cloud'))
        self.assertTrue((self.root / 'cpu/cloud').is_dir())
        self._refused(
            cgroup.make_group,
            str(self.root / 'cpu/cloud'),
            number=errno.EEXIST,
        )

    def test_make_elsewhere(self):
        for path in (self.root / 'x', self.top / 'x', self.group / '..'):
            self._refused(cgroup.make_group, str(path))
        self._refused(cgroup.make_group, f'{self.group}/')

    def test_remove(self):
        probe = self.root / 'cpu/machine/nova-rt-probe-12'
        probe.mkdir()
        # A control group's files go with it; here they would stay.
        with fixtures.MockPatchObject(cgroup, '_group', lambda path: path):
            cgroup.remove_probe(str(probe))
        self.assertFalse(probe.exists())

    def test_remove_others(self):
        other = self._group('cpu', 'machine', 'nova-rt-probe-1x')
        for path in (self.group, other, f'{self.group}/nova-rt-probe-1/..'):
            self._refused(cgroup.remove_probe, str(path))


class PolicyTest(PrivilegedTest):
    def setUp(self):
        super().setUp()
        self.policies = {}
        self.set = []
        for name in ('sched_getscheduler', 'sched_setscheduler'):
            self.useFixture(
                fixtures.MonkeyPatch(f'os.{name}', getattr(self, name))
            )
        self._process(5, 6)
        self._tasks(5, 6, 70, 71)

    def sched_getscheduler(self, tid):
        if tid not in self.policies:
            raise ProcessLookupError(errno.ESRCH, 'gone')
        return self.policies[tid]

    def sched_setscheduler(self, tid, policy, param):
        self.set.append(tid)
        self.policies[tid] = (policy, param.sched_priority)

    def _process(self, *tids):
        for tid in tids:
            path = self.top / 'proc' / str(tids[0]) / 'task' / str(tid)
            path.mkdir(parents=True)

    def _tasks(self, *tids, name='tasks', group=None):
        text = ''.join(f'{tid}\n' for tid in tids)
        ((group or self.group) / name).write_text(text)
        for tid in tids:
            self.policies.setdefault(tid, os.SCHED_OTHER)

    def _give(self, policy=os.SCHED_RR, priority=3, group=None, inside=False):
        cgroup.set_policy(
            str(group or self.group), 5, policy, priority, inside
        )

    def test_tasks_but_not_the_controller(self):
        self._give()
        self.assertEqual({70, 71}, set(self.set))
        self.assertEqual((os.SCHED_RR, 3), self.policies[70])

    def test_cgroup_v2(self):
        (self.group / 'tasks').rename(self.group / 'cgroup.threads')
        self._give(os.SCHED_FIFO)
        self.assertEqual({70, 71}, set(self.set))

    def test_real_time_already(self):
        self.policies[70] = os.SCHED_FIFO
        self._give()
        self.assertEqual([71], self.set)

    def test_ends_meanwhile(self):
        del self.policies[70]
        self._give()
        self.assertEqual([71], self.set)

    def test_forks_meanwhile(self):
        def fork(tid, policy, param):
            self.sched_setscheduler(tid, policy, param)
            if tid < 75:
                self._tasks(5, 6, *range(70, tid + 2))

        self.useFixture(fixtures.MonkeyPatch('os.sched_setscheduler', fork))
        self._give()
        self.assertEqual(set(range(70, 76)), set(self.set))

    def test_forks_without_end(self):
        def fork(tid, policy, param):
            self._tasks(tid + 1)

        self.useFixture(fixtures.MonkeyPatch('os.sched_setscheduler', fork))
        self._refused(self._give, number=errno.EAGAIN)

    def test_answer_of_the_kernel(self):
        def refuse(tid, policy, param):
            raise PermissionError(errno.EPERM, 'no')

        self.useFixture(fixtures.MonkeyPatch('os.sched_setscheduler', refuse))
        self._refused(self._give, number=errno.EPERM)

    def test_nobodys_container(self):
        for group in (self.group.parent, self.root / 'cpu', self.root):
            self._refused(self._give, os.SCHED_RR, 3, group)
        self.assertEqual([], self.set)

    def test_other_policies(self):
        for policy, priority in (
            (os.SCHED_OTHER, 0), (6, 1), (os.SCHED_RR, 0), (os.SCHED_RR, 100)
        ):  # fmt: skip
            self._refused(self._give, policy, priority, number=errno.EINVAL)
        self.assertEqual([], self.set)

    def _nested(self, *tids):
        group = self._group('cpu', 'machine', 'web', 'init.scope')
        self._tasks(*tids, group=group)
        return group

    def test_groups_inside(self):
        self._nested(80)
        self._give()
        self.assertEqual({70, 71}, set(self.set))
        self._give(inside=True)
        self.assertEqual((os.SCHED_RR, 3), self.policies[80])

    def test_group_inside_that_keeps_real_time_tasks_out(self):
        self._nested(80)

        def refuse(tid, policy, param):
            if tid == 80:
                raise PermissionError(errno.EPERM, 'no')
            self.sched_setscheduler(tid, policy, param)

        self.useFixture(fixtures.MonkeyPatch('os.sched_setscheduler', refuse))
        self._give(inside=True)
        self.assertEqual({70, 71}, set(self.set))

    def test_group_inside_that_is_removed(self):
        self._nested(80)
        tasks = cgroup._tasks

        def gone(group):
            if group.endswith('init.scope'):
                raise OSError(errno.ENODEV, 'gone')
            return tasks(group)

        with fixtures.MockPatchObject(cgroup, '_tasks', gone):
            self._give(inside=True)
        self.assertEqual({70, 71}, set(self.set))

    def test_controller_gone(self):
        for path in sorted((self.top / 'proc').rglob('*'), reverse=True):
            path.rmdir()
        self._refused(self._give, number=errno.ENOENT)


class WriteAsideTest(PrivilegedTest):
    """Real-time tasks are ordinary ones while it is written."""

    def setUp(self):
        super().setUp()
        #: Policy and priority.
        self.policies = {
            70: (os.SCHED_FIFO, 9),
            71: (os.SCHED_OTHER, 0),
            80: (os.SCHED_RR | os.SCHED_RESET_ON_FORK, 4),
        }
        for name in ('getscheduler', 'getparam', 'setscheduler'):
            self.useFixture(
                fixtures.MonkeyPatch(f'os.sched_{name}', getattr(self, name))
            )
        inside = self._group('cpu', 'machine', 'web', 'init.scope')
        for group, tids in ((self.group, '70\n71\n'), (inside, '80\n')):
            (group / 'cgroup.threads').write_text(tids)
            (group / 'cpu.rt.max').touch()
        self.path = self.group / 'cpu.rt.max'
        self.before = dict(self.policies)
        #: Answers of the kernel, the first one first; then it accepts.
        self.answers = []
        #: What the policies were at each write.
        self.seen = []
        write = cgroup._write

        def answer(real, text):
            self.seen.append({tid: p for tid, (p, _) in
                              self.policies.items()})  # fmt: skip
            if self.answers:
                number = self.answers.pop(0)
                if number:
                    raise OSError(number, 'refused')
            write(real, text)

        self.useFixture(fixtures.MockPatchObject(cgroup, '_write', answer))

    def _known(self, tid):
        if tid not in self.policies:
            raise ProcessLookupError(errno.ESRCH, 'gone')
        return self.policies[tid]

    def getscheduler(self, tid):
        return self._known(tid)[0]

    def getparam(self, tid):
        return os.sched_param(self._known(tid)[1])

    def setscheduler(self, tid, policy, param):
        self._known(tid)
        self.policies[tid] = policy, param.sched_priority

    def test_aside(self):
        cgroup.write_aside(str(self.path), '600 1000')
        self.assertEqual('600 1000', self.path.read_text())
        self.assertEqual([dict.fromkeys((70, 71, 80), os.SCHED_OTHER)],
                         self.seen)  # fmt: skip
        self.assertEqual(self.before, self.policies)

    def test_refused(self):
        for number in (errno.EBUSY, errno.EPERM):
            self.answers = [number]
            self._refused(
                cgroup.write_aside, str(self.path), '6 10', number=number
            )
            self.assertEqual(self.before, self.policies)

    def test_real_time_meanwhile(self):
        """It is tried again while there are any."""
        get = cgroup._tasks_inside

        def another(group):
            if len(self.seen) == 1:
                self.policies[71] = (os.SCHED_RR, 2)
            return get(group)

        self.answers = [errno.EINVAL]
        with fixtures.MockPatchObject(cgroup, '_tasks_inside', another):
            cgroup.write_aside(str(self.path), '600 1000')
        self.assertEqual(2, len(self.seen))
        self.assertEqual((os.SCHED_RR, 2), self.policies[71])
        self.assertEqual((os.SCHED_FIFO, 9), self.policies[70])

    def test_numbers_refused(self):
        """Without tasks in the way, EINVAL is the answer."""
        self.answers = [errno.EINVAL] * 3
        self._refused(
            cgroup.write_aside, str(self.path), '6 1', number=errno.EINVAL
        )
        self.assertEqual(2, len(self.seen))
        self.assertEqual(self.before, self.policies)

    def test_without_end(self):
        def again(group):
            self.policies[71] = (os.SCHED_RR, 2)
            return {71}

        self.answers = [errno.EINVAL] * 1000
        with fixtures.MockPatchObject(cgroup, '_tasks_inside', again):
            self._refused(
                cgroup.write_aside, str(self.path), '6 10',
                number=errno.EAGAIN,
            )  # fmt: skip

    def test_ends_meanwhile(self):
        self.answers = [0]
        write = cgroup._write

        def end(real, text):
            write(real, text)
            del self.policies[70]

        with fixtures.MockPatchObject(cgroup, '_write', end):
            cgroup.write_aside(str(self.path), '600 1000')
        self.assertEqual(self.before, {70: self.before[70], **self.policies})

    def test_other_paths(self):
        for path in (
            self.group / 'cgroup.threads', self.top / 'cpu.rt.max',
            self.group.parent / 'cpu.rt.max', self.root / 'cpu.rt.max',
        ):  # fmt: skip
            path.touch()
            self._refused(cgroup.write_aside, str(path), '1 2')
        self.assertEqual([], self.seen)

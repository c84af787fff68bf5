# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.privsep: what is done, and above all what is not.

On a directory tree in the place of the control groups.
"""

import errno
import inspect
import itertools
import os
import pathlib
import subprocess
import sys

import fixtures
from oslo_privsep import capabilities
from oslotest import base

import nova_rt.privsep
from nova_rt.privsep import cgroup, kernel, paths

#: Everything that the helper is asked for.
FUNCTIONS = ('answer', 'write', 'write_aside', 'make_group', 'remove_probe',
             'reclaim', 'chown_to_root', 'move_tasks_to_cpuset', 'limit_tasks',
             'sweep_task_limits', 'set_policy')  # fmt: skip


#: Files of a group.
FILES = ('cpu.rt_runtime_us', 'cpu.rt_period_us', 'cpu.rt.max', 'cpuset.cpus',
         'cpu.rt.spare', 'cpu.rt.spare.max', 'cpu.shares', 'cpuset.mems',
         'cgroup.procs', 'cgroup.subtree_control')  # fmt: skip


def _here():
    """Make a process import what this one does."""
    path = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, 'PYTHONPATH': path}


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
            env=_here(),
            text=True,
        )
        self.assertEqual(
            {capabilities.CAP_CHOWN, capabilities.CAP_DAC_OVERRIDE,
             capabilities.CAP_SYS_NICE},
            {int(number) for number in answer.stdout.split()},
        )  # fmt: skip

    def test_every_function_of_the_guard(self):
        """The guard's functions are the entry points, and nothing else is."""
        self.assertEqual(
            {*FUNCTIONS},
            {name for name in vars(cgroup.CgroupHelper) if name[0] != '_'},
        )
        found = {
            name
            for name, value in vars(cgroup).items()
            if nova_rt.privsep.rt_pctxt.is_entrypoint(value)
        }
        self.assertEqual({*FUNCTIONS}, found)


class Tree(kernel.SystemCalls):
    """A directory tree that passes for control groups."""

    partition = 'machine'

    def __init__(self, top, unified=False):
        self.cgroup = str(top / 'cgroup')
        self.proc = str(top / 'proc')
        self.unified = unified
        self.taken = []
        self.policies = {}
        self.set = []

    def holds_groups(self, directory):
        path = os.readlink(f'/proc/self/fd/{directory}')
        return path.startswith(self.cgroup) and (
            self.unified or path != self.cgroup
        )

    def take(self, descriptor):
        self.taken.append(os.readlink(f'/proc/self/fd/{descriptor}'))

    def take_file(self, directory, name):
        path = os.readlink(f'/proc/self/fd/{directory}')
        self.taken.append(os.path.join(path, name))

    def get_policy(self, tid):
        if tid not in self.policies:
            raise ProcessLookupError(errno.ESRCH, 'gone')
        return self.policies[tid]

    def set_policy(self, tid, policy, priority):
        self.get_policy(tid)
        self.set.append(tid)
        self.policies[tid] = policy, priority


class TreeTestCase(base.BaseTestCase):
    UNIFIED = False
    HIERARCHY: tuple[str, ...] = ('cpu',)
    TASKS = 'tasks'

    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.root = self.top / 'cgroup'
        self.root.mkdir()
        self.kernel = Tree(self.top, self.UNIFIED)
        self.guard = cgroup.CgroupHelper(self.kernel)
        self.group = self._group(*self.HIERARCHY, 'machine', 'web')
        self.partition = self.group.parent
        self.other = self._group(*self.HIERARCHY, 'system.slice', 'sshd')

    def _group(self, *names):
        path = self.root
        for name in names:
            path = path / name
            path.mkdir(exist_ok=True)
            (path / self.TASKS).touch()
            for file in FILES:
                (path / file).touch()
        return path

    def _process(self, tid, group, policy=(os.SCHED_OTHER, 0)):
        """A task in a group; None for none of any."""
        path = self.top / 'proc' / str(tid)
        (path / 'task' / str(tid)).mkdir(parents=True, exist_ok=True)
        below = ''
        if group is not None:
            below = group.relative_to(self.root.joinpath(*self.HIERARCHY))
            with (group / self.TASKS).open('a') as tasks:
                tasks.write(f'{tid}\n')
        lines = f'0::/{below}\n' if self.UNIFIED else (
            f'4:cpu,cpuacct:/{below}\n3:cpuset:/{below}\n0::/\n')  # fmt: skip
        (path / 'cgroup').write_bytes(os.fsencode(lines))
        self._set_state(tid, 'S')
        self.kernel.policies.setdefault(tid, policy)

    def _set_state(self, tid, state, ran=0):
        """As in proc_pid_stat(5), with the CPU time in clock ticks."""
        times = f'{ran - ran // 2} {ran // 2}'
        stat = f'{tid} (a (name) R) {state} {"1 " * 10}{times} 1 1\n'
        (self.top / 'proc' / str(tid) / 'stat').write_text(stat)

    def _end(self, tid):
        path = self.top / 'proc' / str(tid)
        for each in sorted(path.rglob('*'), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        path.rmdir()
        self.kernel.policies.pop(tid, None)

    def _fails(self, number, name, *args):
        err = self.assertRaises(OSError, getattr(self.guard, name), *args)
        self.assertEqual(number, err.errno, str(err))
        return str(err)

    def _all_refuse(self, path, number=errno.EACCES):
        """Every function refuses a path as it does a foreign one."""
        path = str(path)
        self._fails(number, 'write', f'{path}/cpu.rt_runtime_us', '1')
        self._fails(number, 'write', f'{path}/cpu.rt.max', '1')
        self._fails(number, 'write', f'{path}/cpuset.cpus', '1')
        self._fails(number, 'write_aside', f'{path}/cpu.rt.max', '1')
        self._fails(number, 'write_aside', f'{path}/cpu.rt_runtime_us', '1')
        self._fails(number, 'make_group', path)
        self._fails(number, 'remove_probe', path)
        self._fails(number, 'reclaim', path)
        self._fails(number, 'chown_to_root', path)
        self._fails(number, 'move_tasks_to_cpuset', path)
        self._fails(number, 'limit_tasks', path, 5)
        self._process(5, None)
        self._fails(number, 'set_policy', path, 5, os.SCHED_RR, 1, True)
        self.assertEqual([], self.kernel.set)
        self.assertEqual([], self.kernel.taken)


class PartitionTest(base.BaseTestCase):
    """It is read where the functions run, from their own configuration."""

    def test_default(self):
        self.assertIn(
            kernel.SystemCalls().partition, ('machine', 'machine.slice')
        )

    def test_no_parameter_of_any_function(self):
        for name in FUNCTIONS:
            taken = inspect.signature(getattr(cgroup, name).args[0])
            self.assertNotIn('partition', taken.parameters)

    def test_in_a_helper(self):
        """As privsep-helper reads it: from several files."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (directory / 'a.conf').write_text('[nova_rt]\npartition = one\n')
        (directory / 'b.conf').write_text('[nova_rt]\npartition = two/x\n')
        program = (
            'import sys; from oslo_config import cfg; '
            'cfg.CONF(args=sys.argv[1:], project="privsep"); '
            'from nova_rt.privsep import kernel; '
            'print(kernel.SystemCalls().partition)'
        )
        answer = subprocess.run(
            [sys.executable, '-c', program,
             '--config-file', str(directory / 'a.conf'),
             '--config-file', str(directory / 'b.conf')],
            capture_output=True, check=True, env=_here(), text=True,
        )  # fmt: skip
        self.assertEqual('two/x', answer.stdout.strip())


class WriteTest(TreeTestCase):
    def test_bandwidth(self):
        for group in (self.group, self.partition):
            for name in ('cpu.rt_runtime_us', 'cpu.rt_period_us'):
                self.guard.write(str(group / name), '12')
                self.assertEqual('12', (group / name).read_text())

    def test_other_files(self):
        for name in (
            'cpu.shares', 'cgroup.procs', 'tasks', 'cpu.rt_runtime',
            'cpu.rt.max', 'cpuset.cpus', 'release_agent',
            'cpu.rt_runtime_us\n', 'cgroup.subtree_control',
        ):  # fmt: skip
            for text in ('1', '+cpu'):
                path = str(self.group / name)
                self._fails(errno.EACCES, 'write', path, text)

    def test_cpus(self):
        group = self._group('cpuset', 'machine', 'web')
        for each in (group, group.parent):
            self.guard.write(str(each / 'cpuset.cpus'), '0-3,7')
            self.assertEqual('0-3,7', (each / 'cpuset.cpus').read_text())
            for name in (
                'cpuset.mems',
                'cpuset.cpu_exclusive',
                'tasks',
                'cpu.rt_runtime_us',
                'cpuset.sched_load_balance',
            ):
                self._fails(errno.EACCES, 'write', str(each / name), '0')
        for text in ('', 'x', '1 2', '1\n', '\u0661'):
            path = str(group / 'cpuset.cpus')
            self._fails(errno.EACCES, 'write', path, text)

    def test_link_to_a_hierarchy(self):
        """As where /sys/fs/cgroup/cpu leads to cpu,cpuacct."""
        (self.root / 'cpu').rename(self.root / 'cpu,cpuacct')
        (self.root / 'cpu').symlink_to('cpu,cpuacct')
        path = self.root / 'cpu/machine/web/cpu.rt_runtime_us'
        self.guard.write(str(path), '1')
        self.assertEqual('1', path.read_text())

    def test_other_hierarchy(self):
        for name in ('memory', 'cpu,cpuacct', 'devices', 'unified', 'machine'):
            self._group(name, 'machine', 'web')
            self._all_refuse(self.root / name / 'machine' / 'web')

    def test_file_that_is_a_link(self):
        path = self.group / 'cpu.rt_period_us'
        path.unlink()
        path.symlink_to(self.top / 'secret')
        self._fails(errno.ELOOP, 'write', str(path), '1')

    def test_gone(self):
        path = self.partition / 'gone/cpu.rt_runtime_us'
        self._fails(errno.ENOENT, 'write', str(path), '1')
        (self.group / 'cpu.rt_period_us').unlink()
        path = self.group / 'cpu.rt_period_us'
        self._fails(errno.ENOENT, 'write', str(path), '1')
        self.assertFalse(path.exists())

    def test_answer_of_the_kernel(self):
        def refuse(descriptor, data):
            raise OSError(errno.EBUSY, 'busy')

        path = str(self.group / 'cpu.rt_runtime_us')
        before = os.listdir('/proc/self/fd')
        with fixtures.MockPatch('os.write', refuse):
            self._fails(errno.EBUSY, 'write', path, '0')
        self.assertEqual(len(before), len(os.listdir('/proc/self/fd')))

    def test_refusal_says_the_partition(self):
        """An operator whose helper has another configuration sees it."""
        self.kernel.partition = 'cloud'
        text = self._fails(
            errno.EACCES, 'write', str(self.group / 'cpu.rt_period_us'), '1'
        )
        self.assertIn("works in 'cloud' alone", text)


class UnifiedTest(TreeTestCase):
    """Cgroup v2."""

    UNIFIED = True
    HIERARCHY = ()
    TASKS = 'cgroup.threads'

    def test_what_may_be_written(self):
        inside = self._group('machine', 'web', 'init.scope')
        for path in self.group.iterdir():
            if path.is_file():
                (self.root / path.name).touch()
        control = 'cgroup.subtree_control', '+cpu'
        may = {
            (group, *each)
            for group in (self.group, inside)
            for each in (('cpu.rt.max', '1 2'), ('cpuset.cpus', '0-1'))
        }
        may |= {
            (group, *control)
            for group in (self.root, self.partition, self.group, inside)
        }
        for case in itertools.product(
            (self.root, self.partition, self.group, inside, self.other),
            (path.name for path in self.group.iterdir() if path.is_file()),
            ('+cpu', '-cpu', '+memory', '+cpu +memory', '0-1', '1 2', 'max'),
        ):
            group, name, text = case
            if case in may or (
                'web' in group.parts
                if name in ('cpu.rt.max', 'cpu.rt.spare')
                else group == self.partition and name == 'cpu.rt.spare.max'
            ):
                self.guard.write(str(group / name), text)
            else:
                path = str(group / name)
                self._fails(errno.EACCES, 'write', path, text)

    def test_partition_in_a_group(self):
        self.kernel.partition = 'a/b'
        group = self._group('a', 'b', 'web')
        self.guard.write(str(group / 'cpu.rt.max'), '1 2')
        control = 'cgroup.subtree_control'
        self.guard.write(str(group.parent.parent / control), '+cpu')
        for path in (self.root, group.parent.parent):
            self._fails(errno.EACCES, 'write', f'{path}/cpu.rt.max', '1 2')
        self._fails(errno.EACCES, 'write', f'{self.root}/{control}', '+cpu')

    def test_no_other_hierarchies(self):
        """A group that is called like one is a group."""
        self._group('cpu', 'machine', 'web')
        self._all_refuse(self.root / 'cpu' / 'machine' / 'web')


class HostilePathTest(TreeTestCase):
    """No path that a caller can write leads anywhere else."""

    def test_elsewhere(self):
        for group in (
            self.root, self.root / 'cpu', self.other, self.other.parent,
            self.top, '/', '/etc', '/proc/self/root', '/sys/fs/cgroup',
        ):  # fmt: skip
            self._all_refuse(group)
        self.assertEqual('', (self.other / 'cpu.rt_runtime_us').read_text())

    def test_partition_is_nobodys_container(self):
        self._process(70, self.partition)
        self._process(5, None)
        path = str(self.partition)
        for name, args in (
            ('set_policy', (5, os.SCHED_RR, 1, True)), ('chown_to_root', ()),
            ('move_tasks_to_cpuset', ()), ('reclaim', ()),
        ):  # fmt: skip
            self._fails(errno.EACCES, name, path, *args)
        path = f'{path}/cpu.rt_runtime_us'
        self._fails(errno.EACCES, 'write_aside', path, '1')

    def test_every_mutilation_of_a_good_path(self):
        """Words put between, before and after those of a good one."""
        good = str(self.group).split('/')
        words = ('..', '.', '', '../..', 'x/..', '\0', 'web\0', '\n', '~',
                 '/etc', '../../../../../../../../../etc', '\udcff', 'x' * 256,
                 '*', '%2e%2e', '‥', 'machine/..')  # fmt: skip
        harmless = {'*', '%2e%2e', '‥', '~'}
        count = 0
        for place, word in itertools.product(range(len(good) + 1), words):
            path = '/'.join([*good[:place], word, *good[place:]])
            # A plain name in the partition is a group, of which there is none.
            inside = path.startswith(f'{self.partition}/')
            if inside and word in harmless:
                self._fails(
                    errno.ENOENT, 'write', f'{path}/cpu.rt_runtime_us', '1'
                )
                continue
            self._all_refuse(path)
            count += 1
        self.assertGreater(count, 100)

    def test_relative(self):
        os.chdir(self.root)
        self.addCleanup(os.chdir, '/')
        self._all_refuse('cpu/machine/web')
        self._all_refuse('./cpu/machine/web')

    def test_prefix_is_not_enough(self):
        """machine2 is not in machine, cgroup2 not in cgroup."""
        self._all_refuse(self._group('cpu', 'machine2', 'web'))
        self._all_refuse(self._group('cpu', 'machin', 'web'))
        (self.top / 'cgroup2').mkdir()
        self._all_refuse(f'{self.root}2/cpu/machine/web')

    def test_what_is_no_text(self):
        for path in (None, 7, b'/sys/fs/cgroup', ['a'], {}):
            self._fails(errno.EACCES, 'write', path, '1')
            self._fails(errno.EACCES, 'make_group', path)

    def test_links_on_the_way(self):
        outside = self._group('cpu', 'system.slice', 'web')
        for link, to, path in (
            (self.partition / 'a', outside, self.partition / 'a'),
            (self.group / 'b', '../../system.slice', self.group / 'b' / 'web'),
            (self.group / 'c', '/etc', self.group / 'c'),
            (self.group / 'd', '..', self.group / 'd' / 'web'),
            # Even one that leads nowhere else.
            (self.group / 'e', '../web', self.group / 'e'),
        ):
            link.symlink_to(to)
            self._fails(
                errno.EACCES, 'write', f'{path}/cpu.rt_runtime_us', '1'
            )
            self._fails(errno.EACCES, 'chown_to_root', str(path))
        self.assertEqual('', (outside / 'cpu.rt_runtime_us').read_text())
        self.assertEqual([], self.kernel.taken)

    def test_partition_that_is_a_link(self):
        self.partition.rename(self.root / 'cpu' / 'real')
        (self.root / 'cpu' / 'machine').symlink_to('system.slice')
        self._all_refuse(self.root / 'cpu' / 'machine' / 'sshd')

    def test_no_control_groups_there(self):
        """/sys/fs/cgroup/cpu is an ordinary directory."""
        self.kernel.holds_groups = lambda directory: False
        self._all_refuse(self.group)

    def test_real_file_systems(self):
        """As the kernel says what is mounted; groups are in none of these."""
        real = kernel.SystemCalls()
        for path, expected in (('/', False), ('/proc', False),
                               (str(self.top), False)):  # fmt: skip
            descriptor = os.open(path, os.O_RDONLY)
            self.addCleanup(os.close, descriptor)
            self.assertEqual(expected, real.holds_groups(descriptor))

    def test_directory_that_is_swapped_for_a_link(self):
        """Before any of the calls that open something, one after another."""
        target = self._group('cpu', 'system.slice', 'web')
        spare = self.partition / 'spare'
        really_open = os.open
        answers = []

        def write(at):
            """Swap the group at that call; count them all."""
            calls = []

            def swap_and_open(*args, **kwargs):
                if len(calls) == at:
                    self.group.rename(spare)
                    self.group.symlink_to(target)
                calls.append(args)
                return really_open(*args, **kwargs)

            with fixtures.MonkeyPatch('os.open', swap_and_open):
                try:
                    path = str(self.group / 'cpu.rt_runtime_us')
                    self.guard.write(path, '1')
                    answers.append(0)
                except OSError as err:
                    answers.append(err.errno)
            if self.group.is_symlink():
                self.group.unlink()
                spare.rename(self.group)
            return len(calls)

        count = write(None)
        self.assertGreater(count, 4)
        for at in range(count):
            write(at)
        self.assertEqual('', (target / 'cpu.rt_runtime_us').read_text())
        # Too early, it is seen; too late, the group is written to.
        self.assertEqual({0, errno.EACCES}, set(answers))

    def test_directory_that_is_swapped_once_it_was_judged(self):
        """The descriptor stays the group's."""
        group, _ = paths.split(self.kernel, f'{self.group}/tasks')
        with paths.opened(self.kernel, group) as directory:
            self.group.rename(self.partition / 'moved')
            self.group.symlink_to(self.other)
            self.kernel.write(directory, 'cpu.rt_runtime_us', '7')
        self.assertEqual('', (self.other / 'cpu.rt_runtime_us').read_text())
        path = self.partition / 'moved' / 'cpu.rt_runtime_us'
        self.assertEqual('7', path.read_text())


class GroupTest(TreeTestCase):
    def test_make_the_partition(self):
        self.kernel.partition = 'cloud'
        self.guard.make_group(str(self.root / 'cpu/cloud'))
        self.assertTrue((self.root / 'cpu/cloud').is_dir())
        path = str(self.root / 'cpu/cloud')
        self._fails(errno.EEXIST, 'make_group', path)

    def test_make_and_remove_a_probe(self):
        path = self.partition / 'nova-rt-probe-12'
        self.guard.make_group(str(path))
        self.assertTrue(path.is_dir())
        self.guard.remove_probe(str(path))
        self.assertFalse(path.exists())

    def test_make_others(self):
        for path in (
            self.root / 'x', self.root / 'cpu/x', self.partition / 'x',
            self.group / 'nova-rt-probe-1', self.partition / 'nova-rt-probe-',
            self.root / 'cpuset/machine/nova-rt-probe-1', f'{self.partition}/',
            self.root / 'cpu/nova-rt-probe-1',
        ):  # fmt: skip
            self._fails(errno.EACCES, 'make_group', str(path))

    def test_remove_others(self):
        other = self._group('cpu', 'machine', 'nova-rt-probe-1x')
        for path in (self.group, other, self.partition, self.other,
                     f'{self.group}/nova-rt-probe-1'):  # fmt: skip
            self._fails(errno.EACCES, 'remove_probe', str(path))


class TakeFilesTest(TreeTestCase):
    def test_the_group_first_and_all_files(self):
        files = sorted(path for path in self.group.iterdir() if path.is_file())
        (self.group / 'cpu.rt.link').symlink_to('/etc/passwd')
        (self.group / 'cpu.rt.directory').mkdir()
        self.guard.chown_to_root(str(self.group))
        self.assertEqual(
            [str(path) for path in (self.group, *files)], self.kernel.taken
        )

    def test_real_file(self):
        if os.geteuid() != 0:
            self.skipTest('needs root')
        path = self.group / 'cpu.rt.max'
        os.chown(path, 1000, 1000)
        path.chmod(0o666)
        descriptor = os.open(self.group, os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        kernel.SystemCalls().take_file(descriptor, path.name)
        found = path.stat()
        self.assertEqual(
            (0, 0, 0o644), (found.st_uid, found.st_gid, found.st_mode & 0o777)
        )
        link = self.group / 'cpu.rt.link'
        link.symlink_to(path)
        err = self.assertRaises(
            OSError, kernel.SystemCalls().take_file, descriptor, link.name
        )
        self.assertEqual(errno.ELOOP, err.errno)

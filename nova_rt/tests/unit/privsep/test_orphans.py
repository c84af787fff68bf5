# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.privsep.orphans: what it removes, and above all keeps.

On a directory tree in the place of the control groups.
"""

import errno
import os
import time

import ddt
import fixtures
from oslotest import base

from nova_rt.privsep import kernel, orphans
from nova_rt.tests.unit.privsep import test_cgroup

NAME = 'lxc-8530-instance-0000005d.libvirt-lxc'
SCOPE = r'machine-lxc\x2d8530\x2dinstance\x2d0000005d.scope'


@ddt.ddt
class NameTest(base.BaseTestCase):
    """Names that libvirt gives to containers, and others."""

    @ddt.data(
        (NAME, 8530),
        (SCOPE, 8530),
        ('lxc-1-web.libvirt-lxc', 1),
        ('lxc-4194304-a.b-c.libvirt-lxc', 4194304),
        # A domain's name may end like a group's.
        ('lxc-7-a.libvirt-lxc.libvirt-lxc', 7),
        (f'lxc-7-{"x" * 58}.libvirt-lxc', 7),
        (r'machine-lxc\x2d7\x2da.b.scope', 7),
    )
    @ddt.unpack
    def test_of_a_container(self, name, pid):
        self.assertEqual(pid, orphans.read_pid(name))

    @ddt.data(
        '', 'web', 'lxc', '.libvirt-lxc', 'lxc-8530.libvirt-lxc',
        'lxc-8530-.libvirt-lxc', 'lxc--web.libvirt-lxc',
        'lxc-0-web.libvirt-lxc', 'lxc-08-web.libvirt-lxc',
        'lxc--8-web.libvirt-lxc', 'lxc-8 -web.libvirt-lxc',
        'lxc-12345678-web.libvirt-lxc', 'lxc-٣-web.libvirt-lxc',
        'lxc-8-web', 'lxc-8-web.libvirt-lxc\n', '\nlxc-8-web.libvirt-lxc',
        'lxc-8-we b.libvirt-lxc', 'lxc-8-w_b.libvirt-lxc',
        'lxc-8-wéb.libvirt-lxc', 'lxc-8-.web.libvirt-lxc',
        'lxc-8-web-.libvirt-lxc', 'lxc-8-we..b.libvirt-lxc',
        'lxc-8-we-.b.libvirt-lxc', 'lxc-8-../web.libvirt-lxc',
        'LXC-8-web.libvirt-lxc', 'xlxc-8-web.libvirt-lxc',
        'lxc-8-web.libvirt-qemu', 'qemu-8-web.libvirt-qemu',
        'lxc-8-web.libvirt-lxc.partition', '_lxc-8-web.libvirt-lxc',
        f'lxc-7-{"x" * 59}.libvirt-lxc',
        'nova-rt-probe-8', 'machine-lxc-8-web.scope', 'lxc-8-web.scope',
        r'machine-qemu\x2d8\x2dweb.scope', r'lxc\x2d8\x2dweb.libvirt-lxc',
        r'machine-lxc\x2d8\x2dweb.service', r'machine-lxc\x2d8.scope',
        r'machine-lxc\x2d8\x2dweb\x2d.scope', r'machine-lxc\x2D8\x2Dweb.scope',
        r'machine-lxc\x2d8\x2dw\x2fb.scope', 'machine-.scope', 'user.slice',
    )  # fmt: skip
    def test_of_nobody(self, name):
        self.assertIsNone(orphans.read_pid(name))


class Tree(test_cgroup.Tree):
    """Groups are removed as the kernel does it, with their files."""

    #: Group -> how old it is, in seconds; otherwise a minute.
    ages: dict[str, float]
    #: Is called before a group is removed, with its path.
    before = None

    def read_age_s(self, directory):
        return self.ages.get(os.readlink(f'/proc/self/fd/{directory}'), 60)

    def remove_group(self, directory, name):
        path = os.path.join(os.readlink(f'/proc/self/fd/{directory}'), name)
        if self.before is not None:
            self.before(path)
        if not os.path.isdir(path):
            raise FileNotFoundError(errno.ENOENT, path)
        files = [os.path.join(path, each) for each in os.listdir(path)]
        used = any(
            os.path.basename(each) in ('tasks', 'cgroup.threads')
            and os.path.getsize(each)
            for each in files
        )
        if used or any(
            os.path.isdir(each) and not os.path.islink(each) for each in files
        ):
            raise OSError(errno.EBUSY, path)
        for each in files:
            os.unlink(each)
        os.rmdir(path)


class EveryTree:
    """Tests for cgroup v1 and v2."""

    def setUp(self):
        super().setUp()
        self.kernel.__class__ = Tree
        self.kernel.ages = {}
        self.group = self.make()

    def make(self, *names):
        return self._group(*self.HIERARCHY, 'machine', NAME, *names)

    def name_process(self, pid, name, state='S', group=None):
        self._process(pid, group)
        stat = self.top / 'proc' / str(pid) / 'stat'
        stat.write_text(f'{pid} ({name}) {state} 1 1 1\n')

    def reclaim(self, group=None):
        self.guard.reclaim(str(group or self.group))

    def kept(self, number=errno.EBUSY, group=None):
        text = self._fails(number, 'reclaim', str(group or self.group))
        self.assertTrue(self.group.is_dir())
        return text

    def test_removed(self):
        for names in (('a',), ('a', 'b'), ('a', 'c'), ('d',), ('d', 'e')):
            self.make(*names)
        scope = self._group(*self.HIERARCHY, 'machine', SCOPE, 'libvirt')
        for group in (self.group, scope.parent):
            self.reclaim(group)
            self.assertFalse(group.exists())
            self._fails(errno.ENOENT, 'reclaim', str(group))
        self.assertTrue(self.partition.is_dir())
        self.assertTrue((self.partition / 'web').is_dir())

    def test_nested_deeper_than_any_path(self):
        directory = os.open(self.group, os.O_RDONLY)
        for _ in range(50):
            os.mkdir('x' * 100, dir_fd=directory)
            inner = os.open('x' * 100, os.O_RDONLY, dir_fd=directory)
            os.close(directory)
            directory = inner
            os.close(
                os.open(self.TASKS, os.O_CREAT | os.O_RDWR, dir_fd=directory)
            )
        self.addCleanup(os.system, f'rm -rf {self.group}')
        tasks = os.open(self.TASKS, os.O_RDWR, dir_fd=directory)
        os.write(tasks, b'7\n')
        os.close(tasks)
        os.close(directory)
        descriptors = len(os.listdir('/proc/self/fd'))
        self.assertIn('has tasks', self.kept())
        self.assertEqual(descriptors, len(os.listdir('/proc/self/fd')))

    def test_tasks(self):
        self._process(70, self.group)
        self.assertIn('has tasks', self.kept())

    def test_tasks_in_a_nested_group(self):
        """Nothing at all is removed, not even what could be."""
        made = [self.make(*names) for names in (
            ('a',), ('a', 'b'), ('c',), ('c', 'd'), ('e',),
        )]  # fmt: skip
        self._process(70, made[3])
        self.kernel.before = self.fail
        self.assertIn('has tasks', self.kept())
        for group in made:
            self.assertTrue(group.is_dir())

    def test_task_comes_meanwhile(self):
        """The kernel answers; what comes later in the order stays."""
        self.make('a')

        def come(path):
            with (self.group / self.TASKS).open('w') as file:
                file.write('70\n')

        self.kernel.before = come
        self.kept()

    def test_libvirt_is_faster(self):
        self.make('a')

        def vanish(path):
            self.kernel.before = None
            self.kernel.remove_group(
                os.open(os.path.dirname(path), os.O_RDONLY),
                os.path.basename(path),
            )

        self.kernel.before = vanish
        self.reclaim()
        self.assertFalse(self.group.exists())

    def test_process_of_that_number(self):
        """libvirt_lxc makes the group first, and then moves itself there."""
        container = self._group(
            *self.HIERARCHY, 'machine', 'lxc-8530-other.libvirt-lxc'
        )
        for name, state, group, kept in (
            ('libvirt_lxc', 'S', self.other, True),
            ('libvirt_lxc', 'Z', None, False),
            ('sshd', 'S', self.other, False),
            ('libvirt_lxc', 'S', container, False),
        ):
            with self.subTest(name=name, state=state, group=group):
                self.make()
                self.name_process(8530, name, state, group)
                if kept:
                    self.assertIn('8530', self.kept())
                else:
                    self.reclaim()
                    self.assertFalse(self.group.exists())
        self._fails(errno.EBUSY, 'reclaim', str(container))
        # It ends while it is looked at.
        self.make()
        self._end(8530)
        (self.top / 'proc' / '8530').mkdir()
        self.reclaim()
        self.assertFalse(self.group.exists())

    def test_new(self):
        for age in (0, 4.9, -3, -1e9):
            self.kernel.ages[str(self.group)] = age
            self.assertIn('starts', self.kept())
        self.kernel.ages[str(self.group)] = orphans.SETTLED_S
        self.reclaim()

    def test_real_age(self):
        """The other times can be set, by the container's root, too."""
        real = kernel.SystemCalls.read_age_s
        self.useFixture(
            fixtures.MonkeyPatch(f'{__name__}.Tree.read_age_s', real)
        )
        self.useFixture(fixtures.MockPatchObject(orphans, 'SETTLED_S', 3600))
        for then in (0, 2**32):
            os.utime(self.group, (then, then))
            self.kept()
        self.useFixture(fixtures.MockPatchObject(orphans, 'SETTLED_S', 0.3))
        time.sleep(0.4)
        self.reclaim()

    def test_other_groups(self):
        """Whatever their name, they are not containers' or not here."""
        inner = self.make('a')
        deeper = self._group(*self.HIERARCHY, 'machine', 'x.partition', NAME)
        outside = self._group(*self.HIERARCHY, 'system.slice', NAME)
        beside = self._group(*self.HIERARCHY, NAME)
        foreign = self._group(*self.HIERARCHY, 'machine', 'sshd')
        probe = self._group(*self.HIERARCHY, 'machine', 'nova-rt-probe-7')
        self.kernel.before = self.fail
        for group in (inner, deeper, deeper.parent, outside, beside, foreign,
                      probe, self.partition, self.root):  # fmt: skip
            self.kept(errno.EACCES, group)
            self.assertTrue(group.is_dir())

    def test_link(self):
        """A link with a container's name, and one in a container's group."""
        link = self.partition / 'lxc-9-web.libvirt-lxc'
        link.symlink_to(self.other)
        self.kernel.before = self.fail
        self.kept(errno.EACCES, link)
        link.unlink()
        self.kernel.before = None
        (self.group / 'way').symlink_to(self.other)
        self.reclaim()
        self.assertFalse(self.group.exists())
        self.assertTrue(self.other.is_dir())

    def test_group_that_is_moved(self):
        """The directory above it then is none of ours."""
        inner = self.make('a')
        self.make('a', 'b')
        decoy = self.top / 'a'
        decoy.mkdir()

        def move(path):
            self.kernel.before = None
            inner.rename(self.top / 'away')

        self.kernel.before = move
        self.assertIn('a was moved', self.kept())
        self.assertTrue(decoy.is_dir())


class V1Test(EveryTree, test_cgroup.TreeTestCase):
    def setUp(self):
        super().setUp()
        self.cpus = self._group('cpuset', 'machine', NAME)

    def test_both(self):
        self.reclaim()
        self.assertFalse(self.cpus.exists())

    def test_cpus_alone(self):
        self.kernel.remove_group(
            os.open(self.partition, os.O_RDONLY), self.group.name
        )
        self.reclaim()
        self.assertFalse(self.cpus.exists())

    def test_tasks_in_the_group_of_cpus(self):
        (self.cpus / 'tasks').write_text('70\n')
        self.kept()
        self.assertTrue(self.cpus.is_dir())

    def test_other_hierarchies(self):
        """Those of others stay, and so does what is asked for by them."""
        memory = self._group('memory', 'machine', NAME)
        self.kept(errno.EACCES, memory)
        self.kept(errno.EACCES, self.cpus)
        self.reclaim()
        self.assertTrue(memory.is_dir())


class V2Test(EveryTree, test_cgroup.TreeTestCase):
    UNIFIED = True
    HIERARCHY = ()
    TASKS = 'cgroup.threads'

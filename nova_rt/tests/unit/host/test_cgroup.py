# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.cgroup."""

import errno
import time

import fixtures
from oslotest import base

from nova_rt.host import capability, cgroup, interfaces
from nova_rt.tests.fixtures import kernel


class TreeTest(base.BaseTestCase):
    def _tree(self, interface=interfaces.V1_THROTTLE, **kwargs):
        self.kernel = self.useFixture(
            kernel.FakeKernel(interface.name, **kwargs)
        )
        files = self.kernel.files
        found = capability.look(files, interface, 'machine')
        capability.prepare(files, found)
        self.kernel.writes.clear()
        return cgroup.Tree(files, interface)

    def _fails(self, number, function, *args):
        err = self.assertRaises(OSError, function, *args)
        self.assertEqual(number, err.errno)
        return str(err)

    def test_group_and_cpus_of_a_process(self):
        for interface in interfaces.ALL:
            tree = self._tree(interface)
            group = self.kernel.add_container(7, 'web', (1, 2))
            self.assertEqual(group, tree.of_process(7))
            self.assertEqual((1, 2), tree.cpus_of(7))

    def test_no_such_process(self):
        tree = self._tree()
        text = self._fails(errno.ENOENT, tree.of_process, 7)
        self.assertIn('/7/cgroup', text)
        self._fails(errno.ENOENT, tree.cpus_of, 7)

    def test_controller_that_is_not_mounted(self):
        tree = self._tree()
        self.kernel.add_container(7, 'web')
        path = self.kernel.files.proc / '7' / 'cgroup'
        path.write_text('3:cpuset:/\n0::/machine\n')
        self._fails(errno.ENOENT, tree.of_process, 7)

    def test_levels(self):
        tree = self._tree()
        partition = self.kernel.partition
        group = self.kernel.add_container(7, 'web', nested=('libvirt',))
        self.assertEqual([group.parent, group], tree.levels(group, partition))
        for outside in (partition, partition.parent, partition.parent / 'x'):
            self._fails(errno.ENOENT, tree.levels, outside, partition)

    def test_tasks_are_of_the_group_alone(self):
        for interface in (interfaces.V1_THROTTLE, interfaces.V2_RT_MAX):
            tree = self._tree(interface)
            group = self.kernel.add_container(7, 'web', tasks=1)
            self.kernel.make_group(group / 'init.scope')
            self.kernel.add_task(group / 'init.scope')
            self.assertEqual(self.kernel.tasks_of(7) | {7}, tree.tasks(group))

    def test_read_what_is_no_number(self):
        tree = self._tree()
        group = self.kernel.add_container(7, 'web')
        (group / 'cpu.rt_runtime_us').write_text('what\n')
        self.assertIn('what', self._fails(errno.EIO, tree.read, group))

    def test_outermost_first_when_growing(self):
        tree = self._tree()
        group = self.kernel.add_container(7, 'web', nested=('libvirt',))
        tree.hold([group.parent, group], tree.interface.wish(5, 100, ()))
        written = [path.parent.name for path, _ in self.kernel.writes]
        self.assertEqual(['lxc-7-web.libvirt-lxc'] * 2 + ['libvirt'] * 2,
                         written)  # fmt: skip

    def test_each_interface_from_any_share_to_any(self):
        """No order of writes that the kernel refuses, with RT tasks in it."""
        shares = (600, 1000), (300, 2000), (900, 1000), (9000, 10_000)
        for interface in interfaces.ALL:
            tree = self._tree(interface)
            nested = ('libvirt',)
            group = self.kernel.add_container(7, 'web', (1, 2), nested=nested)
            groups = [group.parent, group]
            first = True
            for old in shares:
                for new in shares:
                    tree.hold(groups, interface.wish(*old, (1, 2)))
                    if first:
                        self.kernel.set_policy(group, 7, 2, 1)
                        first = False
                    wish = interface.wish(*new, (2, 3))
                    tree.hold(groups, wish)
                    self.assertEqual([wish] * 2, [*map(tree.read, groups)])

    def test_nothing_to_write(self):
        tree = self._tree()
        group = self.kernel.add_container(7, 'web')
        wish = tree.interface.wish(5, 100, ())
        tree.hold([group], wish)
        self.kernel.writes.clear()
        tree.hold([group], wish)
        self.assertEqual([], self.kernel.writes)

    def test_bandwidth_that_comes_back_late(self):
        tree = self._tree()
        wish = tree.interface.wish(90, 100, ())
        tree.hold([self.kernel.add_container(7, 'old')], wish)
        self.kernel.return_late(0.2)
        self.kernel.remove_container(7)
        tree.hold([self.kernel.add_container(8, 'new')], wish)

    def test_patience_ends(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.cgroup.PATIENCE_S', 0.2)
        )
        tree = self._tree()
        group = self.kernel.add_container(7, 'web')
        begin = time.monotonic()
        wish = tree.interface.wish(96, 100, ())
        text = self._fails(errno.EINVAL, tree.hold, [group], wish)
        self.assertIn("'96'", text)
        self.assertIn(str(group / 'cpu.rt_runtime_us'), text)
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)

    def test_what_will_not_pass_is_not_repeated(self):
        tree = self._tree()
        group = self.kernel.add_container(7, 'web')
        for number in (errno.EPERM, errno.EACCES, errno.EROFS):
            self.kernel.refuse(number)
            self.kernel.writes.clear()
            wish = tree.interface.wish(5, 100, ())
            self._fails(number, tree.hold, [group], wish)
            self.assertEqual(1, len(self.kernel.writes))


class DefaultPartitionTest(base.BaseTestCase):
    def test_without_systemd(self):
        files = self.useFixture(kernel.FakeKernel()).files
        self.assertEqual('machine', cgroup.default_partition(files))

    def test_systemd(self):
        for group in ('systemd/system.slice', 'system.slice'):
            files = self.useFixture(kernel.FakeKernel()).files
            (files.cgroup / group).mkdir(parents=True)
            self.assertEqual('machine.slice', cgroup.default_partition(files))

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.cgroup."""

import errno
import os

import fixtures
from oslotest import base

from nova_rt.host import cgroup, hierarchies
from nova_rt.privsep.kernel import default_partition
from nova_rt.tests.fixtures import kernel

HIERARCHIES = (
    ('v1-throttle', hierarchies.V1),
    ('v2-rt-max-cpu', hierarchies.V2),
)


class HierarchyTest(base.BaseTestCase):
    def _hierarchy(self, name='v1-throttle', kind=hierarchies.V1):
        self.kernel = self.useFixture(kernel.make(name))
        return kind(self.kernel.files)

    def _fails(self, number, function, *args):
        err = self.assertRaises(OSError, function, *args)
        self.assertEqual(number, err.errno)
        return str(err)

    def test_no_such_process(self):
        for each in HIERARCHIES:
            hierarchy = self._hierarchy(*each)
            text = self._fails(errno.ENOENT, hierarchy.find_group, 7)
            self.assertIn('/7/cgroup', text)
            gone = cgroup.Container(7, (self.kernel.partition / 'gone',))
            self._fails(errno.ENOENT, hierarchy.read_cpus, gone)

    def test_controller_that_is_not_mounted(self):
        hierarchy = self._hierarchy()
        self.kernel.add_container(7, 'web')
        path = self.kernel.files.proc / '7' / 'cgroup'
        path.write_text('3:cpuset:/\n0::/machine\n')
        text = self._fails(errno.ENOENT, hierarchy.find_group, 7)
        self.assertIn('no cpu group', text)

    def test_groups_whose_names_are_no_text(self):
        """Found as they are; what is said of them can be sent and stored."""
        for each in HIERARCHIES:
            hierarchy = self._hierarchy(*each)
            for number, name in enumerate(
                ('\udcff\udcfe', 'a\rb', 'a\x0bb\x85c', 'a:b'), 20
            ):
                group = self.kernel.add_container(number, name)
                self.assertEqual(group, hierarchy.find_group(number))
                text = self._fails(
                    errno.ENOENT, hierarchy.read, group / 'missing'
                )
                text.encode()

    def test_partition_names(self):
        hierarchy = self._hierarchy()
        for name in ('', '/', '..', 'a/../b', 'a//b', '.'):
            self.assertIsNone(hierarchy.resolve_partition(name))
        for name in ('a/b', '/a/b', 'a/b/'):
            self.assertEqual(
                hierarchy.root / 'a' / 'b', hierarchy.resolve_partition(name)
            )

    def test_tasks(self):
        for each in HIERARCHIES:
            hierarchy = self._hierarchy(*each)
            group = self.kernel.add_container(7, 'web', tasks=1)
            inner = group / 'init.scope'
            self.kernel.make_group(inner)
            nested = self.kernel.add_task(inner)
            own = self.kernel.tasks_of(7) | {7}
            self.assertEqual(own, hierarchy.read_tasks(group))
            self.assertEqual(
                own | {nested}, hierarchy.read_tasks_inside(group)
            )

    def test_task_that_is_going(self):
        """The kernel lists it as 0, which would be the caller."""
        hierarchy = self._hierarchy(*HIERARCHIES[-1])
        group = self.kernel.add_container(7, 'web', tasks=1)
        own = hierarchy.read_tasks(group)
        files = hierarchy.files
        self.useFixture(
            fixtures.MockPatchObject(
                hierarchy, 'read', lambda path: files.read(path) + '\n0\n'
            )
        )
        self.assertEqual(own, hierarchy.read_tasks(group))

    def test_a_group_that_is_being_removed_is_left_out(self):
        hierarchy = self._hierarchy()
        group = self.kernel.add_container(7, 'web')
        inner = group / 'init.scope'
        self.kernel.make_group(inner)
        (inner / 'tasks').unlink()
        self.assertEqual(
            hierarchy.read_tasks(group), hierarchy.read_tasks_inside(group)
        )

    def test_cpus_of_the_group_above(self):
        """A group of cgroup v2 without a cpuset has none of its own."""
        hierarchy = self._hierarchy('v2-rt-max-cpu', hierarchies.V2)
        group = self.kernel.add_container(7, 'web', (1, 2))
        inner = group / 'init.scope'
        self.kernel.make_group(inner)
        (inner / 'cpuset.cpus.effective').unlink()
        self.assertEqual((1, 2), hierarchy.read_cpus_in(inner))
        self._fails(errno.ENOENT, hierarchy.read_cpus_in, inner / 'gone')


class RestateTest(base.BaseTestCase):
    def test_text(self):
        """The error's own text is quoted if it says more than its errno.

        It has no errno if the helper has ended during a call.
        """
        for before, number, text in (
            (OSError(errno.EBUSY, os.strerror(errno.EBUSY)), errno.EBUSY, 'x'),
            (OSError(errno.EPERM, 'no helper'), errno.EPERM, 'x: no helper'),
            (OSError('Premature eof'), None, 'x: Premature eof'),
        ):
            err = cgroup.restate(before, 'x')
            self.assertEqual((number, text), (err.errno, err.strerror))


class DefaultPartitionTest(base.BaseTestCase):
    def test_default(self):
        for group, expected in (
            ('other', 'machine'),
            ('systemd/system.slice', 'machine.slice'),
            ('system.slice', 'machine.slice'),
        ):
            files = self.useFixture(kernel.make()).files
            (files.cgroup / group).mkdir(parents=True)
            self.assertEqual(expected, default_partition(str(files.cgroup)))

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.virt.libvirt.orphans, on a fake host."""

import errno
from unittest import mock

import fixtures
import libvirt
from nova import exception as nova_exception

from nova_rt import exception
from nova_rt.host import cgroup
from nova_rt.tests.unit.virt.libvirt import base, test_running
from nova_rt.tracking import stop_policy
from nova_rt.virt.libvirt import orphans, running


class LeftTestCase(base.TestBase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(cgroup, 'PATIENCE_S', 0.1))
        self.hypervisor = test_running.Hypervisor(self.kernel)
        self.kernel.leave_groups()
        self.orphans = orphans.OrphanedGroups(self.host, self.hypervisor)
        self.written = 0  # How often a reservation was tried.

    def leave(self, pid, uuid='gone'):
        """A container has ended, and its group holds its reservation."""
        guest = self.hypervisor.start(uuid, pid, cpus=(2,))
        self.host.apply(pid, base.RECORD)
        group = self.kernel.group_of(pid)
        guest.poweroff()
        return group


class LeftGroupsTest(LeftTestCase):
    def write(self):
        """Reserve 60 % of CPU 2, for a container that runs."""
        self.written += 1
        self.host.apply(8, base.RECORD)

    def refused(self):
        return self.assertRaises(
            exception.ReservationNotApplied, self.orphans.make_room, self.write
        )

    def test_removed(self):
        group = self.leave(7)
        self.assertEqual([], self.orphans.reclaim())
        self.assertFalse(group.exists())
        self.assertIn(
            f'Removed orphaned group {group.name}, which held '
            '600000/1000000 us',
            self.log.output,
        )

    def test_room_is_made(self):
        group = self.leave(7)
        self.hypervisor.start('web', 8, cpus=(2,))
        self.orphans.make_room(self.write)
        self.assertEqual(2, self.written)
        self.assertFalse(group.exists())
        self.assertIsNone(self.host.check(8, base.RECORD))

    def test_room_was_made_by_another(self):
        """It was refused before, and nothing is left by now."""
        self.leave(7)
        self.hypervisor.start('web', 8, cpus=(2,))

        def write():
            try:
                self.write()
            finally:
                self.orphans.reclaim()

        self.orphans.make_room(write)
        self.assertEqual(2, self.written)
        self.assertIsNone(self.host.check(8, base.RECORD))

    def test_no_room(self):
        """Others run: the refusal is what it was."""
        self.hypervisor.start('other', 7, cpus=(2,))
        self.host.apply(7, base.RECORD)
        self.hypervisor.start('web', 8, cpus=(2,))
        err = self.refused()
        self.assertEqual(1, self.written)
        self.assertEqual(errno.EBUSY, err.errno)
        self.assertNotIn('has no tasks', str(err))

    def test_no_room_even_so(self):
        """A small one is removed; once more, and no more."""
        self.hypervisor.start('other', 6, cpus=(2,))
        self.host.apply(6, base.RECORD)
        self.kernel.make_group(self.kernel.partition / 'lxc-7-a.libvirt-lxc')
        self.hypervisor.start('web', 8, cpus=(2,))
        self.refused()
        self.assertEqual(2, self.written)

    def test_no_room_and_what_takes_it(self):
        group = self.leave(7)
        self.kernel.set_age(group, 1)
        self.hypervisor.start('web', 8, cpus=(2,))
        err = self.refused()
        self.assertEqual(1, self.written)
        self.assertEqual(errno.EBUSY, err.errno)
        text = str(err)
        self.assertIn('(EBUSY)', text)
        self.assertIn(
            f'group {group.name} has no tasks and holds 600000/1000000 us '
            f'({group.name} has existed for 1 s only',
            text,
        )
        self.assertTrue(group.is_dir())

    def test_other_refusals(self):
        group = self.leave(7)
        self.hypervisor.start('web', 8, cpus=(2,))
        self.kernel.refuse(errno.EPERM)
        self.assertEqual(errno.EPERM, self.refused().errno)
        self.assertTrue(group.is_dir())

    def test_libvirt_does_not_answer(self):
        """Not known what runs: nothing is removed."""
        group = self.leave(7)
        for error in (
            libvirt.libvirtError('gone'),
            nova_exception.HypervisorUnavailable(),
        ):
            self.hypervisor.list_guests = mock.Mock(side_effect=error)
            self.assertEqual([], self.orphans.reclaim())
            self.assertTrue(group.is_dir())
        self.assertEqual(
            2, self.log.output.count('Cannot look for orphaned groups')
        )

    def test_what_stays_is_told_once(self):
        group = self.leave(7)
        self.kernel.set_age(group, 1)
        for _ in range(3):
            (found,) = self.orphans.reclaim()
            self.assertEqual(group.name, found.name)
        self.assertEqual(1, self.log.output.count(': not removed'))

    def test_nothing_of_those_that_run(self):
        """There is room at once, and nothing is looked for."""
        self.hypervisor.start('web', 8, cpus=(2,))
        self.orphans.make_room(self.write)
        self.assertEqual(1, self.written)
        writes = len(self.kernel.writes)
        self.assertEqual([], self.orphans.reclaim())
        self.assertEqual(writes, len(self.kernel.writes))
        self.assertIsNone(self.host.check(8, base.RECORD))


class RunningContainersTest(LeftTestCase):
    """The methods that the driver and the manager call."""

    def setUp(self):
        super().setUp()
        self.running = running.RunningContainers(
            self.host,
            self.hypervisor,
            self.reservations,
            stop_policy.StopPolicy(1),
        )

    def test_verification(self):
        """Of all, even if nothing runs that could be refused."""
        group = self.leave(7)
        self.running.verify_all()
        self.assertFalse(group.exists())

    def test_start_and_repair(self):
        self.server('web')
        for pid, work in (
            (8, lambda guest: self.running.apply(
                guest, base.RECORD, self.fail)),
            (9, lambda guest: self.running.verify('web')),
        ):  # fmt: skip
            group = self.leave(pid + 10)
            guest = self.hypervisor.start('web', pid, cpus=(2,))
            work(guest)
            self.assertFalse(group.exists())
            self.assertIsNone(self.host.check(pid, base.RECORD))
            self.kernel.leave_groups(False)
            guest.poweroff()
            self.kernel.leave_groups()

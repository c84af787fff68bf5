# SPDX-License-Identifier: Apache-2.0
"""The fate of containers that others change, on every interface."""

import errno
import os

import fixtures

from nova_rt.host import cgroup, tasks
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.unit.host import base
from nova_rt.tests.unit.host.base import PID, make_record

SCHED_DEADLINE = 6

#: Of tasks: bytes that are no text, and texts that look like the rest of a
#: line of /proc/<pid>/stat.
NAMES = (
    '\udcff\udcfe', 'a) R 1 1 (b', 'a)\nb) S 2 (', '\r', '\x0b\x1c\x85',
    ' ', '', 'ü\udcc3',
)  # fmt: skip


class DriftTestCase(base.HostTestCase):
    def setUp(self):
        super().setUp()
        self.host.start()

    def _start(self, *cpus, nested=()):
        self.record = make_record(cpus=cpus)
        self.group = self.kernel.add_container(PID, 'web', cpus, nested=nested)
        self.host.apply(PID, self.record)

    def _differs(self, text):
        self.assertIn(text, self.host.check(PID, self.record))

    def _repair(self):
        self.host.apply(PID, self.record)
        self.assertIsNone(self.host.check(PID, self.record))

    def _cannot_repair(self):
        return str(self.not_applied(self.record))


class EveryInterface:
    def test_other_cpus(self):
        """Something writes to the cpuset of a container that runs."""
        self._start(1, 3)
        for cpus in ((2,), (1, 2), (3,)):
            with self.subTest(cpus=cpus):
                self.kernel.set_cpus(self.group, cpus)
                self._differs('expected CPUs 1,3, found')
                self._repair()
                self.assertEqual((1, 3), kernel.read_held(self.host, PID)[1])

    def test_groups_around_are_narrower(self):
        """The scope of systemd, for example; it is widened, not set."""
        self._start(1, 3, nested=('libvirt',))
        self.kernel.set_cpus(self.group, (2,))
        self.kernel.set_cpus(self.group.parent, (0, 2))
        self._differs('expected CPUs 1,3')
        self._repair()
        hierarchy = self.host._backend.hierarchy
        container = self.host._find(PID)
        *_, scope, own = hierarchy.find_cpusets(
            container, self.kernel.partition
        )
        self.assertEqual(
            [(0, 1, 2, 3), (1, 3)],
            [hierarchy.read_cpu_list(group / cgroup.CPUS_FILE)
             for group in (scope, own)],
        )  # fmt: skip

    def test_cpu_that_goes_off_line_and_comes_back(self):
        for cpus, left in (((1, 3), '1'), ((3,), '0-2')):
            with self.subTest(cpus=cpus):
                self.boot()
                self.host.start()
                self._start(*cpus)
                self.kernel.take_off_line(3)
                self._differs(f'found {left}')
                self.assertIn(f'found {left}', self._cannot_repair())
                self.kernel.bring_on_line(3)
                if self.host.check(PID, self.record):
                    self._repair()
                self.assertEqual(cpus, kernel.read_held(self.host, PID)[1])

    def test_kernel_refuses_the_cpus(self):
        self._start(1)
        self.kernel.set_cpus(self.group, (2,))
        for number in (errno.EBUSY, errno.EINVAL):
            self.kernel.refuse(number)
            text = self._cannot_repair()
            self.assertIn('expected CPUs 1, found 2', text)
            self.assertIn(errno.errorcode[number], text)

    # Whose the files are

    def test_files_are_roots(self):
        self._start(1, nested=('libvirt',))
        groups = self.host._backend.hierarchy.find_reserving(
            self.host._find(PID)
        )
        seen = set()
        for group in groups:
            for path in (group, *group.iterdir()):
                seen.add(path.name)
                self.assertEqual(0, self.kernel.owner_of(path)[0])
        self.assertLessEqual({*self.FILES, self.kernel.TASKS_FILE}, seen)

    def test_files_of_others(self):
        """The roots of other containers are the same user."""
        self._start(1, nested=('libvirt',))
        group, *_ = self.host._find(PID).levels
        for path, user, mode in (
            (self.group, 100_000, 0o755),
            (self.group / self.kernel.TASKS_FILE, 100_000, 0o755),
            (group / self.FILES[0], 100_000, 0o644),
            (self.group / self.FILES[0], 1000, 0o600),
            (self.group / self.FILES[0], 0, 0o666),
        ):
            self.kernel.own(path, user, mode)
            self._differs(f'{path}: expected to be writable for root alone')
            self._repair()

    # Policies

    def test_names_that_are_no_text(self):
        """A tenant calls its tasks as it likes."""
        self._start(1)
        for name in NAMES:
            with self.subTest(name=name):
                for _ in range(3):
                    self.kernel.add_task(self.group, name=name)
                self.assertIsNone(self.host.check(PID, self.record))
                self.kernel.reset(PID)
                self._differs('expected')
                self._repair()
                for tid in self.kernel.tasks_of(PID):
                    self.assertEqual(
                        self.kernel.policy_of(tid)[0],
                        tasks.read_policy(self.kernel.files, tid),
                    )

    def test_policies_that_programs_chose(self):
        """They keep real-time ones; privsep's tests have each of them."""
        self._start(1)
        first, *_ = self.kernel.tasks_of(PID)
        for policy in (os.SCHED_RR | os.SCHED_RESET_ON_FORK, SCHED_DEADLINE):
            for tid in self.kernel.tasks_of(PID):
                self.kernel.make_real_time(tid, os.SCHED_IDLE, 0)
            self.kernel.make_real_time(first, policy, 3)
            self.assertFalse(self.host.give_missing_policy(PID, self.record))
            self._repair()
            self.assertEqual(
                {(policy, 3), (os.SCHED_RR, 5)},
                {*map(self.kernel.policy_of, self.kernel.tasks_of(PID))},
            )

    def test_tasks_that_were_given_up(self):
        """Their number is in the log."""
        self._start(1)
        self.useFixture(
            fixtures.MockPatchObject(
                self.kernel.files.guard, 'set_policy', return_value=7
            )
        )
        self.host.apply(PID, self.record)
        self.assertIn('7 tasks of', self.log.output)


class V1ThrottlingTest(EveryInterface, DriftTestCase):
    INTERFACE = 'v1-throttle'
    FILES = 'cpu.rt_runtime_us', 'cpu.rt_period_us', 'cpuset.cpus'

    def test_every_cpuset_shrinks(self):
        """That of the partition as well; nothing above is written to."""
        self._start(1, 3, nested=('libvirt',))
        self.kernel.take_off_line(3)
        self.kernel.bring_on_line(3)
        self._differs('expected CPUs 1,3, found 1')
        self.kernel.writes.clear()
        self._repair()
        cpuset = self.kernel.cpuset_of(self.kernel.partition)
        self.assertEqual(
            [(cpuset, '0-3'), (cpuset / self.group.parent.name, '0-3'),
             (self.kernel.cpuset_of(self.group), '1,3')],
            [(path.parent, text) for path, text in self.kernel.writes],
        )  # fmt: skip

    def test_tasks_come_back_to_their_cpuset(self):
        """The kernel moves them out of one without a CPU."""
        self._start(3)
        self.kernel.take_off_line(3)
        self.kernel.bring_on_line(3)
        self._repair()
        for tid in (PID, *self.kernel.tasks_of(PID)):
            text = (self.kernel.files.proc / str(tid) / 'cgroup').read_text()
            self.assertIn(f'cpuset:/machine/{self.group.name}\n', text)

    def test_cpuset_of_another_service(self):
        """A group that is not below the partition is not written to."""
        self._start(1)
        path = self.kernel.files.proc / str(PID) / 'cgroup'
        own = f'cpuset:/machine/{self.group.name}'
        path.write_text(path.read_text().replace(own, 'cpuset:/'))
        self._differs('found 0-3')
        self._repair()
        self.assertIn(own, path.read_text())


class HCBSTest(EveryInterface, DriftTestCase):
    INTERFACE = 'v2-rt-max-cpu'
    FILES = 'cpu.rt.max', 'cpu.rt.effective', 'cpuset.cpus'

    def test_partition_stays_as_the_operator_wants_it(self):
        self._start(1, 3)
        self.kernel.set_cpus(self.kernel.partition, (0, 1))
        self.kernel.writes.clear()
        self._cannot_repair()
        cpus = [path for path, _ in self.kernel.writes
                if path.parent == self.kernel.partition]  # fmt: skip
        self.assertEqual([], cpus)

    def test_partition_is_confined_to_the_cpus_of_a_server(self):
        """Its scope is, too, then: the reservation stays where it is."""
        self._start(1, nested=('libvirt',))
        for cpus in ((1,), (0, 1, 2, 3)):
            self.kernel.set_cpus(self.kernel.partition, cpus)
            self.assertIsNone(self.host.check(PID, self.record))

    def test_reservation_that_could_not_follow_its_cpuset(self):
        """The kernel tries it again with the same numbers."""
        self._start(1, 3)
        self.kernel.leave_behind(self.group, 3)
        self._differs('on CPU 3, found nothing')
        self._repair()

# SPDX-License-Identifier: Apache-2.0
"""The fate of containers that others change, on every interface."""

import errno
import os

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.host import cgroup, host, tasks
from nova_rt.reservation.extra_specs import TaskPolicy
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import kernel

PID = 7
SCHED_DEADLINE = 6

#: Of tasks: bytes that are no text, and texts that look like the rest of a
#: line of /proc/<pid>/stat.
NAMES = (
    '\udcff\udcfe', 'a) R 1 1 (b', 'a)\nb) S 2 (', '\r', '\x0b\x1c\x85',
    ' ', '', 'ü\udcc3',
)  # fmt: skip


class DriftTestCase(base.BaseTestCase):
    INTERFACE = 'v1-throttle'

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.cgroup.PATIENCE_S', 0)
        )
        self.log = self.useFixture(fixtures.FakeLogger())
        self.kernel = self.useFixture(kernel.make(self.INTERFACE))
        self.host = host.Host(
            cpu_set=None, smt=False, reserved_ppm=0, partition=None,
            files=self.kernel.files,
        )  # fmt: skip
        self.host.start()

    def _start(self, *cpus, nested=(), policy=TaskPolicy.RR):
        request = Request(
            Reservation(600, 1000), len(cpus), policy=policy, priority=5
        )
        self.record = Record(request, cpus)
        self.group = self.kernel.add_container(PID, 'web', cpus, nested=nested)
        self.host.apply(PID, self.record)

    def _differs(self, text):
        self.assertIn(text, self.host.check(PID, self.record))

    def _repair(self):
        self.host.apply(PID, self.record)
        self.assertIsNone(self.host.check(PID, self.record))

    def _cannot_repair(self):
        err = self.assertRaises(
            exception.ReservationNotApplied,
            self.host.apply, PID, self.record,
        )  # fmt: skip
        return str(err)


class EveryInterface:
    def test_other_cpus(self):
        """Something writes to the cpuset of a container that runs."""
        for cpus in ((2,), (1, 2), (3,)):
            with self.subTest(cpus=cpus):
                if not hasattr(self, 'record'):
                    self._start(1, 3)
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
        self._start(1, 3)
        self.kernel.take_off_line(3)
        self._differs('expected CPUs 1,3, found 1')
        self.assertIn('expected CPUs 1,3', self._cannot_repair())
        self.kernel.bring_on_line(3)
        if self.host.check(PID, self.record):
            self._repair()
        self.assertEqual((1, 3), kernel.read_held(self.host, PID)[1])

    def test_only_cpu_goes_off_line_and_comes_back(self):
        self._start(3)
        self.kernel.take_off_line(3)
        self._differs('expected CPUs 3, found 0-2')
        self._cannot_repair()
        self.kernel.bring_on_line(3)
        if self.host.check(PID, self.record):
            self._repair()
        self.assertEqual((3,), kernel.read_held(self.host, PID)[1])

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

    def test_other_files_and_the_group(self):
        """The roots of other containers are the same user."""
        self._start(1)
        for path in (self.group, self.group / self.kernel.TASKS_FILE):
            self.kernel.own(path, 100_000, 0o755)
            self._differs(f'{path}: expected to be writable for root alone')
            self._repair()

    def test_file_of_another(self):
        self._start(1, nested=('libvirt',))
        group, *_ = self.host._find(PID).levels
        for path, user, mode in (
            (group / self.FILES[0], 100_000, 0o644),
            (self.group / self.FILES[0], 1000, 0o600),
            (self.group / self.FILES[0], 0, 0o666),
        ):
            self.kernel.own(path, user, mode)
            self._differs(f'{path}: expected to be writable for root alone')
            self._repair()

    # Policies

    def test_program_that_resets_on_fork(self):
        """It has a policy, and keeps it."""
        self._start(1, policy=TaskPolicy.OTHER)
        first, second = sorted(self.kernel.tasks_of(PID))
        mine = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        self.kernel.make_real_time(first, mine, 3)
        self._set_policy()
        self.assertEqual((mine, 3), self.kernel.policy_of(first))
        self.assertEqual((os.SCHED_FIFO, 9), self.kernel.policy_of(second))

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

    def test_init_whose_name_is_no_text(self):
        request = Request(Reservation(600, 1000), 1, priority=5)
        self.record = Record(request, (1,))
        group = self.kernel.add_container(PID, 'web', (1,), tasks=0)
        tid = self.kernel.add_task(group, name=NAMES[0])
        self._repair()
        self.assertEqual(os.SCHED_RR, self.kernel.policy_of(tid)[0])

    def test_deadline_task(self):
        self._start(1, policy=TaskPolicy.OTHER)
        first, second = sorted(self.kernel.tasks_of(PID))
        self.kernel.make_real_time(first, SCHED_DEADLINE, 0)
        self._set_policy()
        self.assertEqual((SCHED_DEADLINE, 0), self.kernel.policy_of(first))
        self.assertEqual((os.SCHED_FIFO, 9), self.kernel.policy_of(second))

    def test_container_of_deadline_tasks_lacks_no_policy(self):
        self._start(1)
        for tid in self.kernel.tasks_of(PID):
            self.kernel.make_real_time(tid, SCHED_DEADLINE, 0)
        self.assertIsNone(self.host.check(PID, self.record))

    def test_ordinary_policies(self):
        self._start(1, policy=TaskPolicy.OTHER)
        first, second = sorted(self.kernel.tasks_of(PID))
        self.kernel.make_real_time(first, os.SCHED_IDLE, 0)
        self.kernel.make_real_time(
            second, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, 0
        )
        self._set_policy()
        for tid in (first, second):
            self.assertEqual((os.SCHED_FIFO, 9), self.kernel.policy_of(tid))

    def _set_policy(self):
        request = Request(
            Reservation(600, 1000), 1, policy=TaskPolicy.FIFO, priority=9
        )
        self.host._backend.set_policy(self.host._find(PID), Record(request))

    def test_container_that_forks_without_end(self):
        """The children inherit, so that nothing is left to change."""
        self._start(1, policy=TaskPolicy.OTHER)
        before = self.kernel.tasks_of(PID)
        for tid in before:
            self.kernel.let_fork(tid, 1000)
        self._set_policy()
        after = self.kernel.tasks_of(PID)
        self.assertLess(len(before), len(after))
        for tid in after:
            self.assertEqual((os.SCHED_FIFO, 9), self.kernel.policy_of(tid))

    def test_tasks_that_were_given_up(self):
        """Their number is in the log."""
        self._start(1)
        self.useFixture(
            fixtures.MockPatchObject(
                self.kernel.files.guard, 'set_policy', return_value=7
            )
        )
        self._set_policy()
        self.assertIn('7 tasks of', self.log.output)

    def test_container_that_makes_ordinary_tasks_without_end(self):
        """It says so itself, by SCHED_RESET_ON_FORK: no reason to stop it."""
        self._start(1)
        first, *_ = self.kernel.tasks_of(PID)
        self.kernel.make_real_time(
            first, os.SCHED_RR | os.SCHED_RESET_ON_FORK, 3
        )
        self.kernel.let_fork(first, 1000)
        self._repair()


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
        path.write_text(path.read_text().replace(
            f'cpuset:/machine/{self.group.name}', 'cpuset:/'))  # fmt: skip
        self._differs('found 0-3')
        self._repair_moves_it_back(path)

    def _repair_moves_it_back(self, path):
        self.host.apply(PID, self.record)
        self.assertIn(f'cpuset:/machine/{self.group.name}', path.read_text())


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

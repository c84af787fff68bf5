# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.privsep.tasks: tasks of a group, and no others."""

import errno
import os
import socket

import fixtures
from oslo_privsep import comm

from nova_rt.privsep import tasks
from nova_rt.tests.fixtures import deep
from nova_rt.tests.unit.privsep import test_cgroup

RESET = os.SCHED_RESET_ON_FORK
DEADLINE = 6
CONTROLLER = 5


class TasksTestCase(test_cgroup.TreeTestCase):
    def setUp(self):
        super().setUp()
        for tid in (CONTROLLER, 70, 71):
            self._process(tid, self.group)

    def _give(self, policy=os.SCHED_RR, priority=3, inside=False):
        return self.guard.set_policy(
            str(self.group), CONTROLLER, policy, priority, inside
        )

    def _hook(self, name, hook):
        """Do something after a call of the kernel."""
        call = getattr(self.kernel, name)

        def hooked(tid, *args):
            answer = call(tid, *args)
            hook(tid, *args)
            return answer

        self.useFixture(
            fixtures.MonkeyPatch(
                f'nova_rt.tests.unit.privsep.test_cgroup.Tree.{name}',
                lambda kernel, *args: hooked(*args),
            )
        )

    def _set(self):
        return set(self.kernel.set)


class PolicyTest(TasksTestCase):
    def test_tasks_but_not_the_controller(self):
        self._give()
        self.assertEqual({70, 71}, self._set())
        self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[70])

    def test_names_that_are_no_text(self):
        for name in (b'\xff\xfe', b'a) R 1 (b', b'a)\nb', b'\r', b''):
            with self.subTest(name=name):
                self.kernel.policies[70] = os.SCHED_OTHER, 0
                stat = self.top / 'proc' / '70' / 'stat'
                stat.write_bytes(b'70 (' + name + b') S 1 1 1\n')
                self._give()
                self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[70])

    def test_groups_whose_names_are_no_text(self):
        """A group inside may be called as it likes."""
        inner = self._group('cpu', 'machine', 'web', '\udcff\ra')
        self._process(80, inner)
        lines = self.top / 'proc' / '80' / 'cgroup'
        lines.write_bytes(b'9:freezer:/a\rb\n' + lines.read_bytes())
        self._give(inside=True)
        self.assertEqual({70, 71, 80}, self._set())

    def test_errors_that_name_them_can_be_sent(self):
        """By the channel of oslo.privsep, which keeps them."""
        text = '\udcff\udcfe is gone'
        ours, theirs = socket.socketpair()
        with ours, theirs:
            comm.Serializer(ours).send((comm.Message.ERR, 'x', (2, text)))
            received = next(comm.Deserializer(theirs))
        self.assertEqual((2, text), received[2])

    def test_who_has_a_policy_keeps_it(self):
        """A flag beside it makes no other policy of it."""
        for policy in (
            os.SCHED_FIFO, os.SCHED_RR, os.SCHED_FIFO | RESET,
            os.SCHED_RR | RESET, DEADLINE, DEADLINE | RESET,
        ):  # fmt: skip
            with self.subTest(policy=policy):
                self.kernel.policies[70] = policy, 9
                self._give()
                self.assertEqual((policy, 9), self.kernel.policies[70])

    def test_ordinary_policies(self):
        for policy in (
            os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE,
            os.SCHED_OTHER | RESET, os.SCHED_IDLE | RESET,
        ):  # fmt: skip
            with self.subTest(policy=policy):
                self.kernel.policies[70] = policy, 0
                self._give()
                self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[70])

    def test_ends_meanwhile(self):
        self._hook('get_policy', lambda tid: self._end(70)
                   if tid == 70 else None)  # fmt: skip
        self._give()
        self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[71])

    def test_ends_before_its_group_is_known(self):
        """Its directory in proc is open already, and empty then."""
        open_task = tasks.Tasks._open

        def opened(group, tid):
            task = open_task(group, tid)
            if tid == 70:
                self._end(70)
            return task

        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.privsep.tasks.Tasks._open', opened)
        )
        self._give()
        self.assertEqual({71}, self._set())

    def test_forks_without_end(self):
        """Each pass finds a new task, which has inherited the policy."""

        def fork(tid, *args):
            if tid in (70, 71):
                child = max(self.kernel.policies) + 1
                self._process(child, self.group, self.kernel.policies[tid])

        self._hook('get_policy', fork)
        self._give()
        for tid in set(self.kernel.policies) - {CONTROLLER}:
            self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[tid])
        # As many as forked before they were raised, and their children.
        self.assertLess(len(self.kernel.policies), 50)

    def _sleep(self, hook):
        """Do something while nothing is to be changed, by a fake clock.

        :returns: a list that has as many elements as there were pauses
        """
        pauses = []

        def sleep(seconds):
            pauses.append(seconds)
            hook(len(pauses))

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.privsep.tasks.time.monotonic', lambda: sum(pauses)
            )
        )

        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.privsep.tasks.time.sleep', sleep)
        )
        return pauses

    def test_forks_when_it_is_raised(self):
        """The child was copied before, and is in no list until later."""
        for state in 'RD':
            with self.subTest(state=state):
                child = 200 + ord(state)

                def finish(pause, child=child):
                    if pause == 3:
                        self._process(child, self.group)
                        self._set_state(70, 'S')

                self.kernel.policies[70] = os.SCHED_OTHER, 0
                self._set_state(70, state)
                pauses = self._sleep(finish)
                self._give()
                self.assertEqual(3, len(pauses))
                self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[child])

    def test_fork_that_takes_long(self):
        """By the clock: its group has little, and others run as well."""

        def go_on(pause):
            # One clock tick of CPU time in five seconds.
            self._set_state(71, 'R', pause // 500)
            if pause == 700:
                self._process(200, self.group)
                self._set_state(70, 'S')

        for tid in (70, 71):
            self._set_state(tid, 'R')
        self._sleep(go_on)
        self.assertEqual(0, self._give())
        self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[200])

    def test_waiting_ends(self):
        stalled = int(tasks._STALLED_S / tasks._PAUSE_S)
        for tid, policy, hook, least, most, given_up in (
            # It ends.
            (100, os.SCHED_OTHER, lambda _: self._end(100), 1, 1, 0),
            # It has run for longer than a fork takes.
            (101, os.SCHED_OTHER,
             lambda pause: self._set_state(101, 'R', pause),
             tasks._FORK_TICKS, tasks._FORK_TICKS, 0),
            # It had a policy before.
            (102, os.SCHED_FIFO, lambda _: None, 0, 0, 0),
            # It never runs: it is given up, and counted.
            (103, os.SCHED_OTHER, lambda _: None, stalled, stalled + 2, 1),
        ):  # fmt: skip
            with self.subTest(tid=tid):
                self._process(tid, self.group, (policy, 1))
                self._set_state(tid, 'R')
                pauses = self._sleep(hook)
                self.assertEqual(given_up, self._give())
                self.assertLessEqual(least, len(pauses))
                self.assertLessEqual(len(pauses), most)

    def test_too_many_to_wait_for(self):
        def run(pause):
            tid = 100 + pause // 500
            self._set_state(tid, 'R', 2)

        for tid in range(100, 150):
            self._process(tid, self.group)
            self._set_state(tid, 'R')
        pauses = self._sleep(run)
        self.assertLess(30, self._give())
        self.assertLess(sum(pauses), tasks._PATIENCE_S + 1)

    def test_makes_ordinary_tasks_without_end(self):
        """By SCHED_RESET_ON_FORK: a program that has it that way."""
        self.kernel.policies[70] = os.SCHED_RR | RESET, 1

        def fork(tid, *args):
            if tid == 70:
                child = max(self.kernel.policies) + 1
                self._process(child, self.group)

        self._hook('get_policy', fork)
        self._give()
        self.assertEqual((os.SCHED_RR | RESET, 1), self.kernel.policies[70])
        self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[71])
        self.assertLess(len(self.kernel.policies), 2 * tasks._MAX_PASSES)

    def _refuse(self, which):
        def refuse(kernel, tid, policy, priority):
            if tid in which:
                raise PermissionError(errno.EPERM, 'no')
            kernel.set.append(tid)
            kernel.policies[tid] = policy, priority

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.tests.unit.privsep.test_cgroup.Tree.set_policy',
                refuse,
            )
        )

    def test_answer_of_the_kernel(self):
        self._refuse({70, 71})
        err = self.assertRaises(OSError, self._give)
        self.assertEqual(errno.EPERM, err.errno)

    def test_other_policies(self):
        for policy, priority in (
            (os.SCHED_OTHER, 0), (DEADLINE, 1), (os.SCHED_RR, 0),
            (os.SCHED_RR, 100), (os.SCHED_RR | RESET, 1),
        ):  # fmt: skip
            err = self.assertRaises(OSError, self._give, policy, priority)
            self.assertEqual(errno.EINVAL, err.errno)
        self.assertEqual(set(), self._set())

    def _nested(self, *tids, names=('init.scope',)):
        group = self._group('cpu', 'machine', 'web', *names)
        for tid in tids:
            self._process(tid, group)
        return group

    def test_groups_inside(self):
        self._nested(80)
        self._nested(81, names=('init.scope', 'x'))
        self._give()
        self.assertEqual({70, 71}, self._set())
        self._give(inside=True)
        self.assertEqual({70, 71, 80, 81}, self._set())

    def test_groups_nested_deeper_than_any_path(self):
        """A container's root makes them; descriptors and stack are few."""
        self.useFixture(deep.DeepGroups(self.group, {'tasks': ''}))
        before = len(os.listdir('/proc/self/fd'))
        self._give(inside=True)
        self.assertEqual({70, 71}, self._set())
        self.assertEqual(before, len(os.listdir('/proc/self/fd')))

    def test_group_inside_that_keeps_real_time_tasks_out(self):
        self._nested(80)
        self._refuse({80})
        self._give(inside=True)
        self.assertEqual({70, 71}, self._set())

    def test_controller_gone(self):
        self._end(CONTROLLER)
        err = self.assertRaises(OSError, self._give)
        self.assertEqual(errno.ENOENT, err.errno)


class ForeignTaskTest(TasksTestCase):
    """A number in the list that is not, or no longer, the group's task."""

    def test_number_without_a_task(self):
        with (self.group / 'tasks').open('a') as lines:
            lines.write('99\n')
        self._give()
        self.assertEqual({70, 71}, self._set())

    def test_number_of_another_groups_task(self):
        """The list was read before that task began."""
        with (self.group / 'tasks').open('a') as lines:
            lines.write('99\n')
        for group in (None, self.other, self.partition):
            self._process(99, group)
            self._give()
            self.assertNotIn(99, self._set())

    def test_number_goes_to_another_meanwhile(self):
        """Between the look and the change; it is made ordinary again."""

        ended = []

        def reuse(tid):
            if tid == 70 and not ended:
                ended.append(tid)
                self._end(70)
                self._process(70, self.other)

        self._hook('get_policy', reuse)
        self._give()
        self.assertIn(70, self._set())
        self.assertEqual((os.SCHED_OTHER, 0), self.kernel.policies[70])
        self.assertEqual((os.SCHED_RR, 3), self.kernel.policies[71])

    def test_others_real_time_task_is_left_alone(self):
        """It has the number afterwards, and a policy of its own."""

        ended = []

        def reuse(tid, *args):
            if tid == 70 and not ended:
                ended.append(tid)
                self._end(70)
                self._process(70, self.other, (os.SCHED_FIFO, 50))

        self._hook('set_policy', reuse)
        self._give()
        self.assertEqual((os.SCHED_FIFO, 50), self.kernel.policies[70])


class WriteAsideTest(TasksTestCase):
    """Real-time tasks are ordinary ones while it is written."""

    UNIFIED = True
    HIERARCHY = ()
    TASKS = 'cgroup.threads'

    def setUp(self):
        super().setUp()
        inside = self._group('machine', 'web', 'init.scope')
        self._process(80, inside)
        self._process(81, inside)
        self.kernel.policies.update(
            {
                70: (os.SCHED_FIFO, 9),
                80: (os.SCHED_RR | RESET, 4),
                81: (DEADLINE, 0),
            }
        )
        self.path = self.group / 'cpu.rt.max'
        self.before = dict(self.kernel.policies)
        #: Answers of the kernel, the first one first; then it accepts.
        self.answers = []
        #: The policies at each write.
        self.seen = []
        write = self.kernel.write

        def answer(directory, name, text):
            self.seen.append(dict(self.kernel.policies))
            number = self.answers.pop(0) if self.answers else 0
            if number:
                raise OSError(number, 'refused')
            write(directory, name, text)

        self.kernel.write = answer

    def _aside(self, text='600 1000'):
        self.guard.write_aside(str(self.path), text)

    def _refused(self, number):
        err = self.assertRaises(OSError, self._aside)
        self.assertEqual(number, err.errno)

    def test_aside(self):
        """The flag comes back; a deadline task is no matter of it."""
        self._aside()
        self.assertEqual('600 1000', self.path.read_text())
        ordinary = os.SCHED_OTHER, 0
        self.assertEqual(
            [{**self.before, 70: ordinary, 80: ordinary}], self.seen
        )
        self.assertEqual(self.before, self.kernel.policies)

    def test_refused(self):
        for number in (errno.EBUSY, errno.EPERM):
            self.answers = [number]
            self._refused(number)
            self.assertEqual(self.before, self.kernel.policies)

    def test_real_time_meanwhile(self):
        """It is tried again while there are any."""
        self.answers = [errno.EINVAL]
        write = self.kernel.write

        def another(*args):
            if not self.seen:
                self.kernel.policies[71] = os.SCHED_RR, 2
            write(*args)

        self.kernel.write = another
        self._aside()
        self.assertEqual(2, len(self.seen))
        self.assertEqual((os.SCHED_RR, 2), self.kernel.policies[71])
        self.assertEqual((os.SCHED_FIFO, 9), self.kernel.policies[70])

    def test_forks_meanwhile(self):
        """A child of a real-time task is lowered as well."""

        def fork(tid):
            if self.kernel.policies[tid][0] == os.SCHED_FIFO and 90 not in (
                self.kernel.policies
            ):
                self._process(90, self.group, (os.SCHED_FIFO, 9))

        self._hook('get_policy', fork)
        self._aside()
        self.assertEqual((os.SCHED_OTHER, 0), self.seen[0][90])
        self.assertEqual((os.SCHED_FIFO, 9), self.kernel.policies[90])

    def test_numbers_refused(self):
        """Without tasks in the way, EINVAL is the answer."""
        self.answers = [errno.EINVAL] * 3
        self._refused(errno.EINVAL)
        self.assertEqual(2, len(self.seen))
        self.assertEqual(self.before, self.kernel.policies)

    def test_without_end(self):
        write = self.kernel.write

        def again(*args):
            self.kernel.policies[71] = os.SCHED_RR, 2
            write(*args)

        self.kernel.write = again
        self.answers = [errno.EINVAL] * 1000
        self._refused(errno.EAGAIN)

    def test_ends_meanwhile(self):
        write = self.kernel.write

        def end(*args):
            write(*args)
            self._end(70)

        self.kernel.write = end
        self._aside()
        del self.before[70]
        self.assertEqual(self.before, self.kernel.policies)

    def test_other_files(self):
        for path in (
            self.group / 'cgroup.threads', self.top / 'cpu.rt.max',
            self.partition / 'cpu.rt.max', self.root / 'cpu.rt.max',
            self.group / 'cpuset.cpus', self.group / 'cpu.rt_runtime_us',
        ):  # fmt: skip
            self._fails(errno.EACCES, 'write_aside', str(path), '1 2')
        self.assertEqual([], self.seen)


class GatherTest(TasksTestCase):
    def test_moved(self):
        there = self._group('cpuset', 'machine', 'web')
        moved = []
        self.kernel.write = lambda directory, name, text: moved.append(
            (os.readlink(f'/proc/self/fd/{directory}'), name, text)
        )
        with (self.group / 'tasks').open('a') as lines:
            lines.write('99\n')
        self._process(99, self.other)
        self.guard.move_tasks_to_cpuset(str(self.group))
        self.assertEqual(
            {(str(there), 'tasks', str(tid)) for tid in (CONTROLLER, 70, 71)},
            set(moved),
        )

    def test_of_the_cpusets(self):
        there = self._group('cpuset', 'machine', 'web')
        self._fails(errno.EACCES, 'move_tasks_to_cpuset', str(there))

# SPDX-License-Identifier: Apache-2.0
"""The fake kernel answers as this one does, step by step."""

import errno
import os
import time

from nova_rt.host import tasks
from nova_rt.host.cgroup import Patience
from nova_rt.host.hierarchies import V1
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.host import machine

RUNTIME = 'cpu.rt_runtime_us'
PERIOD = 'cpu.rt_period_us'

#: Operations in a group that holds 40000/1000000 us.
SCENARIO = (
    # A new group has nothing, and nobody in it can be real-time.
    ('make', 'a'),
    ('make', 'a'),
    ('read', 'a', RUNTIME),
    ('read', 'a', PERIOD),
    ('task', 'a', 'first'),
    ('policy', 'a', os.SCHED_RR, 1),
    # What is no number or no share.
    ('write', 'a', RUNTIME, 'x'),
    ('write', 'a', RUNTIME, '1 2'),
    ('write', 'a', RUNTIME, '-1'),
    ('write', 'a', PERIOD, '0'),
    ('write', 'a', PERIOD, '-1'),
    ('write', 'a', 'cpu.rt.max', '1 2'),
    ('write', 'no-such-group', RUNTIME, '1'),
    # More than the group above has.
    ('write', 'a', RUNTIME, '40001'),
    ('write', 'a', RUNTIME, '40000'),
    ('write', 'a', RUNTIME, '1000001'),
    ('write', 'a', PERIOD, '39999'),
    ('write', 'a', PERIOD, '100000'),
    ('read', 'a', RUNTIME),
    ('read', 'a', PERIOD),
    # Siblings share it; the kernel rounds in their favour.
    ('make', 'b'),
    ('write', 'b', RUNTIME, '1'),
    ('write', 'a', RUNTIME, '20000'),
    ('write', 'b', RUNTIME, '20000'),
    ('write', 'b', RUNTIME, '20001'),
    ('write', 'b', RUNTIME, '20002'),
    ('write', 'b', PERIOD, '999000'),
    ('write', 'b', PERIOD, '2000000'),
    # Groups in a group.
    ('make', 'a/c'),
    ('write', 'a/c', RUNTIME, '20010'),
    ('write', 'a/c', RUNTIME, '12000'),
    ('write', 'a', RUNTIME, '11990'),
    ('write', 'a', RUNTIME, '0'),
    ('write', 'a', PERIOD, '2000000'),
    ('write', 'a', RUNTIME, '12000'),
    ('write', 'a/c', RUNTIME, '0'),
    ('remove', 'a/c'),
    ('remove', 'a/c'),
    # Real-time tasks.
    ('policy', 'a', os.SCHED_FIFO, 7),
    ('write', 'a', RUNTIME, '0'),
    ('write', 'a', RUNTIME, '1'),
    ('write', 'a', PERIOD, '4194304'),
    ('write', 'a', PERIOD, '1'),
    ('write', 'a', PERIOD, '1000'),
    ('write', 'a', RUNTIME, '20'),
    ('remove', 'a'),
    ('end', 'first'),
    ('soon', 'a', RUNTIME, '0'),
    # Of a group that is gone, the bandwidth comes back.
    ('remove', 'b'),
    ('soon', 'a', RUNTIME, '40'),
)


MAX = 'cpu.rt.max'
EFFECTIVE = 'cpu.rt.effective'
STAT = 'cpu.rt.stat'

#: The same for the kernel of this repository, on each CPU.
SCENARIO_V2 = (
    # A new group lives on what the group above holds.
    ('make', 'a'),
    ('make', 'a'),
    ('read', 'a', MAX),
    ('read', 'a', EFFECTIVE),
    ('read', 'a', STAT),
    ('read', '.', MAX),
    ('read', '.', EFFECTIVE),
    # What is no number or no share.
    ('write', 'a', MAX, 'x'),
    ('write', 'a', MAX, '-1'),
    ('write', 'a', MAX, 'min 1000000'),
    ('write', 'a', MAX, '1 1000000'),
    ('write', 'a', MAX, '2 1000000'),
    ('write', 'a', MAX, '20 2'),
    ('write', 'a', MAX, '2 99'),
    ('write', 'a', MAX, '2 100'),
    ('write', 'a', MAX, '2 4194304'),
    ('write', 'a', MAX, '2 4194305'),
    ('write', 'a', MAX, '0 99'),
    ('write', 'a', MAX, 'max 99'),
    ('write', 'a', MAX, '3'),
    ('read', 'a', MAX),
    ('write', 'a', MAX, '300 x'),
    ('read', 'a', MAX),
    ('write', 'no-such-group', MAX, '1'),
    # More than the group above has.
    ('write', 'a', MAX, '40001 1000000'),
    ('write', 'a', MAX, '40000 1000000'),
    ('read', 'a', MAX),
    ('read', 'a', EFFECTIVE),
    ('read', '.', EFFECTIVE),
    ('write', '.', MAX, '39999 1000000'),
    ('write', '.', MAX, '0'),
    # Siblings share it; the kernel rounds in their favour.
    ('make', 'b'),
    ('write', 'b', MAX, '2 1000000'),
    ('write', 'a', MAX, '20000 1000000'),
    ('write', 'b', MAX, '20000 1000000'),
    ('write', 'b', MAX, '20001 1000000'),
    ('write', 'b', MAX, '20002 1000000'),
    ('write', 'b', MAX, '200 10000'),
    ('read', 'a', EFFECTIVE),
    ('read', 'b', EFFECTIVE),
    # Real-time tasks stay in the reservation that they are in.
    ('task', 'a', 'first'),
    ('policy', 'a', os.SCHED_RR, 1),
    ('write', 'a', MAX, '0'),
    ('write', 'a', MAX, 'max'),
    ('write', 'a', MAX, '10000 1000000'),
    ('aside', 'a', MAX, 'max'),
    ('read', 'a', MAX),
    ('write', 'a', MAX, '10000 1000000'),
    ('aside', 'a', MAX, '50000 1000000'),
    ('aside', 'a', MAX, '10000 1000000'),
    ('policies', 'first'),
    ('remove', 'a'),
    # Groups in a group: it keeps something for its own tasks.
    ('make', 'a/c'),
    ('write', 'a/c', MAX, '10001 1000000'),
    ('write', 'a/c', MAX, '10000 1000000'),
    ('write', 'a/c', MAX, '4000 1000000'),
    ('read', 'a', EFFECTIVE),
    ('read', 'a/c', EFFECTIVE),
    ('write', 'a', MAX, '3900 1000000'),
    ('write', 'a', MAX, '4001 1000000'),
    ('write', 'a', MAX, '10000 1000000'),
    ('write', 'a/c', MAX, 'max'),
    ('removed', 'a/c'),
    ('read', 'a', EFFECTIVE),
    # Tasks in groups in a group live on its reservation, or are kept out.
    ('make', 'e'),
    ('write', 'e', MAX, '10000 1000000'),
    ('make', 'e/c'),
    ('make', 'e/c/d'),
    ('task', 'e/c/d', 'second'),
    ('inside', 'e', os.SCHED_FIFO, 7),
    ('policies', 'second'),
    ('write', 'e', MAX, '0'),
    ('write', 'e', MAX, 'max'),
    ('write', 'e/c', MAX, '5000 1000000'),
    ('write', 'e/c', MAX, '0'),
    ('aside', 'e/c', MAX, '5000 1000000'),
    ('policies', 'second'),
    ('read', 'e', EFFECTIVE),
    ('read', 'e/c', EFFECTIVE),
    ('read', 'e/c/d', EFFECTIVE),
    ('write', 'e/c', MAX, '0'),
    ('end', 'second'),
    ('soon', 'e/c', MAX, '0'),
    ('task', 'e/c/d', 'third'),
    ('policy', 'e/c/d', os.SCHED_FIFO, 7),
    ('inside', 'e', os.SCHED_FIFO, 7),
    ('policies', 'third'),
    ('end', 'third'),
    ('removed', 'e/c/d'),
    ('removed', 'e/c'),
    ('removed', 'e'),
    # Nothing left for the group's own tasks, which may then not be real-time.
    ('make', 'f'),
    ('soon', 'f', MAX, '10000 1000000'),
    ('make', 'f/c'),
    ('write', 'f/c', MAX, '10000 1000000'),
    ('read', 'f', EFFECTIVE),
    ('task', 'f', 'own'),
    ('policy', 'f', os.SCHED_RR, 1),
    ('write', 'f/c', MAX, '9000 1000000'),
    ('policy', 'f', os.SCHED_RR, 1),
    ('policies', 'own'),
    ('write', 'f/c', MAX, '10000 1000000'),
    ('read', 'f', EFFECTIVE),
    ('end', 'own'),
    ('write', 'f/c', MAX, 'max'),
    ('removed', 'f/c'),
    ('removed', 'f'),
    # Of a group that is gone, the bandwidth comes back.
    ('remove', 'b'),
    ('soon', 'a', MAX, '40000 1000000'),
    ('end', 'first'),
    ('soon', 'a', MAX, '0'),
    ('task', 'a', 'fourth'),
    ('policy', 'a', os.SCHED_RR, 1),
)

#: On two CPUs: the sum is one for each.
SCENARIO_CPUS = (
    ('make', 'a'),
    ('make', 'b'),
    ('cpus', 'a', '0'),
    ('cpus', 'b', '1'),
    ('write', 'a', MAX, '40000 1000000'),
    ('write', 'b', MAX, '40000 1000000'),
    ('read', 'a', EFFECTIVE),
    ('read', 'b', EFFECTIVE),
    ('read', '.', EFFECTIVE),
    # Reservations follow their cpusets, or the cpuset is refused.
    ('cpus', 'b', '0-1'),
    ('cpus', 'b', '0'),
    ('read', 'b', EFFECTIVE),
    ('write', 'b', MAX, '10000 1000000'),
    ('cpus', 'b', '0'),
    ('write', 'a', MAX, '30000 1000000'),
    ('cpus', 'b', '0'),
    ('read', 'b', EFFECTIVE),
    ('cpus', 'b', '0-1'),
    ('read', 'b', EFFECTIVE),
    ('read', '.', EFFECTIVE),
    # On each of several CPUs.
    ('write', 'b', MAX, '10001 1000000'),
    ('write', 'b', MAX, '10002 1000000'),
    ('cpus', 'b', '1'),
    ('write', 'b', MAX, '40000 1000000'),
    # What is in a group is on the CPUs of the group.
    ('make', 'b/c'),
    ('write', 'b/c', MAX, '20000 1000000'),
    ('read', 'b/c', EFFECTIVE),
    ('read', 'b', EFFECTIVE),
    ('cpus', 'b', '0'),
)


class Player:
    """Plays a scenario on a machine and notes the answers."""

    def __init__(self, machine, top):
        self._machine = machine
        self._top = top
        self._hierarchy = V1(machine.files)
        self._tasks = {}

    def play(self, scenario):
        answers = []
        for operation, *args in scenario:
            try:
                answer = getattr(self, f'_{operation}')(*args)
            except OSError as err:
                answer = err.errno
            answers.append((operation, *args, answer))
        return answers

    def _make(self, name):
        group = self._top / name
        self._machine.enable(group.parent)
        self._machine.make_group(group)

    def _remove(self, name):
        self._machine.remove_group(self._top / name)

    def _read(self, name, file):
        return self._machine.files.read(self._top / name / file)

    def _write(self, name, file, text):
        self._machine.write(self._top / name / file, text)

    def _soon(self, name, file, text):
        group, writes = self._top / name, [(file, text)]
        Patience().repeat(lambda: self._hierarchy.write(group, writes))

    def _task(self, name, task):
        self._tasks[task] = self._machine.add_task(self._top / name)

    def _end(self, task):
        self._machine.remove_task(self._tasks[task])

    def _removed(self, name):
        """Its tasks have ended, which the kernel may see a little later."""
        for _ in range(1200):
            try:
                return self._machine.remove_group(self._top / name)
            except OSError as err:
                if err.errno != errno.EBUSY:
                    raise
            time.sleep(0.05)
        raise OSError(errno.EBUSY, name)

    def _policy(self, name, policy, priority, inside=False):
        self._machine.files.set_policy(
            self._top / name, os.getpid(), policy, priority, inside
        )

    def _inside(self, name, policy, priority):
        self._policy(name, policy, priority, True)

    def _policies(self, task):
        return tasks.read_policy(self._machine.files, self._tasks[task])

    def _aside(self, name, file, text):
        self._machine.files.write_aside(self._top / name / file, text)

    def _cpus(self, name, text):
        self._machine.set_cpus(self._top / name, text)


class V1ThrottlingTest(machine.MachineTestCase):
    def _play_on_fake(self):
        fake = self.useFixture(kernel.make(partition='top'))
        fake.add_task(fake.root, os.getpid())
        top = fake.root / 'top'
        fake.make_group(top)
        fake.write(top / RUNTIME, str(machine.SHARE_US))
        return Player(fake, top).play(SCENARIO)

    def test_same_answers(self):
        expected = Player(self.machine, self.machine.top).play(SCENARIO)
        self.assertEqual(expected, self._play_on_fake())
        # Each kind of answer has occurred.
        answers = {answer for *_, answer in expected}
        self.assertLessEqual(
            {None, errno.EINVAL, errno.EBUSY, errno.EPERM, errno.ENOENT,
             errno.EEXIST},
            answers,
        )  # fmt: skip


class HCBSTest(machine.MachineTestCase):
    MACHINE = machine.HCBSMachine

    def _test(self, scenario, answers):
        real = Player(self.machine, self.machine.top).play(scenario)
        fake = self.useFixture(
            kernel.make('v2-rt-max-cpu', cpus=os.cpu_count(), partition='top')
        )
        fake.add_task(fake.root, os.getpid())
        top = fake.root / 'top'
        fake.enable(fake.root)
        fake.make_group(top)
        fake.write(top / MAX, f'{machine.SHARE_US} 1000000')
        for expected, answer in zip(
            real, Player(fake, top).play(scenario), strict=True
        ):
            self.assertEqual(expected, answer)
        # Each kind of answer has occurred.
        self.assertLessEqual(answers, {answer for *_, answer in real})

    def test_same_answers(self):
        self._test(
            SCENARIO_V2,
            {None, errno.EINVAL, errno.EBUSY, errno.EPERM, errno.ENOENT,
             errno.EEXIST},
        )  # fmt: skip

    def test_same_answers_on_two_cpus(self):
        if os.cpu_count() < 2:
            self.skipTest('needs two CPUs')
        self._test(SCENARIO_CPUS, {None, errno.EINVAL, errno.EBUSY})

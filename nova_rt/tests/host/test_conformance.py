# SPDX-License-Identifier: Apache-2.0
"""The fake kernel answers as this one does, step by step."""

import errno
import os

from nova_rt.tests.fixtures import kernel
from nova_rt.tests.host import machine
from nova_rt.virt import cgroup, interfaces

RUNTIME = 'cpu.rt_runtime_us'
PERIOD = 'cpu.rt_period_us'

#: What is done in a group that holds 40000/1000000 us.
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
    ('write', 'a', 'cpu.rt_multi_runtime_us', '1'),
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


class Player:
    """Plays a scenario on a machine and notes the answers."""

    def __init__(self, machine, top):
        self._machine = machine
        self._top = top
        self._tree = cgroup.Tree(machine.files, interfaces.V1_THROTTLE)
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
        self._machine.files.make_group(self._top / name)

    def _remove(self, name):
        self._machine.remove_group(self._top / name)

    def _read(self, name, file):
        return self._machine.files.read(self._top / name / file)

    def _write(self, name, file, text):
        self._machine.files.write(self._top / name / file, text)

    def _soon(self, name, file, text):
        self._tree.write(self._top / name, [(file, text)])

    def _task(self, name, task):
        self._tasks[task] = self._machine.add_task(self._top / name)

    def _end(self, task):
        self._machine.remove_task(self._tasks[task])

    def _policy(self, name, policy, priority):
        self._machine.files.set_policy(
            self._top / name, os.getpid(), policy, priority
        )


class ConformanceTest(machine.MachineTestCase):
    def _play_on_fake(self):
        fake = self.useFixture(kernel.FakeKernel())
        top = fake.root / 'top'
        fake.make_group(top)
        fake.write(top / RUNTIME, str(machine.SHARE_US))
        return Player(fake, top).play(SCENARIO)

    def test_same_answers(self):
        real = self.useFixture(machine.Machine())
        expected = Player(real, real.top).play(SCENARIO)
        self.assertEqual(expected, self._play_on_fake())
        # Each kind of answer has occurred.
        answers = {answer for *_, answer in expected}
        self.assertLessEqual(
            {None, errno.EINVAL, errno.EBUSY, errno.EPERM, errno.ENOENT,
             errno.EEXIST},
            answers,
        )  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Tests of the patterns of a kernel's complaints, and of races."""

import subprocess
import unittest

import check
import complaints

COMPLAINTS = (
    'WARNING: kernel/sched/rt.c:2801 at unregister_rt_sched_group+0x2e/0x30',
    'WARNING: possible circular locking dependency detected',
    'BUG: kernel NULL pointer dereference, address: 0000000000000008',
    'watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [init:71]',
    'INFO: task init:1 blocked for more than 120 seconds.',
    'rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:',
    'Oops: 0000 [#1] SMP PTI',
    ' Call Trace:',
    'suspicious RCU usage',
)
OTHERS = (
    'ok   8 the sum is refused',
    'FAIL 9 a test of ours',
    'systemd[1]: Information about the debug level',
    '',
)
# Those that count, see tests/races.awk. The serial console ends lines with a
# carriage return.
RACES = (
    'BUG: KCSAN: data-race in find_rt_group_cpu / replenish_dl_entity\r',
    'BUG: KCSAN: data-race in enqueue_task_rt / ktime_get\r',
    'BUG: KCSAN: data-race in do_nanosleep / update_curr_rt',
    'BUG: KCSAN: data-race in find_lowest_rq+0x1/0x2\r',
    'BUG: KCSAN: data-race in idle_cpu / update_curr_dl_se\r',
)
MAINLINE = (
    'BUG: KCSAN: data-race in do_nanosleep / hrtimer_wakeup\r',
    'BUG: KCSAN: data-race in idle_cpu+0x55/0x70\r',
    'BUG: KCSAN: data-race in __enqueue_dl_entity / idle_cpu\r',
    'BUG: KCSAN: data-race in dequeue_pushable_task / pull_rt_task\r',
    'BUG: KCSAN: data-race in update_curr_dl_se+0x368/0x840\r',
    'BUG: KCSAN: data-race in sched_setscheduler / start_server',
)


class ComplaintsTest(unittest.TestCase):
    """The same lines for Python and for grep."""

    def test_python(self) -> None:
        for line in COMPLAINTS:
            self.assertTrue(complaints.complains(line), line)
        for line in OTHERS:
            self.assertFalse(complaints.complains(line), line)

    def test_out_of_memory(self) -> None:
        log = [
            'sh invoked oom-killer: gfp_mask=0x440dc0',
            ' Call Trace:',
            'Memory cgroup out of memory: Killed process 683 (sh)',
        ]
        self.assertEqual([], complaints.find(2 * log))
        for line in COMPLAINTS:
            self.assertEqual([line], complaints.find([*log, line]))

    def test_grep(self) -> None:
        for grep in (['grep'], ['busybox', 'grep']):
            done = subprocess.run(
                [*grep, '-E', '-f', complaints.FILE],
                input='\n'.join((*COMPLAINTS, *OTHERS)),
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
            self.assertEqual([*COMPLAINTS], done.stdout.splitlines(), grep)

    def test_races(self) -> None:
        done = subprocess.run(
            ['awk', '-f', check.KERNEL / 'tests/races.awk'],
            input='\n'.join((*COMPLAINTS, *MAINLINE, *RACES)),
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        self.assertEqual(
            [*COMPLAINTS, *(race.strip() for race in RACES)],
            done.stdout.splitlines(),
        )


if __name__ == '__main__':
    unittest.main()

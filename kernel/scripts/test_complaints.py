# SPDX-License-Identifier: Apache-2.0
"""Tests of the patterns of a kernel's complaints."""

import subprocess
import unittest

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


if __name__ == '__main__':
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The usage in the database is what the kernel has counted, to the counter.

``NOVA_RT_TEST_USAGE_SERVERS`` is the number of servers,
``NOVA_RT_TEST_USAGE_S`` the time for which they work.
"""

import json
import os
import random
import signal
import time

from lab.tests import base
from lab.tests.test_reports import run_manage

SERVERS = int(os.environ.get('NOVA_RT_TEST_USAGE_SERVERS', '3'))
WORK_S = int(os.environ.get('NOVA_RT_TEST_USAGE_S', '60'))
RESERVATION = '2000/100000'
PPM = 20_000
#: Restarted while servers work, in this order.
RESTARTED = (
    'nova-compute', 'nova-rt-conductor', 'mariadb', 'nova-compute',
)  # fmt: skip
#: Each CPU's count is cut to microseconds.
CUT_US = 64
PATIENCE_S = 300


def use(seconds):
    """Use so much CPU time."""
    end_s = time.process_time() + seconds
    while time.process_time() < end_s:
        pass


def work(container):
    """Use some of a container's CPU time, from within, until it is killed.

    :returns: the process
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        # Like a process that enters from outside: on another CPU at first.
        others = os.sched_getaffinity(0) - set(container.cpus())
        if others:
            os.sched_setaffinity(0, others)
        container.join('cpu', 'cpuacct')
        use(0.002)
        container.join()
        dice = random.Random(os.getpid())
        while True:
            use(dice.random() / 50)
            time.sleep(dice.random() / 2)
    finally:
        os._exit(1)


class UsageTest(base.LabTestCase):
    """Servers that work while the services are restarted."""

    def restart(self, name):
        base.lab('restart', name)

    def read(self):
        """Return what the database says: UUID -> reserved, used, in us."""
        done = run_manage('usage', 'export', '--since', '48h')
        self.assertEqual(0, done.returncode, done.stderr)
        found = {}
        for row in map(json.loads, done.stdout.splitlines()):
            reserved_us, used_us = found.get(row['server'], (0, 0))
            found[row['server']] = (
                reserved_us + row['reserved_us'],
                used_us + (row['used_us'] or 0),
            )
        return found

    def test_exact_over_restarts(self):
        flavor = self.rt_flavor(RESERVATION)
        asked_s, held_s = {}, {}
        for _ in range(SERVERS):
            begin_s = time.monotonic()
            server = self.create(flavor)
            asked_s[server.id] = begin_s
            held_s[server.id] = time.monotonic()
        containers = {
            uuid: base.container.Container.of(uuid) for uuid in asked_s
        }
        workers = [work(each) for each in containers.values()]
        try:
            for name in RESTARTED:
                time.sleep(WORK_S / (len(RESTARTED) + 1))
                self.restart(name)
            time.sleep(WORK_S / (len(RESTARTED) + 1))
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        rested_s = time.monotonic()
        wanted = {
            uuid: each.used_ns() // 1000 - CUT_US
            for uuid, each in containers.items()
        }
        found = {}

        def reported():
            found.update(self.read())
            return all(
                found.get(uuid, (0, 0))[1] >= used_us
                for uuid, used_us in wanted.items()
            )

        self.wait_for(reported, lambda: f'{wanted}, but {found}', PATIENCE_S)
        now_s = time.monotonic()
        for uuid, each in containers.items():
            reserved_us, used_us = found[uuid]
            # Nothing counts twice.
            self.assertLessEqual(used_us, each.used_ns() // 1000 + 1000)
            self.assertGreater(used_us, 0)
            least = PPM * (rested_s - held_s[uuid])
            self.assertGreaterEqual(reserved_us, least)
            self.assertLessEqual(
                reserved_us, PPM * (now_s - asked_s[uuid]) + 1000
            )
        self.assertEqual(SERVERS, len(set(found) & set(wanted)))

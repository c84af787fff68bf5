# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.scheduler."""

import subprocess
import sys

from oslo_utils import importutils
from oslotest import base

from nova_rt.scheduler import manager

# In a process of its own: the program prepares its process for native
# threads, which can be done once.
_PROGRAM = """
import sys
from nova_rt.cmd import scheduler
from nova import service
def main():
    print(sys.argv)
    print(service.SERVICE_MANAGERS['nova-scheduler'])
scheduler.scheduler.main = main
sys.argv = ['/opt/bin/nova-rt-scheduler', '--config-file', 'x']
scheduler.main()
"""


class MainTest(base.BaseTestCase):
    def test_runs_nova_scheduler_with_our_manager(self):
        done = subprocess.run(
            [sys.executable, '-c', _PROGRAM],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        argv, path = done.stdout.splitlines()
        self.assertEqual(
            str(['/opt/bin/nova-scheduler', '--config-file', 'x']), argv
        )
        self.assertIs(
            manager.RTSchedulerManager, importutils.import_class(path)
        )

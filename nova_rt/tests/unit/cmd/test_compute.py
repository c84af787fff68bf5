# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.compute and nova_rt.cmd.hooks."""

import subprocess
import sys

from nova.virt import driver as nova_driver
from oslo_utils import importutils
from oslotest import base

from nova_rt.cmd import hooks
from nova_rt.compute import manager
from nova_rt.virt.libvirt import driver

# In a process of its own: the program prepares its process for native
# threads, which can be done once, and it ends it.
_PROGRAM = """
import sys
from nova_rt.cmd import compute
from nova import exception, service
import threading, time
def main():
    print(sys.argv)
    print(service.SERVICE_MANAGERS['nova-compute'])
    # Nova has such threads by the time it looks at the host.
    threading.Thread(target=time.sleep, args=(600,)).start()
    %s
compute.compute.main = main
sys.argv = ['/opt/bin/nova-rt-compute', '--config-file', 'x']
compute.main()
"""


class MainTest(base.BaseTestCase):
    def run_with(self, end):
        return subprocess.run(
            [sys.executable, '-c', _PROGRAM % end],
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
        )

    def test_runs_nova_compute_with_our_manager(self):
        done = self.run_with('sys.exit(0)')
        argv, path = done.stdout.splitlines()
        self.assertEqual("['nova-compute', '--config-file', 'x']", argv)
        self.assertIs(manager.RTComputeManager, importutils.import_class(path))
        self.assertEqual(0, done.returncode, done.stderr)

    def test_a_host_that_does_not_do_is_a_clean_error(self):
        done = self.run_with('raise exception.InvalidConfiguration("no CPU")')
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn('nova-rt-compute cannot start: no CPU', done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def test_anything_else_ends_the_process_too(self):
        done = self.run_with('raise RuntimeError("oops")')
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn('oops', done.stderr)


class HooksTest(base.BaseTestCase):
    def test_nova_finds_our_driver(self):
        hooks.extend_nova_virt()
        hooks.extend_nova_virt()
        self.assertIs(
            driver.RTLibvirtDriver,
            importutils.import_class(f'nova.virt.{driver.COMPUTE_DRIVER}'),
        )
        self.assertTrue(
            issubclass(driver.RTLibvirtDriver, nova_driver.ComputeDriver)
        )

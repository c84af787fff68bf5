# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.limits."""

import pathlib

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.host import limits
from nova_rt.host.files import Files


class TaskLimitsTest(base.BaseTestCase):
    """Whether the kernel can limit the tasks of a container."""

    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = Files(cgroup=str(self.top))

    def refusal(self):
        check = limits.check_task_limits
        return str(
            self.assertRaises(exception.HostNotPrepared, check, self.files)
        )

    def test_v1(self):
        (self.top / 'pids').mkdir()
        self.assertIn(f'mount -t cgroup -o pids pids {self.top}/pids',
                      self.refusal())  # fmt: skip
        (self.top / 'pids' / 'tasks').touch()
        limits.check_task_limits(self.files)

    def test_v2(self):
        controllers = self.top / 'cgroup.controllers'
        controllers.write_text('cpuset cpu memory\n')
        self.assertIn('[nova_rt] max_tasks = 0', self.refusal())
        controllers.write_text('cpuset cpu memory pids\n')
        limits.check_task_limits(self.files)

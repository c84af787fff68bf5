# SPDX-License-Identifier: Apache-2.0
"""The machine that runs the tests, in the shape of the fake one."""

import contextlib
import errno
import os
import pathlib
import subprocess
import time

import fixtures
from oslotest import base

from nova_rt import exception
import nova_rt.privsep
from nova_rt.virt import capability, files, interfaces

#: Little: a lab with servers may run beside. Of 1 s.
SHARE_US = 40_000

#: Groups that may have bandwidth to spare: the host's own, libvirt's.
_PARENTS = ('', 'machine', 'machine.slice')


class Machine(fixtures.Fixture):
    """A group with bandwidth on the real kernel.

    :ivar top: that group
    """

    def _setUp(self):
        self.files = files.Files()
        self.root = self.files.cgroup / 'cpu'
        self.name = f'nova-rt-test-{os.getpid()}'
        self._processes = {}
        self.useFixture(
            fixtures.MockPatchObject(
                nova_rt.privsep.rt_pctxt, 'client_mode', False
            )
        )
        self.top = self._make_top()
        self.addCleanup(self._remove, self.top)
        self.addCleanup(self._end_all)

    def _make_top(self):
        for parent in _PARENTS:
            if not (self.root / parent).is_dir():
                continue
            top = self.root / parent / self.name
            self.files.make_group(top)
            try:
                self.files.write(top / 'cpu.rt_runtime_us', str(SHARE_US))
                return top
            except OSError as err:
                os.rmdir(top)
                if err.errno != errno.EINVAL:
                    raise
        raise AssertionError(
            f'no group has {SHARE_US} ppm to spare for this test'
        )

    def add_task(self, group):
        process = subprocess.Popen(['sleep', '600'])
        self._processes[process.pid] = process
        self.move(process.pid, group)
        return process.pid

    @staticmethod
    def move(pid, group):
        (group / 'cgroup.procs').write_text(str(pid))

    def remove_task(self, tid):
        process = self._processes.pop(tid)
        process.kill()
        process.wait()

    def _end_all(self):
        for tid in list(self._processes):
            self.remove_task(tid)

    @staticmethod
    def remove_group(path):
        os.rmdir(path)

    def make_cpuset(self, group, cpus):
        """The same group in the other hierarchy, and those above it."""
        path = self.files.cgroup / 'cpuset'
        made = []
        for name in group.relative_to(self.root).parts:
            path /= name
            if not path.exists():
                path.mkdir()
                made.append(path)
                (path / 'cpuset.mems').write_text('0')
                (path / 'cpuset.cpus').write_text(cpus)
        for each in made:
            self.addCleanup(self._remove, each)
        self.addCleanup(self._end_all)
        return path

    def _remove(self, path):
        """Remove a group and all in it; its tasks have ended."""
        for directory, names, _ in os.walk(path, topdown=False):
            for name in names:
                _remove_one(pathlib.Path(directory) / name)
        _remove_one(path)


def _remove_one(path):
    # The kernel removes the last task a little after its parent has heard.
    deadline = time.monotonic() + 5
    while path.exists():
        try:
            os.rmdir(path)
        except OSError as err:
            if err.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class MachineTestCase(base.BaseTestCase):
    """Skipped where there is nothing to test on."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('needs root')
        found = None
        with contextlib.suppress(exception.NoRTInterface):
            found = capability.find(files.Files())
        if found is not interfaces.V1_THROTTLE:
            self.skipTest('needs a kernel with the interface v1-throttle')

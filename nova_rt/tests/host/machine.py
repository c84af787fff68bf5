# SPDX-License-Identifier: Apache-2.0
"""The machine that runs the tests, in the shape of the fake one."""

import contextlib
import errno
import os
import pathlib
import subprocess
import sys
import time

import fixtures
from oslo_config import cfg
from oslotest import base

from nova_rt import conf, exception
from nova_rt.host import files, group_backend, hcbs, probe, v1_throttling
import nova_rt.privsep

#: Little: a lab with servers may run beside. Of 1 s, on cgroup v2 of each CPU.
SHARE_US = 40_000

#: Groups that may have bandwidth to spare: the host's own, libvirt's.
_PARENTS = ('', 'machine', 'machine.slice')

#: Runs the words after the first once this process is in a group of that name.
#: A child that came earlier would stay where its parent was.
_CONTROLLER = """
import pathlib, subprocess, sys, time
group, *words = sys.argv[1:]
while not any(
    line.endswith('/' + group)
    for line in pathlib.Path('/proc/self/cgroup').read_text().splitlines()
):
    time.sleep(0.01)
subprocess.run(words)
"""


class Machine(fixtures.Fixture):
    """A group with bandwidth on the real kernel.

    :ivar top: that group
    """

    BACKEND: type[group_backend.GroupBackend]

    #: The file with the runtime of a group.
    RUNTIME_FILE: str

    def _setUp(self):
        self.files = files.Files()
        self.hierarchy = self.BACKEND(self.files).hierarchy
        self.root = self.hierarchy.root
        self.name = f'nova-rt-test-{os.getpid()}'
        self._processes = {}
        self.useFixture(
            fixtures.MockPatchObject(
                nova_rt.privsep.rt_pctxt, 'client_mode', False
            )
        )
        conf.register_opts(cfg.CONF)
        self.addCleanup(cfg.CONF.clear_override, 'partition', group='nova_rt')
        self.top = self._make_top()
        self.set_partition(self.top)
        self.addCleanup(self._remove, self.top)
        self.addCleanup(self._end_all)

    def set_partition(self, group):
        """Let the privileged functions work in a group."""
        self.partition = str(group.relative_to(self.root))
        cfg.CONF.set_override('partition', self.partition, group='nova_rt')

    def make_group(self, group):
        """As libvirt makes them: with the controllers that it needs."""
        group.mkdir()

    @staticmethod
    def write(path, text):
        """Somebody else writes, as root; the errno is the kernel's."""
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def enable(self, group):
        """Give the groups in a group the files that they need."""

    def add_process(self, *command):
        """Start a process, in the group of this one."""
        process = subprocess.Popen(command or ['sleep', '600'])
        self._processes[process.pid] = process
        return process.pid

    def add_task(self, group, *command):
        pid = self.add_process(*command)
        self.move(pid, group)
        return pid

    def add_container(self, group, *words, program='sleep'):
        """Start a container as libvirt does: a controller and its child.

        :param words: a command that runs another
        :param program: name of the child's
        :returns: the controller's number
        """
        pid = self.add_task(
            group, sys.executable, '-c', _CONTROLLER, group.name, *words,
            # It ends with its parent.
            'setpriv', '--pdeathsig', 'KILL', 'sleep', '600',
        )  # fmt: skip
        self.read_first(pid, program)
        return pid

    @staticmethod
    def read_first(parent, program='sleep'):
        """Wait until the first child executes a program.

        :returns: its number
        """
        path = pathlib.Path(f'/proc/{parent}/task/{parent}/children')
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            children = path.read_text().split()
            if children:
                name = pathlib.Path(f'/proc/{children[0]}/comm').read_text()
                if name == f'{program}\n':
                    return int(children[0])
            time.sleep(0.05)
        raise AssertionError(f'{parent} has no child {program}')

    @staticmethod
    def move(pid, group):
        (group / 'cgroup.procs').write_text(str(pid))

    def move_to_cpus(self, pid, group):
        """A process is to have the CPUs of a group, if they are apart."""

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

    def _remove(self, path):
        """Remove a group and all in it; its tasks have ended."""
        for directory, names, _ in os.walk(path, topdown=False):
            for name in names:
                _remove_one(pathlib.Path(directory) / name)
        _remove_one(path)


class V1ThrottlingMachine(Machine):
    """The mainline kernel, with cgroup v1."""

    BACKEND = v1_throttling.V1Throttling
    RUNTIME_FILE = 'cpu.rt_runtime_us'

    def _make_top(self):
        for parent in _PARENTS:
            if not (self.root / parent).is_dir():
                continue
            top = self.root / parent / self.name
            top.mkdir()
            try:
                self.write(top / 'cpu.rt_runtime_us', str(SHARE_US))
                return top
            except OSError as err:
                os.rmdir(top)
                if err.errno not in (errno.EINVAL, errno.EBUSY):
                    raise
        raise AssertionError(
            f'no group has {SHARE_US} ppm to spare for this test'
        )

    def confine(self, group, cpus):
        """Start libvirt_lxc in a group that is confined to CPUs."""
        cpuset = self._make_cpuset(group, cpus)
        pid = self.add_task(group)
        self.move(pid, cpuset)
        return pid

    def move_to_cpus(self, pid, group):
        self.move(pid, self.cpuset_of(group))

    def cpuset_of(self, group):
        """The same group in the hierarchy of the cpusets."""
        return self.files.cgroup / 'cpuset' / group.relative_to(self.root)

    def set_cpus(self, group, cpus):
        self.write(self.cpuset_of(group) / 'cpuset.cpus', cpus)

    def _make_cpuset(self, group, cpus):
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


class HCBSMachine(Machine):
    """The kernel of this repository, with cgroup v2."""

    BACKEND = hcbs.HCBS
    RUNTIME_FILE = 'cpu.rt.max'

    def _make_top(self):
        top = self._make_delegated() / 'top'
        self.make_group(top)
        self.write(top / 'cpu.rt.max', f'{SHARE_US} 1000000')
        return top

    def _make_delegated(self):
        """A group of cgroup v2 that is ours: systemd's leave, where it is."""
        if pathlib.Path('/run/systemd/system').is_dir():
            return self._make_service()
        group = self.root / self.name
        self.enable(self.root)
        group.mkdir()
        self.addCleanup(self._remove, group)
        return group

    def _make_service(self):
        unit = f'{self.name}.service'
        _run('systemd-run', '--quiet', '--collect', f'--unit={unit}',
             '--property=Delegate=yes', 'sleep', '600')  # fmt: skip
        self.addCleanup(_run, 'systemctl', 'stop', unit)
        show = 'systemctl', 'show', '--value', '--property'
        group = self.root / _run(*show, 'ControlGroup', unit).lstrip('/')
        # Only groups without processes of their own have groups with
        # controllers in them.
        keeper = group / 'keeper'
        keeper.mkdir()
        self.move(int(_run(*show, 'MainPID', unit)), keeper)
        return group

    def make_group(self, group):
        self.enable(group.parent)
        group.mkdir()

    def enable(self, group):
        (group / 'cgroup.subtree_control').write_text('+cpu +cpuset')

    def set_cpus(self, group, cpus):
        (group / 'cpuset.cpus').write_text(cpus)

    def confine(self, group, cpus):
        """Start libvirt_lxc in a group that is confined to CPUs."""
        self.set_cpus(group, cpus)
        return self.add_task(group)


def _run(*command):
    return subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def _remove_one(path):
    # The kernel removes the last task a little after its parent has heard.
    deadline = time.monotonic() + 60
    while path.exists():
        try:
            os.rmdir(path)
        except OSError as err:
            if err.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class MachineTestCase(base.BaseTestCase):
    """Skipped where there is nothing to test on."""

    MACHINE: type[Machine] = V1ThrottlingMachine

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('needs root')
        found = None
        with contextlib.suppress(exception.NoRTInterface):
            found = probe.find_backend(files.Files())
        kind = self.MACHINE.BACKEND
        if not isinstance(found, kind):
            self.skipTest(
                f'needs a kernel with the interface {kind.interface.name}'
            )
        self.machine = self.useFixture(self.MACHINE())


class MountHelperMixin:
    """The work of the mount helper on a container, done in this process."""

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MockPatchObject(
                nova_rt.privsep.mount_pctxt, 'client_mode', False
            )
        )
        self.group = self.machine.top / 'web'
        self.machine.make_group(self.group)

    def fails(self, number, called, controller):
        """A function refuses a process with this errno."""
        err = self.assertRaises(OSError, called, controller)
        self.assertEqual(number, err.errno, str(err))

# SPDX-License-Identifier: Apache-2.0
"""Keeping a process from this machine's own out-of-memory killer."""

import errno
import pathlib

from oslo_privsep import capabilities

import nova_rt.privsep
from nova_rt.privsep import oom
from nova_rt.tests.host import machine


def _read(pid):
    return int(pathlib.Path(f'/proc/{pid}/oom_score_adj').read_text())


class EveryMachine(machine.MountHelperMixin):
    """libvirt_lxc is kept, and nothing of a container."""

    def test_kept(self):
        pid = self.machine.add_task(self.group)
        if not nova_rt.privsep.is_permitted(capabilities.CAP_SYS_RESOURCE):
            self.fails(errno.EACCES, oom.keep, pid)
            self.skipTest('this machine has no CAP_SYS_RESOURCE')
        oom.keep(pid)
        oom.keep(pid)
        self.assertEqual(-1000, _read(pid))

    def test_outside_of_the_partition(self):
        pid = self.machine.add_task(self.machine.top)
        before = _read(pid)
        self.fails(errno.EACCES, oom.keep, pid)
        self.assertEqual(before, _read(pid))

    def test_inside_of_a_container(self):
        """Whatever it is called: a name is chosen by whoever has it."""
        controller = self.machine.add_container(
            self.group,
            'setpriv', '--pdeathsig', 'KILL',
            'unshare', '--pid', '--fork', '--kill-child',
            'sh', '-c', 'printf libvirt_lxc >/proc/self/comm; "$@"; :', 'sh',
            program='unshare',
        )  # fmt: skip
        unshare = self.machine.read_first(controller, 'unshare')
        pid = self.machine.read_first(unshare, 'libvirt_lxc')
        before = _read(pid)
        self.fails(errno.EACCES, oom.keep, pid)
        self.assertEqual(before, _read(pid))

    def test_no_process(self):
        for controller in (0, -1, 2**22 + 1):
            self.fails(errno.ENOENT, oom.keep, controller)


class V1ThrottlingTest(EveryMachine, machine.MachineTestCase):
    pass


class HCBSTest(EveryMachine, machine.MachineTestCase):
    MACHINE = machine.HCBSMachine

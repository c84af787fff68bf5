# SPDX-License-Identifier: Apache-2.0
"""Containers to which libvirtd loses its connection at their start."""

import logging
import os

import fixtures
import libvirt
from oslotest import base

from nova_rt.lxc import connections
from nova_rt.lxc.domains import Domains
from nova_rt.tests.unit.virt.libvirt import base as host_base
from nova_rt.tests.unit.virt.libvirt import test_running


def error(code, message='no'):
    err = libvirt.libvirtError(message)
    err.err = (code, 0, message, 0, '', '', '', 0, 0)
    return err


class Guest:
    """A domain.

    :param unknown: for each start, the number of times that libvirtd does not
        know the first process; None if it never does
    """

    uuid = 'a'

    def __init__(self, *unknown):
        self._domain = self
        self.unknown = list(unknown)
        self.starts = 1
        self.active = True
        self.refusals = []
        self.opened = []

    def is_active(self):
        return self.active

    def poweroff(self):
        if self.refusals:
            refusal, self.active = self.refusals.pop(0)
            raise refusal
        self.active = False

    def launch(self):
        self.active = True
        self.starts += 1

    def open_namespaces(self, flags):
        left = self.unknown[self.starts - 1]
        if left is None or left > 0 or not self.active:
            if left:
                self.unknown[self.starts - 1] -= 1
            raise error(libvirt.VIR_ERR_OPERATION_INVALID)
        self.opened.append(os.open('/dev/null', os.O_RDONLY))
        return self.opened[-1:]


class EnsureTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.useFixture(
            fixtures.MonkeyPatch(
                'libvirt_lxc.lxcOpenNamespace', Guest.open_namespaces
            )
        )
        for name, value in (
            ('_REPORTED_S', 0.05), ('_POLL_S', 0.001),
            ('_STOPPED_S', (0, 0, 0)),
        ):  # fmt: skip
            self.useFixture(
                fixtures.MonkeyPatch(f'nova_rt.lxc.connections.{name}', value)
            )

    def ensure(self, guest):
        connections.ensure(guest, guest.launch)

    def test_known(self):
        """At once, late, or after it was started again."""
        lost = [None] * connections.STARTS
        for unknown, starts, said in (
            ([0], 1, ''),
            ([3], 1, ''),
            ([None, None, 0], 3, 'starting it again'),
            # It runs all the same.
            (lost, connections.STARTS, 'in 4 starts'),
        ):
            guest = Guest(*unknown)
            self.ensure(guest)
            self.assertEqual(starts, guest.starts)
            self.assertTrue(guest.active)
            for file in guest.opened:
                self.assertRaises(OSError, os.fstat, file)
            if said:
                self.assertIn(said, self.log.output)
            else:
                self.assertEqual('', self.log.output)

    def test_ended(self):
        """The caller finds out."""
        guest = Guest(None)
        guest.active = False
        self.ensure(guest)
        self.assertEqual(1, guest.starts)

    def test_libvirtd_does_not_tell(self):
        self.useFixture(
            fixtures.MonkeyPatch('libvirt_lxc.lxcOpenNamespace', self.refuse)
        )
        guest = Guest(None)
        self.ensure(guest)
        self.assertEqual(1, guest.starts)
        self.assertIn('Cannot find out', self.log.output)

    def refuse(self, domain, flags):
        raise error(libvirt.VIR_ERR_OPERATION_DENIED)

    def test_stopped_under_systemd(self):
        """libvirt reports a failed system call, and it has ended."""
        guest = Guest(None, 0)
        guest.refusals = [(error(libvirt.VIR_ERR_SYSTEM_ERROR), False)]
        self.ensure(guest)
        self.assertEqual(2, guest.starts)

    def test_cannot_be_stopped(self):
        guest = Guest(None, 0)
        refusal = error(libvirt.VIR_ERR_SYSTEM_ERROR, 'stays')
        guest.refusals = [(refusal, True)] * 4
        raised = self.assertRaises(libvirt.libvirtError, self.ensure, guest)
        self.assertEqual('stays', str(raised))
        self.assertEqual(1, guest.starts)


class EndedTest(host_base.TestBase):
    """A container whose end libvirtd has not noticed."""

    def setUp(self):
        super().setUp()
        self.hypervisor = test_running.Hypervisor(self.kernel)
        self.guest = self.hypervisor.start('a', 100)
        self.ended = connections.EndedContainers(
            self.host, Domains(self.hypervisor)
        )

    def end(self):
        self.kernel.remove_container(100)

    def test_runs(self):
        self.assertFalse(self.ended.clean_up('a', 100))
        self.assertFalse(self.ended.clean_up('a', 100))
        self.assertTrue(self.guest.is_active())

    def test_ended(self):
        self.end()
        self.assertTrue(self.ended.clean_up('a', 100))
        self.assertTrue(self.guest.is_active())
        self.assertTrue(self.ended.clean_up('a', 100))
        self.assertFalse(self.guest.is_active())
        self.assertIn('has not noticed', self.log.output)

    def test_hidden(self):
        """A /proc that hides processes of root is no proof of an end."""
        self.end()
        (self.kernel.files.proc / '1').rmdir()
        for _ in range(3):
            self.assertFalse(self.ended.clean_up('a', 100))
        self.assertTrue(self.guest.is_active())

    def test_forgotten_meanwhile(self):
        """A check of all containers does not wait for the cleaning up."""
        self.end()
        self.ended.clean_up('a', 100)
        self.guest.poweroff = lambda: self.ended.forget_all_but([])
        self.assertTrue(self.ended.clean_up('a', 100))

    def test_noticed_late(self):
        self.end()
        self.ended.clean_up('a', 100)
        self.guest.poweroff()
        self.assertTrue(self.ended.clean_up('a', 100))
        self.assertEqual('', self.log.output)

    def test_started_again(self):
        """Another process is another container."""
        self.end()
        self.ended.clean_up('a', 100)
        again = self.hypervisor.start('a', 101)
        self.assertTrue(self.ended.clean_up('a', 100))
        self.assertFalse(self.ended.clean_up('a', 101))
        self.assertTrue(again.is_active())

    def test_another_end(self):
        """Each has two checks."""
        self.end()
        self.ended.clean_up('a', 100)
        again = self.hypervisor.start('a', 101)
        self.kernel.remove_container(101)
        self.assertTrue(self.ended.clean_up('a', 101))
        self.assertTrue(again.is_active())

    def test_forgotten(self):
        self.end()
        self.ended.clean_up('a', 100)
        self.ended.forget_all_but(['b'])
        self.ended.clean_up('a', 100)
        self.assertTrue(self.guest.is_active())

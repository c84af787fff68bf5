# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.virt.libvirt.guard, on a fake kernel and hypervisor."""

import errno

import fixtures
import libvirt
from nova import exception as nova_exception
from oslotest import base

from nova_rt import record
from nova_rt.host import host
from nova_rt.request import Request
from nova_rt.reservation import Reservation
from nova_rt.tests.fixtures import kernel
from nova_rt.virt.libvirt import guard, metadata

RECORD = record.Record(Request(Reservation(600_000, 1_000_000), 1), (2,))


class Guest:
    """A running container."""

    def __init__(self, hypervisor, uuid, pid, rec):
        self._hypervisor = hypervisor
        self.uuid = uuid
        self.id = pid
        self._rec = rec

    def is_active(self):
        return self.id != -1

    def get_xml_desc(self):
        text = self._rec
        if isinstance(text, record.Record):
            element = metadata.LibvirtConfigGuestMetaReservation(text).to_xml()
        else:
            element = text
        return f'<domain><metadata>{element}</metadata></domain>'

    def poweroff(self):
        if self._hypervisor.stuck:
            raise libvirt.libvirtError('some processes refused to die')
        self._hypervisor.kernel.remove_container(self.id)
        self.id = -1


class Hypervisor:
    """Finds containers, as nova.virt.libvirt.host.Host does."""

    def __init__(self, fake_kernel):
        self.kernel = fake_kernel
        self.guests = {}
        self.stuck = False

    def start(self, uuid, pid, rec=RECORD):
        cpus = rec.cpus if isinstance(rec, record.Record) else None
        self.kernel.add_container(pid, uuid, cpus)
        self.guests[uuid] = Guest(self, uuid, pid, rec)
        return self.guests[uuid]

    def get_guest(self, instance):
        try:
            return self.guests[instance.uuid]
        except KeyError:
            raise nova_exception.InstanceNotFound(
                instance_id=instance.uuid
            ) from None

    def list_guests(self, only_running=True):
        return [each for each in self.guests.values() if each.is_active()]


class GuardTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.kernel = self.useFixture(kernel.make('v2-rt-max-cpu'))
        self.host = host.Host(
            cpu_set=None, smt=False, reserved_ppm=0, partition=None,
            files=self.kernel.files,
        )  # fmt: skip
        self.host.start()
        self.hypervisor = Hypervisor(self.kernel)
        self.guard = guard.ReservationGuard(self.host, self.hypervisor)

    def assert_held(self, guest):
        self.assertTrue(guest.is_active())
        self.assertIsNone(self.host.check(guest.id, RECORD))

    def test_apply(self):
        guest = self.hypervisor.start('a', 100)
        self.guard.apply(guest, RECORD)
        self.assert_held(guest)

    def test_what_is_held_is_left_alone(self):
        guest = self.hypervisor.start('a', 100)
        self.guard.apply(guest, RECORD)
        written = list(self.kernel.writes)
        self.guard.verify('a')
        self.guard.verify_all()
        self.assertEqual(written, self.kernel.writes)
        self.assertEqual(0, self.guard.repairs)

    def test_what_is_missing_is_applied_again(self):
        guests = [self.hypervisor.start(uuid, 100 + n)
                  for n, uuid in enumerate('ab')]  # fmt: skip
        guests[1]._rec = '<other/>'
        self.guard.verify_all()
        self.assert_held(guests[0])
        self.assertEqual(1, self.guard.repairs)

    def test_the_given_record_wins_over_the_domains(self):
        guest = self.hypervisor.start('a', 100)
        guest._rec = '<other/>'
        self.guard.verify('a', RECORD)
        self.assert_held(guest)

    def test_plain_containers_are_left_alone(self):
        guest = self.hypervisor.start('a', 100, '<other/>')
        written = list(self.kernel.writes)
        self.guard.verify('a')
        self.assertTrue(guest.is_active())
        self.assertEqual(written, self.kernel.writes)

    def test_what_cannot_be_held_is_stopped(self):
        guest = self.hypervisor.start('a', 100)
        for number in (errno.EINVAL, errno.EPERM, errno.EBUSY):
            self.kernel.refuse(number)
            self.guard.verify('a')
            self.assertFalse(guest.is_active())
            self.kernel.refuse(0)
            guest = self.hypervisor.start('a', 100)
        self.assertEqual(0, self.guard.repairs)

    def test_what_cannot_be_read_is_stopped(self):
        name = metadata.NAMESPACE
        guest = self.hypervisor.start(
            'a', 100, f'<reservation xmlns="{name}">v=9</reservation>'
        )
        self.guard.verify('a')
        self.assertFalse(guest.is_active())

    def test_on_the_wrong_cpus_is_stopped(self):
        guest = self.hypervisor.start('a', 100)
        self.guard.verify('a', RECORD.claimed_on((1,)))
        self.assertFalse(guest.is_active())

    def test_stopped_whatever_went_wrong(self):
        guest = self.hypervisor.start('a', 100)
        self.useFixture(
            fixtures.MockPatchObject(
                self.host, 'apply', side_effect=RuntimeError('daemon is gone')
            )
        )
        self.guard.verify('a')
        self.assertFalse(guest.is_active())

    def test_others_are_verified_if_one_cannot_be(self):
        first = self.hypervisor.start('a', 100)
        second = self.hypervisor.start('b', 101)
        check = self.host.check

        def broken(pid, rec):
            if pid == first.id:
                raise RuntimeError('oops')
            return check(pid, rec)

        self.host.check = broken
        self.guard.verify_all()
        self.assertTrue(first.is_active())
        self.assert_held(second)
        self.assertEqual(1, self.guard.repairs)

    def test_what_cannot_be_stopped_is_tried_again(self):
        guest = self.hypervisor.start('a', 100)
        self.kernel.refuse(errno.EINVAL)
        self.hypervisor.stuck = True
        self.guard.verify('a')
        self.assertTrue(guest.is_active())
        self.hypervisor.stuck = False
        self.guard.verify_all()
        self.assertFalse(guest.is_active())

    def test_started_anew_meanwhile_is_left_to_its_own_check(self):
        guest = self.hypervisor.start('a', 100)
        apply = self.host.apply

        def restarts(pid, rec):
            guest.poweroff()
            self.hypervisor.start('a', 200)
            apply(pid, rec)

        self.host.apply = restarts
        self.guard.verify('a')
        self.assertTrue(self.hypervisor.guests['a'].is_active())
        self.assertEqual(200, self.hypervisor.guests['a'].id)

    def test_gone_or_stopped(self):
        self.guard.verify('nobody')
        self.guard.stop('nobody', 'for no reason')
        guest = self.hypervisor.start('a', 100)
        guest.poweroff()
        self.guard.verify('a', RECORD)
        self.assertEqual(0, self.guard.repairs)

    def test_stop(self):
        guest = self.hypervisor.start('a', 100)
        self.guard.stop('a', 'it may not run')
        self.assertFalse(guest.is_active())

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.virt.libvirt.reservations, on a fake host."""

import dataclasses
import errno
import logging

import fixtures
import libvirt
from nova import objects
from nova.virt.libvirt import guest as libvirt_guest
from oslotest import base

from nova_rt import events, exception, extra_specs, record
from nova_rt.host import host, supply
from nova_rt.request import Request
from nova_rt.reservation import Reservation
from nova_rt.tests.fixtures import kernel
from nova_rt.virt.libvirt import metadata, reservations

RECORD = record.Record(Request(Reservation(600_000, 1_000_000), 1), (2,))


class Domain:
    """The domain of a running container, as libvirt's objects are."""

    def __init__(self, hypervisor, uuid, pid, rec):
        self._hypervisor = hypervisor
        self._uuid = uuid
        self._pid = pid
        self._rec = rec
        self.changes = 0

    def UUIDString(self):
        return self._uuid

    def ID(self):
        return self._pid

    def isActive(self):
        return self._pid != -1

    def XMLDesc(self, flags=0):
        text = self._rec
        if isinstance(text, record.Record):
            element = metadata.LibvirtConfigGuestMetaReservation(text).to_xml()
        else:
            element = text
        return f'<domain><metadata>{element}</metadata></domain>'

    def setMetadata(self, kind, text, key, uri, flags):
        if self._hypervisor.stuck:
            raise libvirt.libvirtError('the domain is busy')
        assert uri == metadata.NAMESPACE
        start, _, end = text.partition('>')
        self._rec = f'{start} xmlns="{uri}">{end}'
        self.changes += 1

    def destroy(self):
        if self._hypervisor.stuck:
            raise libvirt.libvirtError('some processes refused to die')
        self._hypervisor.kernel.remove_container(self._pid)
        self._pid = -1


class Hypervisor:
    """Finds containers, as nova.virt.libvirt.host.Host does.

    :ivar broken: UUIDs for which libvirt reports an error
    """

    def __init__(self, fake_kernel):
        self.kernel = fake_kernel
        self.domains = {}
        self.stuck = False
        self.broken = set()

    def start(self, uuid, pid, rec=RECORD, cpus=None):
        self.kernel.add_container(pid, uuid, cpus)
        self.domains[uuid] = Domain(self, uuid, pid, rec)
        return self.guest(uuid)

    def guest(self, uuid):
        return libvirt_guest.Guest(self.domains[uuid])

    def get_connection(self):
        return self

    def lookupByUUIDString(self, uuid):
        code = libvirt.VIR_ERR_NO_DOMAIN
        if uuid in self.broken:
            code = libvirt.VIR_ERR_RPC
        elif uuid in self.domains:
            return self.domains[uuid]
        error = libvirt.libvirtError('lookup failed')
        error.err = (code, 0, 'lookup failed', 0)
        raise error

    def list_guests(self, only_running=True):
        guests = map(self.guest, self.domains)
        return [each for each in guests if each.is_active()]


class TestBase(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.kernel = self.useFixture(kernel.make('v2-rt-max-cpu'))
        self.host = host.Host(
            cpu_set=None, smt=False, reserved_ppm=0, partition=None,
            files=self.kernel.files,
        )  # fmt: skip
        self.host.start()
        self.hypervisor = Hypervisor(self.kernel)
        self.reservations = reservations.Reservations(
            self.host, self.hypervisor
        )
        self.events = []
        self.reservations.seam.subscribe(self.events.append)
        self.servers = {}
        self.stopped = []

    def server(self, uuid, rec=RECORD):
        """Let a server be there, with a record of its own.

        :param rec: a record, or a text
        """
        text = rec.encode() if isinstance(rec, record.Record) else rec
        self.servers[uuid] = objects.Instance(
            uuid=uuid,
            flavor=objects.Flavor(
                extra_specs={extra_specs.RESERVATION: '600000/1000000'}
            ),
            system_metadata={record.KEY: text},
        )
        self.reservations.adopt(self.servers.values())

    def start(self, uuid, pid, carried=RECORD, rec=RECORD):
        """Start the container of a server.

        :param carried: what the domain carries
        :param rec: what the server's record says
        """
        self.server(uuid, rec)
        return self.hypervisor.start(uuid, pid, carried, RECORD.cpus)

    def kinds(self):
        return [type(event).__name__ for event in self.events]

    def repairs(self):
        return self.reservations.counter.get(events.Repaired)

    def apply(self, guest):
        self.reservations.apply(
            guest, RECORD, lambda: self.stopped.append(guest.uuid)
        )

    def refusal_of(self, function, *args):
        return self.assertRaises(
            exception.InsufficientBandwidth, function, *args
        )


class ContainersTest(TestBase):
    """What runs holds what its server's record says."""

    def assert_held(self, guest):
        self.assertTrue(guest.is_active())
        self.assertIsNone(self.host.check(guest.id, RECORD))

    def test_apply(self):
        guest = self.start('a', 100)
        self.apply(guest)
        self.assert_held(guest)
        self.assertEqual([events.Applied('a', RECORD)], self.events)
        self.assertEqual([], self.stopped)

    def test_start_that_the_kernel_refuses(self):
        guest = self.start('a', 100)
        self.kernel.refuse(errno.EBUSY)
        refusal = self.assertRaises(
            exception.ReservationNotApplied, self.apply, guest
        )
        self.assertEqual(['a'], self.stopped)
        self.assertEqual(
            [events.Stopped('a', str(refusal), at_start=True)], self.events
        )

    def test_start_that_cannot_be_stopped(self):
        """Both errors are told."""
        guest = self.start('a', 100)
        self.kernel.refuse(errno.EBUSY)
        self.hypervisor.stuck = True
        self.assertRaises(
            libvirt.libvirtError,
            self.reservations.apply, guest, RECORD, guest.poweroff,
        )  # fmt: skip
        self.assertEqual([], self.events)
        self.assertIn('EBUSY', self.log.output)
        self.assertIn('refused to die', self.log.output)

    def test_what_is_held_is_left_alone(self):
        guest = self.start('a', 100)
        self.apply(guest)
        written = list(self.kernel.writes)
        self.reservations.verify('a')
        self.reservations.verify_all()
        self.assertEqual(written, self.kernel.writes)
        self.assertEqual(0, self.repairs())

    def test_what_is_missing_is_applied_again(self):
        guest = self.start('a', 100)
        self.hypervisor.start('b', 101, '<other/>')
        self.reservations.verify_all()
        self.assert_held(guest)
        self.assertEqual(1, self.repairs())
        self.assertEqual(['Drifted', 'Repaired'], self.kinds())
        for event in self.events:
            self.assertEqual(('a', RECORD), (event.uuid, event.record))
            self.assertIn('was to hold', event.difference)
        self.assertEqual(0, self.hypervisor.domains['a'].changes)

    def test_the_servers_record_wins_over_the_domains(self):
        """The kernel holds the domain's, as after a change of the record."""
        smaller = record.Record(
            Request(Reservation(300_000, 1_000_000), 1), (2,)
        )
        guest = self.start('a', 100, smaller, RECORD)
        self.host.apply(100, smaller)
        self.reservations.verify('a')
        self.assert_held(guest)
        self.assertEqual(RECORD, metadata.parse_record(guest))
        self.assertEqual(['Drifted', 'Repaired'], self.kinds())
        self.assertIn('was to hold', self.events[0].difference)
        self.assertIn(smaller.encode(), self.events[0].difference)
        self.assertIn(RECORD.encode(), self.events[0].difference)
        self.reservations.verify('a')
        self.assertEqual(2, len(self.events))

    def test_only_the_copy_differs(self):
        name = metadata.NAMESPACE
        for broken in (
            '<other/>',
            RECORD.claimed_on((1,)),
            f'<reservation xmlns="{name}">v=9</reservation>',
        ):
            guest = self.start('a', 100, broken)
            self.host.apply(100, RECORD)
            written = list(self.kernel.writes)
            self.reservations.verify('a')
            self.assertTrue(guest.is_active())
            self.assertEqual(written, self.kernel.writes)
            self.assertEqual(RECORD, metadata.parse_record(guest))
            self.assertEqual(['Drifted', 'Repaired'], self.kinds())
            self.assertIn('its domain carries', self.events[0].difference)
            self.events.clear()
            guest.poweroff()

    def test_copy_that_cannot_be_corrected(self):
        """The kernel holds what it should, so the container runs on."""
        guest = self.start('a', 100, '<other/>')
        self.hypervisor.stuck = True
        self.reservations.verify('a')
        self.assert_held(guest)
        self.assertIn('the domain is busy', self.log.output)
        self.hypervisor.stuck = False
        self.reservations.verify('a')
        self.assertEqual(RECORD, metadata.parse_record(guest))

    def test_plain_containers_are_left_alone(self):
        guest = self.hypervisor.start('a', 100, '<other/>')
        written = list(self.kernel.writes)
        self.reservations.adopt([])
        self.reservations.verify('a')
        self.assertTrue(guest.is_active())
        self.assertEqual(written, self.kernel.writes)
        self.assertEqual('', self.log.output)

    def test_unknown_servers_are_left_alone(self):
        """And reported, once it is known which servers there are."""
        name = metadata.NAMESPACE
        broken = f'<reservation xmlns="{name}">v=9</reservation>'
        for carried in (RECORD, broken):
            self.reservations._adopted = False
            guest = self.hypervisor.start('a', 100, carried)
            written = list(self.kernel.writes)
            before = self.log.output
            self.reservations.verify('a')
            self.assertEqual(before, self.log.output)
            self.reservations.adopt([])
            self.reservations.verify('a')
            added = self.log.output.removeprefix(before)
            self.assertIn('no real-time server', added)
            self.assertTrue(guest.is_active())
            self.assertEqual(written, self.kernel.writes)
            guest.poweroff()
        self.assertEqual([], self.events)

    def test_what_cannot_be_held_is_stopped(self):
        guest = self.start('a', 100)
        for number in (errno.EINVAL, errno.EPERM, errno.EBUSY):
            self.kernel.refuse(number)
            self.reservations.verify('a')
            self.assertFalse(guest.is_active())
            self.kernel.refuse(0)
            guest = self.start('a', 100)
        self.assertEqual(0, self.repairs())
        self.assertEqual(['Drifted', 'Stopped'] * 3, self.kinds())
        self.assertIn('EINVAL', self.events[1].reason)
        self.assertIn('EBUSY', self.events[5].reason)

    def test_what_cannot_be_read_is_stopped(self):
        """By the domain's copy it could go on: that one is not asked."""
        guest = self.start('a', 100, RECORD, 'v=9')
        self.host.apply(100, RECORD)
        self.reservations.verify('a')
        self.assertFalse(guest.is_active())
        self.assertEqual(['Stopped'], self.kinds())
        self.assertIn('v=9', self.events[0].reason)

    def test_on_the_wrong_cpus_is_given_its_own(self):
        guest = self.start('a', 100)
        self.kernel.set_cpus(self.kernel.group_of(100), (1,))
        self.reservations.verify('a')
        self.assertTrue(guest.is_active())
        self.assertEqual(['Drifted', 'Repaired'], self.kinds())
        self.assertEqual(RECORD.cpus, self.host.read_held(100)[1])

    def test_on_the_wrong_cpus_for_good_is_stopped(self):
        guest = self.start('a', 100)
        self.kernel.take_off_line(2)
        self.reservations.verify('a')
        self.assertFalse(guest.is_active())
        self.assertEqual(['Drifted', 'Stopped'], self.kinds())

    def test_stopped_whatever_went_wrong(self):
        guest = self.start('a', 100)
        self.useFixture(
            fixtures.MockPatchObject(
                self.host, 'apply', side_effect=RuntimeError('daemon is gone')
            )
        )
        self.reservations.verify('a')
        self.assertFalse(guest.is_active())

    def test_others_are_verified_if_one_cannot_be(self):
        first = self.start('a', 100)
        second = self.start('b', 101)
        check = self.host.check

        def broken(pid, rec):
            if pid == first.id:
                raise RuntimeError('oops')
            return check(pid, rec)

        self.host.check = broken
        self.reservations.verify_all()
        self.assertTrue(first.is_active())
        self.assert_held(second)
        self.assertEqual(1, self.repairs())

    def test_what_cannot_be_stopped_is_tried_again(self):
        guest = self.start('a', 100)
        self.kernel.refuse(errno.EINVAL)
        self.hypervisor.stuck = True
        self.reservations.verify('a')
        self.assertTrue(guest.is_active())
        self.assertEqual(['Drifted'], self.kinds())
        self.assertIn('EINVAL', self.log.output)
        self.assertIn('refused to die', self.log.output)
        self.hypervisor.stuck = False
        self.reservations.verify_all()
        self.assertFalse(guest.is_active())
        self.assertEqual(['Drifted', 'Drifted', 'Stopped'], self.kinds())

    def test_started_anew_meanwhile_is_left_to_its_own_check(self):
        guest = self.start('a', 100)
        apply = self.host.apply

        def restarts(pid, rec):
            guest.poweroff()
            self.start('a', 200)
            apply(pid, rec)

        self.host.apply = restarts
        self.reservations.verify('a')
        self.assertTrue(self.hypervisor.guest('a').is_active())
        self.assertEqual(200, self.hypervisor.guest('a').id)

    def test_gone_or_stopped(self):
        self.server('nobody')
        self.server('broken', 'v=9')
        self.reservations.verify('nobody')
        self.reservations.verify('broken')
        guest = self.start('a', 100)
        guest.poweroff()
        self.reservations.verify('a')
        self.assertEqual(0, self.repairs())
        self.assertEqual([], self.events)

    def test_read_usage(self):
        self.assertIsNone(self.reservations.read_usage('nobody'))
        self.start('a', 100)
        use = self.useFixture(
            fixtures.MockPatchObject(
                self.host, 'read_usage', return_value={2: 'x'}
            )
        ).mock
        self.assertEqual({2: 'x'}, self.reservations.read_usage('a'))
        use.assert_called_once_with(100)

    def test_libvirt_does_not_answer(self):
        """The error is libvirt's, not one of finding words for it."""
        self.start('a', 100)
        self.hypervisor.broken.add('a')
        error = self.assertRaises(
            libvirt.libvirtError, self.reservations.verify, 'a'
        )
        self.assertEqual(libvirt.VIR_ERR_RPC, error.get_error_code())

    def test_ended_before_it_was_applied(self):
        guest = self.start('a', 100)
        del self.hypervisor.domains['a']
        refusal = self.assertRaises(
            exception.ReservationNotApplied, self.apply, guest
        )
        self.assertIn('has ended', str(refusal))
        self.assertEqual(['a'], self.stopped)

    def test_outside_of_the_partition(self):
        self.start('a', 100)
        self.server('b')
        self.server('c')
        self.hypervisor.broken.add('c')
        self.reservations.adopt(self.servers.values())
        self.assertEqual({}, self.reservations.find_outside())
        self.assertIn('Cannot see', self.log.output)
        capability = self.host.capability
        self.host.capability = dataclasses.replace(
            capability, partition=capability.partition.parent / 'other'
        )
        ((uuid, group),) = self.reservations.find_outside().items()
        self.assertEqual('a', uuid)
        self.assertIn(str(capability.partition), group)


class ClaimsTest(TestBase):
    """What servers hold of the host's bandwidth."""

    def setUp(self):
        super().setUp()
        self.reservations.adopt([], audited=True)
        self.asked = record.Record(RECORD.request)
        self.before = self.reservations.free()

    def _reads(self):
        """From now on, each reading of the kernel's supply."""
        reads = []
        read = supply.Reader.read_supply

        def count(reader, partition):
            reads.append(partition)
            return read(reader, partition)

        self.useFixture(
            fixtures.MockPatchObject(supply.Reader, 'read_supply', count)
        )
        return reads

    def test_update_of_the_tracker_reads_once(self):
        """It publishes what is free, and the driver its inventory."""
        reads = self._reads()
        self.reservations.free()
        self.host.capacity()
        self.assertEqual(1, len(reads))

    def test_claim_reads_once(self):
        reads = self._reads()
        self.reservations.claim('a', RECORD)
        self.assertEqual(1, len(reads))

    def test_cpus_that_do_not_fit_into_a_record(self):
        """Refused, with the reason; nothing is held."""
        scattered = tuple(range(0, 1800, 3))
        asked = record.Record(Request(Reservation(500, 1000), 600))
        with fixtures.MockPatchObject(
            self.host, 'place', lambda claims, vcpus, ppm: scattered
        ):
            refusal = self.assertRaises(
                exception.InvalidRecord, self.reservations.claim, 'a', asked
            )
        self.assertIn('too scattered for a record', str(refusal))
        self.assertEqual({}, self.reservations.claims())
        self.assertEqual(
            [events.Refused('a', events.Action.CLAIM, str(refusal))],
            self.events,
        )

    def test_before_the_first_audit(self):
        """What is held is unknown then: nothing is given or given up."""
        rec = record.Record(Request(Reservation(600, 1000), 1), (1,))
        self.server('here', rec)
        fresh = reservations.Reservations(self.host, self.hypervisor)
        refused = []
        fresh.seam.subscribe(refused.append)
        fresh.adopt(self.servers.values())
        refusal = self.assertRaises(
            exception.ClaimsUnknown, fresh.claim, 'a', self.asked
        )
        self.assertEqual(
            [events.Refused('a', events.Action.CLAIM, str(refusal))], refused
        )
        fresh.release_others(set())
        self.assertEqual({'here': rec.claim}, fresh.claims())
        fresh.adopt(self.servers.values(), audited=True)
        fresh.claim('a', self.asked)
        fresh.release_others({'a'})
        self.assertEqual({'a'}, fresh.claims().keys())

    def test_claim_and_release(self):
        rec = self.reservations.claim('a', self.asked)
        self.assertEqual(self.asked.claimed_on(rec.cpus), rec)
        self.assertEqual(rec, self.reservations.get_record('a'))
        self.assertEqual({'a': rec.claim}, self.reservations.claims())
        (cpu,) = rec.cpus
        self.assertEqual(
            self.before.cpus[cpu] - 600_000, self.reservations.free().cpus[cpu]
        )
        self.reservations.release('a')
        self.reservations.release('a')
        self.assertIsNone(self.reservations.get_record('a'))
        self.assertEqual(self.before, self.reservations.free())
        self.assertEqual(
            [events.Claimed('a', rec), events.Released('a', rec)], self.events
        )

    def test_refused_with_the_numbers(self):
        cpus = len(self.before.cpus)
        for number in range(cpus):
            self.reservations.claim(f'a{number}', self.asked)
        self.events.clear()
        refusal = self.refusal_of(self.reservations.claim, 'b', self.asked)
        self.assertIsNone(self.reservations.get_record('b'))
        self.assertEqual(
            [
                events.Refused(
                    'b', events.Action.CLAIM, str(refusal), 600_000, 1,
                    (max(self.before.cpus.values()) - 600_000,),
                )
            ],
            self.events,
        )  # fmt: skip
        self.assertIn('Cannot claim: RT bandwidth: asked 600000', (
            self.log.output
        ))  # fmt: skip

    def test_others_are_released(self):
        for uuid in 'abc':
            self.reservations.claim(uuid, self.asked)
        self.reservations.release_others({'b', 'x'})
        self.assertEqual({'b'}, self.reservations.claims().keys())
        self.assertEqual({'a', 'c'}, {event.uuid for event in self.events[3:]})

    def test_audit(self):
        """The servers' records replace what is in memory."""
        for uuid in 'abc':
            self.reservations.claim(uuid, self.asked)
        self.events.clear()
        self.server('a', RECORD.claimed_on((3,)))
        self.server('b', 'v=9')
        self.assertEqual(
            {'a': RECORD.claimed_on((3,)).claim}, self.reservations.claims()
        )
        self.assertIn('Holds no bandwidth', self.log.output)
        for _ in range(2):
            refusal = self.assertRaises(
                exception.InvalidRecord, self.reservations.get_record, 'b'
            )
            self.assertIn('v=9', str(refusal))
        self.assertEqual(
            {('Released', 'b'), ('Released', 'c')},
            {(type(event).__name__, event.uuid) for event in self.events},
        )

    def test_claim_of_a_server_that_had_a_broken_record(self):
        self.server('a', 'v=9')
        rec = self.reservations.claim('a', self.asked)
        self.assertEqual(rec, self.reservations.get_record('a'))

    def test_refuse(self):
        text = self.reservations.refuse('a', events.Action.MOVE, 'never')
        self.assertEqual('never', text)
        error = exception.InvalidReservation('0/0')
        text = self.reservations.refuse('a', events.Action.REQUEST, error)
        self.assertEqual('0/0', text)
        self.assertEqual(
            [
                events.Refused('a', events.Action.MOVE, 'never'),
                events.Refused('a', events.Action.REQUEST, '0/0'),
            ],
            self.events,
        )

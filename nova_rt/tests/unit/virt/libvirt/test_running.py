# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.virt.libvirt.running, on a fake host."""

import copy
import dataclasses
import errno
import os

import fixtures
import libvirt
from nova.virt.libvirt import guest as libvirt_guest
from oslo_privsep import comm, daemon

from nova_rt import events, exception
from nova_rt.reservation import record
from nova_rt.reservation.domain_record import DomainRecord
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.unit.virt.libvirt import base
from nova_rt.tracking import servers, stop_policy
from nova_rt.virt.libvirt import metadata, running

RECORD = base.RECORD

#: Of which twenty fit on a CPU.
SMALL = record.Record(Request(Reservation(10_000, 1_000_000), 1), (2,))


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
            element = metadata.LibvirtConfigGuestMetaReservation(
                DomainRecord(text)
            ).to_xml()
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
        kernel = self._hypervisor.kernel
        if (kernel.files.proc / str(self._pid)).exists():
            kernel.remove_container(self._pid)
        self._pid = -1


class Hypervisor:
    """Finds containers, as nova.virt.libvirt.host.Host does.

    :ivar broken: UUIDs for which libvirt reports an error
    """

    def __init__(self, fake_kernel):
        # libvirt keeps the last error of a thread, and its exceptions tell
        # that one instead of their own: a test before this may have left one.
        libvirt.virResetLastError()
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


#: For a kernel that limits.
LIMITED = record.Record(
    Request(Reservation(200_000, 1_000_000), 1, enforcement=Enforcement.LIMIT),
    (2,),
)


class RunningContainersTestCase(base.TestBase):
    def setUp(self):
        super().setUp()
        self.hypervisor = Hypervisor(self.kernel)
        self.running = running.RunningContainers(
            self.host,
            self.hypervisor,
            self.reservations,
            stop_policy.StopPolicy(1, lambda: self.now),
        )
        self.now = 1000.0
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.cgroup.PATIENCE_S', 0)
        )
        self.stopped = []

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
        self.running.apply(
            guest, RECORD, lambda: self.stopped.append(guest.uuid)
        )

    def assert_held(self, guest, rec=RECORD):
        self.assertTrue(guest.is_active())
        self.assertIsNone(self.host.check(guest.id, rec))


class RunningContainersTest(RunningContainersTestCase):
    """Running containers hold what their servers' records say."""

    def test_started_behind_our_back_on_a_weaker_kernel(self):
        """It is reported, once, and runs on."""
        guest = self.start('a', 100)
        self.host.apply(100, RECORD)
        found = self.host.capability
        self.host.capability = dataclasses.replace(
            found,
            interface=dataclasses.replace(
                found.interface, enforcement=Enforcement.LIMIT
            ),
        )
        for _ in range(2):
            self.running.verify('a')
        self.assertTrue(guest.is_active())
        self.assertEqual(['Drifted', 'Drifted'], self.kinds())
        self.assertIn('does no more than limit', self.events[0].difference)
        self.assertEqual([False, True], [e.again for e in self.events])

    def _spawn(self):
        """Keep what is to be run in other threads."""
        spawned = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.thread_pool_factory.spawn', spawned.append
            )
        )
        return spawned

    def test_many_starts_take_one_thread(self):
        spawned = self._spawn()
        uuids = [f'server-{number}' for number in range(5)]
        for pid, uuid in enumerate(uuids, 100):
            self.server(uuid, SMALL)
            self.hypervisor.start(uuid, pid, SMALL, SMALL.cpus)
            self.running.verify_started(uuid)
        self.assertEqual(1, len(spawned))
        spawned[0]()
        for uuid in uuids:
            self.assert_held(self.hypervisor.guest(uuid), SMALL)
        self.running.verify_started(uuids[0])
        self.assertEqual(2, len(spawned))

    def test_our_own_start_takes_none(self):
        spawned = self._spawn()
        with self.running.starting('a', RECORD):
            self.running.verify_started('a')
        self.assertEqual([], spawned)
        self.running.verify_started('a')
        self.assertEqual(1, len(spawned))

    def test_apply(self):
        guest = self.start('a', 100)
        self.apply(guest)
        self.assert_held(guest)
        self.assertEqual([events.Applied('a', RECORD)], self.events)
        self.assertEqual([], self.stopped)
        # What is held is left alone.
        written = list(self.kernel.writes)
        self.running.verify('a')
        self.running.verify_all()
        self.assertEqual(written, self.kernel.writes)
        self.assertEqual(0, self.repairs())

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
        # One that cannot be stopped: both errors are told.
        self.events.clear()
        self.hypervisor.stuck = True
        self.assertRaises(
            libvirt.libvirtError,
            self.running.apply, guest, RECORD, guest.poweroff,
        )  # fmt: skip
        self.assertEqual([], self.events)
        self.assertIn('EBUSY', self.log.output)
        self.assertIn('refused to die', self.log.output)

    def test_ended_before_its_reservation(self):
        for pid, end in (
            (100, lambda guest: guest.poweroff()),
            (101, lambda guest: self.hypervisor.domains.pop('a')),
        ):
            guest = self.start('a', pid)
            end(guest)
            refusal = self.assertRaises(
                exception.ReservationNotApplied, self.apply, guest
            )
            self.assertIn('has ended before it had', str(refusal))
            self.assertEqual(['a'], self.stopped)
            self.stopped.clear()

    def test_what_is_missing_is_applied_again(self):
        guest = self.start('a', 100)
        self.hypervisor.start('b', 101, '<other/>')
        self.running.verify_all()
        self.assert_held(guest)
        self.assertEqual(1, self.repairs())
        self.assertEqual(['Drifted', 'Repaired'], self.kinds())
        for event in self.events:
            self.assertEqual(('a', RECORD), (event.uuid, event.record))
            self.assertIn('expected', event.difference)
        self.assertEqual(0, self.hypervisor.domains['a'].changes)

    def test_the_servers_record_wins_over_the_domains(self):
        """The kernel holds the domain's, as after a change of the record."""
        smaller = record.Record(
            Request(Reservation(300_000, 1_000_000), 1), (2,)
        )
        guest = self.start('a', 100, smaller, RECORD)
        self.host.apply(100, smaller)
        self.running.verify('a')
        self.assert_held(guest)
        self.assertEqual(RECORD, metadata.parse_record(guest).record)
        self.assertEqual(['Drifted', 'Repaired'], self.kinds())
        self.assertIn('expected', self.events[0].difference)
        self.assertIn(smaller.encode(), self.events[0].difference)
        self.assertIn(RECORD.encode(), self.events[0].difference)
        self.running.verify('a')
        self.assertEqual(2, len(self.events))

    def make_ordinary(self, pid):
        for tid in self.kernel.tasks_of(pid):
            self.kernel.make_real_time(tid, os.SCHED_OTHER, 0)

    def policies(self, pid):
        return {
            self.kernel.policy_of(tid) for tid in self.kernel.tasks_of(pid)
        }

    def test_tasks_that_made_themselves_ordinary(self):
        """A tenant may do that: there is nothing to repair or to report."""
        self.running.apply(self.start('a', 100, SMALL, SMALL), SMALL, None)
        self.start('b', 101, SMALL, SMALL)
        self.running.verify_all()
        self.events.clear()
        before = self.log.output
        for pid in (100, 101):
            self.make_ordinary(pid)
        for _ in range(2):
            self.verify_again()
            for pid in (100, 101):
                self.assertEqual({(os.SCHED_OTHER, 0)}, self.policies(pid))
        self.assertEqual([], self.events)
        self.assertEqual(before, self.log.output)

    def test_policy_that_was_not_given(self):
        """This service has ended between the reservation and the policy."""

        def fail(*args):
            raise OSError(errno.EMFILE, 'Too many open files')

        for pid, kinds in ((100, []), (102, ['Unverified'])):
            guest = self.start('a', pid)
            self.host.apply(pid, RECORD)
            self.make_ordinary(pid)
            if kinds:
                with fixtures.MonkeyPatch(
                    'nova_rt.host.tasks.give_policy', fail
                ):
                    self.verify_again()
            else:
                self.assertEqual('', self.log.output)
            self.assertEqual(kinds, self.kinds())
            self.verify_again()
            self.assert_held(guest)
            self.assertEqual({(os.SCHED_RR, 1)}, self.policies(pid))
            self.assertEqual([*kinds, 'Promoted'], self.kinds())
            # Once for each start.
            self.make_ordinary(pid)
            self.verify_again()
            self.assertEqual([*kinds, 'Promoted'], self.kinds())
            self.events.clear()
            guest.poweroff()

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
            self.running.verify('a')
            self.assertTrue(guest.is_active())
            self.assertEqual(written, self.kernel.writes)
            self.assertEqual(RECORD, metadata.parse_record(guest).record)
            self.assertEqual(['Drifted', 'Repaired'], self.kinds())
            self.assertIn('its domain carries', self.events[0].difference)
            self.events.clear()
            guest.poweroff()

    def test_change(self):
        guest = self.start('a', 100)
        self.apply(guest)
        self.make_ordinary(100)
        self.events.clear()
        larger = dataclasses.replace(
            RECORD,
            request=dataclasses.replace(
                RECORD.request, reservation=Reservation(700_000, 1_000_000)
            ),
        )
        self.assertTrue(self.running.change('a', larger))
        self.assert_held(guest, larger)
        # Its programs may have chosen that.
        self.assertEqual({(os.SCHED_OTHER, 0)}, self.policies(100))
        self.assertFalse(self.running.change('a', larger))
        # While it is being changed, it is left alone.
        instance = self.servers['a']
        instance.system_metadata[servers.CHANGE] = larger.encode()
        self.reservations.hold_record(instance)
        self.running.verify('a')
        self.assert_held(guest, larger)
        self.assertTrue(self.running.change('a', larger, RECORD))
        self.assert_held(guest)
        self.kernel.refuse(errno.EBUSY)
        err = self.assertRaises(
            exception.ReservationNotApplied, self.running.change, 'a', larger
        )
        self.assertTrue(err.verdict)
        guest.poweroff()
        self.assertFalse(self.running.change('a', larger))
        self.assertEqual([], self.events)

    def test_copy_that_cannot_be_corrected(self):
        """The kernel holds what it should, so the container runs on."""
        guest = self.start('a', 100, '<other/>')
        self.hypervisor.stuck = True
        self.running.verify('a')
        self.assert_held(guest)
        self.assertIn('the domain is busy', self.log.output)
        self.hypervisor.stuck = False
        self.running.verify('a')
        self.assertEqual(RECORD, metadata.parse_record(guest).record)

    def test_plain_containers_are_left_alone(self):
        guest = self.hypervisor.start('a', 100, '<other/>')
        written = list(self.kernel.writes)
        self.reservations.adopt([])
        self.running.verify('a')
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
            self.running.verify('a')
            self.assertEqual(before, self.log.output)
            self.reservations.adopt([])
            self.running.verify('a')
            added = self.log.output.removeprefix(before)
            self.assertIn('no real-time server', added)
            # Once for each state, and no more with each check.
            told = self.log.output
            self.running.verify('a')
            self.assertEqual(told, self.log.output)
            self.assertTrue(guest.is_active())
            self.assertEqual(written, self.kernel.writes)
            guest.poweroff()
        self.assertEqual([], self.events)

    def verify_again(self):
        """The next check of all containers, a minute later."""
        self.now += 60
        self.running.verify_all()

    def test_what_the_kernel_refuses_twice_is_stopped(self):
        def refuse_cpus():
            self.kernel.set_cpus(self.kernel.group_of(100), (1,))
            self.kernel.refuse(errno.EBUSY)

        for hurt, text in (
            (lambda: self.kernel.refuse(errno.EINVAL), 'EINVAL'),
            (lambda: self.kernel.refuse(errno.EBUSY), 'EBUSY'),
            (lambda: self.kernel.refuse(errno.ERANGE), 'ERANGE'),
            (refuse_cpus, 'expected CPUs 2, found 1'),
            (lambda: self.kernel.falsify(700), '700'),
        ):
            guest = self.start('a', 100)
            hurt()
            self.verify_again()
            self.assertTrue(guest.is_active())
            self.verify_again()
            self.assertFalse(guest.is_active())
            self.kernel.refuse(0)
            self.assertEqual(
                ['Drifted', 'Unverified', 'Drifted', 'Stopped'], self.kinds()
            )
            for event in (self.events[1], self.events[3]):
                self.assertIn(text, event.reason)
            self.events.clear()
            self.verify_again()
        self.assertEqual(0, self.repairs())

    def test_refused_once(self):
        """Refusals before it was well again do not count."""
        guest = self.start('a', 100)
        for _ in range(3):
            self.kernel.refuse(errno.EBUSY)
            self.kernel.reset(100)
            self.verify_again()
            self.kernel.refuse(0)
            self.verify_again()
        self.assert_held(guest)
        self.assertEqual(
            ['Drifted', 'Unverified', 'Drifted', 'Repaired'] * 3, self.kinds()
        )

    def test_refused_twice_at_the_same_moment(self):
        """Bandwidth may be on its way back."""
        guest = self.start('a', 100)
        self.kernel.refuse(errno.EBUSY)
        for _ in range(3):
            self.running.verify('a')
        self.assertTrue(guest.is_active())

    def test_another_container_of_a_server_was_refused(self):
        self.start('a', 100)
        self.kernel.refuse(errno.EBUSY)
        self.running.verify('a')
        self.hypervisor.guest('a').poweroff()
        guest = self.start('a', 200)
        self.verify_again()
        self.assertTrue(guest.is_active())
        self.verify_again()
        self.assertFalse(guest.is_active())

    def test_at_most_one_is_stopped_within_a_minute(self):
        guests = [self.start(f's{n}', 100 + n) for n in range(5)]
        self.kernel.refuse(errno.EINVAL)
        self.verify_again()
        for left in (4, 3, 2, 1, 0):
            self.verify_again()
            running = [guest for guest in guests if guest.is_active()]
            self.assertEqual(left, len(running))
            self.now += 1
            self.running.verify_all()
            self.now -= 1
            running = [guest for guest in guests if guest.is_active()]
            self.assertEqual(left, len(running))
        self.assertIn('max_stops_per_minute', self.log.output)

    def test_operator_allows_no_stop(self):
        self.running._verdicts = stop_policy.StopPolicy(0, lambda: self.now)
        guest = self.start('a', 100)
        self.kernel.refuse(errno.EINVAL)
        for _ in range(5):
            self.verify_again()
        self.assertTrue(guest.is_active())
        self.assertNotIn('Stopped', self.kinds())
        self.kernel.refuse(0)
        self.verify_again()
        self.assert_held(guest)

    def start_many(self, number):
        guests = [
            self.start(f's{n}', 100 + n, SMALL, SMALL) for n in range(number)
        ]
        for guest in guests:
            self.running.apply(guest, SMALL, guest.poweroff)
        self.events.clear()
        return guests

    def assert_left_alone(self, guests, *texts):
        """Two checks report all of them, and stop none."""
        before = len(self.log.output)
        for again in (False, True):
            self.verify_again()
            self.assertNotIn('Stopped', self.kinds())
            self.assertTrue(all(guest.is_active() for guest in guests))
            unverified = [
                event
                for event in self.events
                if isinstance(event, events.Unverified)
            ]
            self.assertEqual(
                {guest.uuid for guest in guests},
                {event.uuid for event in unverified},
            )
            self.assertEqual({again}, {event.again for event in unverified})
            for text in texts:
                self.assertIn(text, unverified[0].reason)
            self.events.clear()
        logged = self.log.output[before:].count('each check tries again')
        self.assertEqual(len(guests), logged)

    def assert_well_again(self, guests):
        self.verify_again()
        for guest in guests:
            self.assert_held(guest, SMALL)
        self.events.clear()
        self.verify_again()
        self.assertEqual([], self.events)

    def failing(self, target, name, error):
        def fail(*args, **kwargs):
            # Each time another one: the same would grow by a traceback.
            raise copy.copy(error)

        return fixtures.MockPatchObject(target, name, side_effect=fail)

    def test_what_cannot_be_read_or_repaired_runs_on(self):
        """A fault of ours costs nobody a server.

        The helper has no descriptors left, is gone, or may do nothing.
        """
        guests = self.start_many(3)
        faults = [
            (name, OSError(getattr(errno, number), 'no'), number)
            for name, numbers in (
                ('read', ('EMFILE', 'ENFILE', 'ENOMEM', 'EIO', 'ENOENT')),
                ('read_owner', ('EMFILE', 'EAGAIN')),
                ('_call', ('EMFILE', 'EPERM', 'EACCES', 'EPIPE', 'EIO')),
            )
            for number in numbers
        ]
        for name, error, text in (
            *faults,
            ('read', RuntimeError('a bug'), 'RuntimeError: a bug'),
            ('read_owner', UnicodeDecodeError('ascii', b'x', 0, 1, 'y'),
             'UnicodeDecodeErr'),
            ('_call', OSError('Premature eof waiting'), 'Premature eof'),
            ('_call', daemon.FailedToDropPrivileges('no sudo'), 'no sudo'),
            ('_call', comm.PrivsepTimeout('late'), 'PrivsepTimeout'),
        ):  # fmt: skip
            with self.subTest(name=name, error=error):
                if name == '_call':
                    for guest in guests:
                        self.kernel.reset(guest.id)
                with self.failing(self.kernel.files, name, error):
                    self.assert_left_alone(guests, text)
                self.assert_well_again(guests)
        # What may be a bug has a traceback.
        self.assertIn('Could not verify the reservation', self.log.output)

    def test_record_that_cannot_be_read(self):
        """It is ours: the container runs on, and nothing is changed."""
        guest = self.start('a', 100, RECORD, 'v=9')
        self.host.apply(100, RECORD)
        written = list(self.kernel.writes)
        self.assert_left_alone([guest], 'v=9')
        self.assertEqual(written, self.kernel.writes)

    def test_on_the_wrong_cpus_is_given_its_own(self):
        guest = self.start('a', 100)
        self.kernel.set_cpus(self.kernel.group_of(100), (1,))
        self.running.verify('a')
        self.assertTrue(guest.is_active())
        self.assertEqual(['Drifted', 'Repaired'], self.kinds())
        self.assertEqual(RECORD.cpus, kernel.read_held(self.host, 100)[1])

    def test_others_are_verified_if_one_cannot_be(self):
        first = self.start('a', 100)
        second = self.start('b', 101)
        compare = self.host.compare

        def broken(pid, rec):
            if pid == first.id:
                raise RuntimeError('oops')
            return compare(pid, rec)

        self.host.compare = broken
        self.running.verify_all()
        self.assertTrue(first.is_active())
        self.assert_held(second)
        self.assertEqual(1, self.repairs())

    def test_what_cannot_be_stopped_is_tried_again(self):
        guest = self.start('a', 100)
        self.kernel.refuse(errno.EINVAL)
        self.hypervisor.stuck = True
        self.verify_again()
        self.verify_again()
        self.assertTrue(guest.is_active())
        self.assertIn('EINVAL', self.log.output)
        self.assertIn('refused to die', self.log.output)
        self.assertNotIn('Stopped', self.kinds())
        self.hypervisor.stuck = False
        self.verify_again()
        self.assertFalse(guest.is_active())
        self.assertEqual('Stopped', self.kinds()[-1])

    def test_started_anew_meanwhile_is_left_to_its_own_check(self):
        guest = self.start('a', 100)
        apply = self.host.apply

        def restarts(pid, rec, patience):
            guest.poweroff()
            self.start('a', 200)
            apply(pid, rec, patience)

        self.host.apply = restarts
        self.running.verify('a')
        self.assertTrue(self.hypervisor.guest('a').is_active())
        self.assertEqual(200, self.hypervisor.guest('a').id)

    def test_gone_or_stopped(self):
        self.server('nobody')
        self.server('broken', 'v=9')
        self.running.verify('nobody')
        self.running.verify('broken')
        guest = self.start('a', 100)
        guest.poweroff()
        self.running.verify('a')
        self.assertEqual(0, self.repairs())
        self.assertEqual([], self.events)

    def test_read_usage(self):
        self.assertEqual({}, self.running.read_usage('nobody'))
        self.start('a', 100)
        use = self.useFixture(
            fixtures.MockPatchObject(
                self.host, 'read_usage', return_value={2: 'x', 3: 'before'}
            )
        ).mock
        self.assertEqual({2: 'x'}, self.running.read_usage('a'))
        use.assert_called_once_with(100)
        use.return_value = None
        self.assertEqual({}, self.running.read_usage('a'))

    def test_libvirt_does_not_answer(self):
        """The error is libvirt's, not one of finding words for it."""
        self.start('a', 100)
        self.hypervisor.broken.add('a')
        self.running.verify('a')
        self.assertEqual(
            [events.Unverified('a', 'libvirtError: lookup failed')],
            self.events,
        )

    def test_outside_of_the_partition(self):
        self.start('a', 100)
        self.server('b')
        self.server('c')
        self.hypervisor.broken.add('c')
        self.reservations.adopt(self.servers.values())
        self.assertEqual({}, self.running.find_outside())
        self.assertIn('Cannot find the group', self.log.output)
        capability = self.host.capability
        self.host.capability = dataclasses.replace(
            capability, partition=capability.partition.parent / 'other'
        )
        ((uuid, group),) = self.running.find_outside().items()
        self.assertEqual('a', uuid)
        self.assertIn(str(capability.partition), group)


class LostCPU:
    """An operator takes a CPU away, under servers that run."""

    def setUp(self):
        super().setUp()
        self.ours = self.start('a', 100, self.RECORD, self.RECORD)
        self.host.apply(100, self.RECORD)

    def verify(self):
        """For longer than it takes to stop somebody."""
        for _ in range(4):
            self.running.verify_all()
            self.now += 60

    def test_nobody_is_stopped(self):
        self.lose()
        self.verify()
        self.assertTrue(self.ours.is_active())
        self.assertEqual({'Drifted', 'Unverified'}, set(self.kinds()))
        self.assertIn('CPUs 2, which servers', self.log.output)
        self.assertIn(
            f'not in the cpuset of {self.kernel.partition}', self.log.output
        )
        self.events.clear()
        self.bring_back()
        self.verify()
        self.assertNotIn('Stopped', self.kinds())
        self.assert_held(self.ours, self.RECORD)


class NarrowPartitionTest(LostCPU, RunningContainersTestCase):
    """CPU 2 is taken from the cpuset of the partition."""

    RECORD = RECORD

    def lose(self):
        self.kernel.set_cpus(self.kernel.partition, (0, 1, 3))

    def bring_back(self):
        self.kernel.set_cpus(self.kernel.partition, range(4))


class OfflineTest(LostCPU, RunningContainersTestCase):
    """CPU 2 is taken off line by hand."""

    INTERFACE = 'v1-throttle'
    RECORD = LIMITED

    def lose(self):
        self.kernel.take_off_line(2)

    def bring_back(self):
        self.kernel.bring_on_line(2)

    def test_nobody_else_is_stopped(self):
        """Because of what runs elsewhere now, for example."""
        other = dataclasses.replace(LIMITED, cpus=(1,))
        guest = self.start('b', 101, other, other)
        self.kernel.take_off_line(2)
        self.kernel.refuse(errno.EBUSY)
        self.verify()
        self.assertTrue(guest.is_active())
        self.assertNotIn('Stopped', self.kinds())
        # That is a verdict again.
        self.kernel.bring_on_line(2)
        self.verify()
        self.assertIn('Stopped', self.kinds())

    def test_it_is_not_known_which_are_online(self):
        self.kernel.refuse(errno.EINVAL)
        self.kernel.reset(100)
        (self.kernel.files.sys / 'devices/system/cpu/online').unlink()
        self.verify()
        self.assertTrue(self.ours.is_active())

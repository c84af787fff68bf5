# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.tracking.reservations, on a fake host."""

import dataclasses
from unittest import mock

import fixtures

from nova_rt import events, exception
from nova_rt.host import cgroup, hcbs_files
from nova_rt.reservation import record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.unit.virt.libvirt import base
from nova_rt.tracking import reservations
from nova_rt.tracking.claims import Slots

RECORD = base.RECORD


class ClaimsTest(base.TestBase):
    """The claims of servers on the host's bandwidth."""

    def setUp(self):
        super().setUp()
        self.reservations.adopt([], audited=True)
        self.asked = record.Record(RECORD.request)
        self.before = self.reservations.free()

    def refusal_of(self, function, *args):
        return self.assertRaises(
            exception.InsufficientBandwidth, function, *args
        )

    def test_kernel_is_read_once(self):
        """By the tracker, with the driver's inventory, and by a claim."""
        reads = []
        read = hcbs_files.HCBSReader.read_supply

        def count(reader, partition):
            reads.append(partition)
            return read(reader, partition)

        self.useFixture(
            fixtures.MockPatchObject(
                hcbs_files.HCBSReader, 'read_supply', count
            )
        )
        self.reservations.free()
        self.host.capacity()
        self.assertEqual(1, len(reads))
        self.reservations.claim('a', RECORD)
        self.assertEqual(2, len(reads))

    def test_cpus_that_do_not_fit_into_a_record(self):
        """Refused, with the reason; nothing is held."""
        scattered = tuple(range(0, 1800, 3))
        asked = record.Record(Request(Reservation(500, 1000), 600))
        with fixtures.MockPatchObject(
            self.host, 'place', lambda *args: scattered
        ):
            refusal = self.assertRaises(
                exception.InvalidRecord, self.reservations.claim, 'a', asked
            )
        self.assertIn('too scattered for a record', str(refusal))
        self.assertEqual({}, self.reservations.held.claims())
        self.assertEqual(
            [events.Refused('a', events.Action.CLAIM, str(refusal))],
            self.events,
        )

    def test_before_the_first_audit(self):
        """The held bandwidth is unknown then: none is given or given up."""
        rec = record.Record(Request(Reservation(600, 1000), 1), (1,))
        self.server('here', rec)
        fresh = reservations.Reservations(self.host)
        refused = []
        fresh.dispatcher.subscribe(refused.append)
        fresh.adopt(self.servers.values())
        refusal = self.assertRaises(
            exception.ClaimsUnknown, fresh.claim, 'a', self.asked
        )
        self.assertEqual(
            [events.Refused('a', events.Action.CLAIM, str(refusal))], refused
        )
        self.assertEqual({'here': (rec,)}, fresh.held.claims())
        fresh.adopt(self.servers.values(), audited=True)
        fresh.claim('a', self.asked)
        self.assertEqual({'a', 'here'}, fresh.held.claims().keys())

    def test_claim_and_release(self):
        rec = self.reservations.claim('a', self.asked)
        self.assertEqual(self.asked.claimed_on(rec.cpus), rec)
        self.assertEqual(rec, self.reservations.held.get_record('a'))
        self.assertEqual({'a': (rec,)}, self.reservations.held.claims())
        (cpu,) = rec.cpus
        self.assertEqual(
            self.before.cpus[cpu] - 600_000, self.reservations.free().cpus[cpu]
        )
        self.reservations.release('a')
        self.reservations.release('a')
        self.assertIsNone(self.reservations.held.get_record('a'))
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
        self.assertIsNone(self.reservations.held.get_record('b'))
        self.assertEqual(
            [
                events.Refused(
                    'b', events.Action.CLAIM, str(refusal), 600_000, 1,
                    (max(self.before.cpus.values()) - 600_000,),
                )
            ],
            self.events,
        )  # fmt: skip
        self.assertIn('Cannot claim reservation: RT bandwidth: asked 600000', (
            self.log.output
        ))  # fmt: skip

    def test_feedback(self):
        """The larger of record and present reservation counts."""
        rec = self.reservations.claim('a', self.asked)
        (cpu,) = rec.cpus
        held = self.reservations.held

        def left_ppm():
            return self.before.cpus[cpu] - self.reservations.free().cpus[cpu]

        more, less = rec.with_runtime(700_000), rec.with_runtime(100_000)
        self.assertEqual(more, self.reservations.grow('a', more))
        self.assertEqual((rec, 700_000), (
            held.get_actual('a', rec), left_ppm()))  # fmt: skip
        self.reservations.note_actual('a', more)
        self.reservations.note_actual('a', less)
        self.assertEqual((less, 700_000), (
            held.get_actual('a', rec), left_ppm()))  # fmt: skip
        self.reservations.note_record('a', less)
        self.assertEqual(100_000, left_ppm())
        self.assertIsNone(held.get_adapted('a'))
        # As much as there is.
        whole = rec.with_runtime(1_000_000)
        most = self.reservations.grow('a', whole)
        self.assertEqual(self.before.cpus[cpu], most.ppm)
        self.reservations.note_actual('a', most)
        self.assertIsNone(self.reservations.grow('a', whole))
        self.reservations.release('a')
        self.assertEqual(0, left_ppm())
        self.assertEqual([events.Claimed, events.Released],
                         [type(each) for each in self.events])  # fmt: skip

    def test_no_feedback_for_others(self):
        """Of a server that is changed, moved, or has another record."""
        rec = self.reservations.claim('a', self.asked)
        more = rec.with_runtime(700_000)
        other = dataclasses.replace(more, cpus=(3,))
        self.assertIsNone(self.reservations.grow('a', other))
        self.reservations.begin_change('a', rec, more)
        self.assertIsNone(
            self.reservations.grow('a', rec.with_runtime(800_000))
        )
        self.reservations.hold('a', rec, rec)
        self.assertIsNone(self.reservations.grow('a', more))
        self.assertIsNone(self.reservations.grow('b', more))

    def test_a_record_beside_a_write(self):
        """The claim of a write to come outlives the save of a record."""
        rec = self.reservations.claim('a', self.asked)
        more = self.reservations.grow('a', rec.with_runtime(700_000))
        self.reservations.note_record('a', rec)
        self.assertEqual({'a': (more,)}, self.reservations.held.claims())
        self.reservations.stop_growing('a')
        self.reservations.note_record('a', rec)
        self.assertEqual({'a': (rec,)}, self.reservations.held.claims())

    def test_two_slots(self):
        """A resize on this host, confirmed."""
        old = self.reservations.claim('a', self.asked)
        new = self.reservations.claim('a', self.asked, beside=True)
        self.assertNotEqual(old.cpus, new.cpus)
        self.assertEqual(old, self.reservations.held.get_record('a'))
        self.assertEqual({'a': (old, new)}, self.reservations.held.claims())
        self.assertEqual(
            (old, new), self.reservations.held.describe('a', old).claims
        )
        self.assertEqual({'a': old}, self.reservations.held.list_records())
        for cpu in (*old.cpus, *new.cpus):
            self.assertEqual(
                self.before.cpus[cpu] - 600_000,
                self.reservations.free().cpus[cpu],
            )
        self.reservations.hold('a', new, old)
        self.assertEqual(new, self.reservations.held.get_record('a'))
        self.reservations.hold('a', new)
        self.reservations.release('a')
        self.assertEqual(self.before, self.reservations.free())
        self.assertEqual(
            [
                events.Claimed('a', old), events.Added('a', new),
                events.Dropped('a', old), events.Released('a', new),
            ],
            self.events,
        )  # fmt: skip

    def test_two_slots_that_are_the_same(self):
        rec = RECORD.claimed_on((1,))
        for beside, left_ppm in (None, 600_000), (rec, 1_200_000), (
            None, 600_000
        ):  # fmt: skip
            self.reservations.hold('a', rec, beside)
            self.assertEqual(
                max(0, self.before.cpus[1] - left_ppm),
                self.reservations.free().cpus[1],
            )
        self.assertEqual(
            ['Claimed', 'Added', 'Dropped'],
            [type(event).__name__ for event in self.events],
        )

    def test_server_that_comes(self):
        """The record held for it is not what a container must have here."""
        rec = self.reservations.claim('a', self.asked, beside=True)
        self.assertIsNone(self.reservations.held.get_record('a'))
        self.assertEqual({'a': (rec,)}, self.reservations.held.claims())
        self.assertEqual({'a': rec}, self.reservations.held.list_records())
        # Once more, after an attempt of which nothing is left.
        again = self.reservations.claim('a', self.asked, beside=True)
        self.assertEqual(rec, again)
        self.reservations.hold('a', rec)
        self.assertEqual([events.Claimed('a', rec)], self.events)

    def test_server_that_comes_after_an_attempt(self):
        """The CPU of an attempt to move it here is free for it, once."""
        self.reservations.claim('a', self.asked, beside=True)
        for number in range(len(self.before.cpus) - 1):
            self.reservations.claim(f'b{number}', self.asked)
        rec = self.reservations.claim('a', self.asked)
        self.assertEqual((rec,), self.reservations.held.claims()['a'])
        self.assertEqual(
            min(self.before.cpus.values()) - 600_000,
            min(self.reservations.free().cpus.values()),
        )

    def test_audit_of_moves(self):
        """Nothing is told of what only went to the other slot."""
        rec = self.reservations.claim('a', self.asked)
        self.events.clear()
        self.reservations.count({'a': Slots(None, rec)})
        self.reservations.count({'a': Slots(rec, RECORD)})
        self.assertEqual([], self.events)
        self.reservations.count({'a': Slots(RECORD)})
        self.assertEqual([events.Dropped('a', rec)], self.events)
        self.reservations.count({})
        self.assertEqual(events.Released('a', RECORD), self.events[-1])

    def test_audit(self):
        """The servers' records replace what is in memory."""
        for uuid in 'abc':
            self.reservations.claim(uuid, self.asked)
        self.events.clear()
        self.server('a', RECORD.claimed_on((3,)))
        self.server('b', 'v=9')
        self.assertEqual(
            {'a': (RECORD.claimed_on((3,)),)},
            self.reservations.held.claims(),
        )
        self.assertIn(
            'Ignoring unreadable reservation record', self.log.output
        )
        for _ in range(2):
            refusal = self.assertRaises(
                exception.InvalidRecord, self.reservations.held.get_record, 'b'
            )
            self.assertIn('v=9', str(refusal))
        self.assertEqual(
            {('Released', 'b'), ('Released', 'c')},
            {(type(event).__name__, event.uuid) for event in self.events},
        )

    def test_a_record_that_cannot_be_read_is_said_once(self):
        """Not with each audit, but anew after it was another, or well."""
        well = RECORD.claimed_on((3,))
        said = []
        for text in ('v=9', 'v=9', 'v=8', 'v=8', well, 'v=8', 'v=9'):
            self.server('said-once', text)
            said.append(
                self.log.output.count('Ignoring unreadable reservation record')
            )
        self.assertEqual([1, 1, 2, 2, 2, 3, 4], said)
        # A claim replaces it.
        rec = self.reservations.claim('said-once', self.asked)
        self.assertEqual(rec, self.reservations.held.get_record('said-once'))

    def change(self, rec, runtime_us):
        wanted = rec.with_runtime(runtime_us)
        return self.reservations.begin_change('a', rec, wanted)

    def fill(self):
        """Claim 300,000 ppm on each CPU."""
        request = Request(Reservation(300_000, 1_000_000), 1)
        for cpu in range(4):
            rec = record.Record(request, (cpu,))
            self.reservations.hold(f'other{cpu}', rec)

    def test_change(self):
        """The larger one counts on each CPU, until it has ended."""
        for runtime_us in 700_000, 500_000, 600_000:
            rec = self.reservations.claim('a', self.asked)
            self.events.clear()
            new = self.change(rec, runtime_us)
            self.assertEqual(rec.cpus, new.cpus)
            slots = self.reservations.held.get('a')
            self.assertEqual({rec, new}, {slots.current, slots.changing})
            self.assertEqual(min(rec.ppm, new.ppm), slots.current.ppm)
            (claim,) = self.reservations.held.list_claims()
            self.assertEqual(max(rec.ppm, new.ppm), claim.ppm)
            self.assertEqual(
                {'a': slots.current}, self.reservations.held.list_records()
            )
            self.assertEqual([], self.events)
            self.reservations.release('a')

    def test_change_beside_others(self):
        self.reservations.hold('a', RECORD)
        self.fill()
        before = self.reservations.held.list_all()
        err = self.refusal_of(self.change, RECORD, 700_000)
        self.assertNotIsInstance(err, exception.TooLarge)
        self.assertEqual(700_000, err.asked_ppm)
        err = self.refusal_of(self.change, RECORD, 1_000_000)
        self.assertIsInstance(err, exception.TooLarge)
        self.assertEqual(before, self.reservations.held.list_all())
        # There is room on another CPU.
        self.reservations.release('other1')
        new = self.change(RECORD, 700_000)
        self.assertEqual((1,), new.cpus)
        held = self.reservations.held.claims()['a']
        self.assertEqual({RECORD, new}, set(held))

    def test_change_and_move(self):
        """Nova claims for a move to the same host without the server's lock.

        The claim stays, whichever of both comes first.
        """
        self.server('a', RECORD)
        self.change(RECORD, 500_000)
        beside = self.reservations.claim('a', self.asked, beside=True)
        slots = Slots(RECORD, beside)
        self.reservations.hold_record(self.servers['a'])
        self.assertEqual(slots, self.reservations.held.get('a'))
        self.reservations.note_record('a', RECORD)
        self.assertEqual(slots, self.reservations.held.get('a'))
        err = self.assertRaises(
            exception.ClaimsUnknown, self.change, RECORD, 600_000
        )
        self.assertIn('a move of the server has begun', str(err))
        self.assertEqual(slots, self.reservations.held.get('a'))

    def test_refuse(self):
        for why in 'never', exception.InvalidReservation('0/0'):
            text = self.reservations.refuse('a', events.Action.MOVE, why)
            self.assertEqual(str(why), text)
            self.assertEqual(
                events.Refused('a', events.Action.MOVE, text), self.events[-1]
            )


class BoostedTest(base.TestBase):
    """A claim on a host with boosted servers."""

    def test_refused_claim_waits_once(self):
        """Whether boosts give way or not, the kernel has the same time."""
        self.reservations.adopt([], audited=True)
        self.reservations.boosting = mock.Mock()
        self.reservations.boosting.list_boosted.return_value = {'boosted'}
        self.kernel.add_container(7, 'web', (1,))
        self.host.apply(7, dataclasses.replace(RECORD, cpus=(1,)))
        self.kernel.return_late(1e9)
        self.kernel.remove_container(7)
        request = Request(Reservation(500_000, 1_000_000), 4)
        with mock.patch.object(cgroup.time, 'sleep') as sleep:
            self.assertRaises(
                exception.InsufficientBandwidth,
                self.reservations.claim, 'a', record.Record(request),
            )  # fmt: skip
        waited_s = sum(call.args[0] for call in sleep.call_args_list)
        self.assertLess(1.9, waited_s)
        self.assertLess(waited_s, 2.1)


class OverheadTest(base.TestBase):
    """A host where each reservation costs time in each period."""

    INTERFACE = 'v2-sched-ext'

    def test_change_to_a_shorter_period(self):
        """The same bandwidth takes more of a CPU then."""
        self.reservations.adopt([], audited=True)
        rec = record.Record(Request(Reservation(9_000, 10_000), 1), (0,))
        self.reservations.hold('a', rec)
        wanted = rec.with_reservation(Reservation(900, 1_000))
        new = self.reservations.begin_change('a', rec, wanted)
        self.assertEqual(wanted.cpus, new.cpus)
        self.reservations.hold('a', rec)
        for cpu in range(4):
            other = record.Record(Request(Reservation(480, 10_000), 1), (cpu,))
            self.reservations.hold(f'other{cpu}', other)
        self.assertRaises(
            exception.InsufficientBandwidth,
            self.reservations.begin_change, 'a', rec, wanted,
        )  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.tracking.servers: where records are kept."""

from nova import objects
from nova.compute import task_states, vm_states
from oslo_utils import uuidutils
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import record, wish
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking import claims, servers

objects.register_all()

OLD = record.Record(Request(Reservation(400, 1000), 1), (1,))
NEW = record.Record(Request(Reservation(700, 1000), 2), (2, 3))


def server(rec):
    """A server on host ``here``; a plain one for None."""
    metadata = {} if rec is None else {record.KEY: rec.encode()}
    specs = {} if rec is None else {'rt:reservation': 'of the flavor'}
    return objects.Instance(
        system_metadata=metadata,
        flavor=objects.Flavor(extra_specs=specs),
        host='here',
    )


class MoveTest(base.BaseTestCase):
    """Each host finds its slot in each phase, whatever the flavors."""

    KINDS = ((OLD, NEW), (OLD, None), (None, NEW), (OLD, OLD))

    def assert_slots(self, instance, old, new):
        self.assertEqual(old, servers.read_source(instance))
        self.assertEqual(new, servers.read_destination(instance))

    def current(self, instance):
        text = instance.system_metadata.get(record.KEY)
        return text and record.Record.decode(text)

    def test_confirmed(self):
        for old, new in self.KINDS:
            instance = server(old)
            servers.note_move(instance, new)
            self.assertFalse(servers.has_switched(instance))
            self.assertEqual(old, self.current(instance))
            self.assertEqual(new, servers.read_beside(instance))
            self.assert_slots(instance, old, new)
            self.assertTrue(servers.switch(instance))
            self.assertTrue(servers.has_switched(instance))
            self.assertEqual(new, self.current(instance))
            self.assertEqual(old, servers.read_beside(instance))
            self.assert_slots(instance, old, new)
            self.assertTrue(servers.forget_move(instance))
            self.assertEqual(new, self.current(instance))
            self.assertIsNone(servers.read_beside(instance))
            self.assertEqual(
                {record.KEY} if new else set(), set(instance.system_metadata)
            )

    def test_reverted(self):
        for old, new in self.KINDS:
            instance = server(old)
            before = dict(instance.system_metadata)
            servers.note_move(instance, new)
            servers.switch(instance)
            self.assertTrue(servers.switch_back(instance))
            self.assertEqual(before, instance.system_metadata)
            self.assertFalse(servers.switch_back(instance))

    def test_left(self):
        """On its new host it holds what that has claimed, and not yet runs."""
        for old, new in self.KINDS:
            instance = server(old)
            servers.note_move(instance, new)
            self.assertFalse(servers.has_left(instance))
            self.assertEqual(old, servers.read_claimed(instance))
            instance.host = 'there'
            self.assertTrue(servers.has_left(instance))
            self.assertEqual(new, servers.read_claimed(instance))
            refusal = self.assertRaises(
                exception.InvalidRecord, servers.read_for, instance, 'there'
            )
            self.assertIn('was not finished', str(refusal))
            servers.switch(instance)
            self.assertFalse(servers.has_left(instance))

    def test_left_noted_by_an_older_version(self):
        instance = server(OLD)
        servers.note_move(instance, NEW)
        del instance.system_metadata[servers.FROM]
        instance.host = 'there'
        self.assertFalse(servers.has_left(instance))

    def test_evacuated(self):
        instance = server(OLD)
        servers.note_move(instance, NEW)
        self.assertEqual(OLD, servers.read_for(instance, 'here'))
        self.assertEqual(NEW, servers.read_for(instance, 'there'))
        servers.arrive(instance)
        instance.host = 'there'
        self.assertEqual(NEW, servers.read_for(instance, 'there'))
        self.assertEqual({record.KEY}, set(instance.system_metadata))

    def test_on_a_host_where_it_holds_nothing(self):
        instance = server(OLD)
        self.assertRaises(
            exception.InvalidRecord, servers.read_for, instance, 'there'
        )
        servers.note_move(instance, record.Record(NEW.request))
        refusal = self.assertRaises(
            exception.InvalidRecord, servers.read_for, instance, 'there'
        )
        self.assertIn('no CPUs were claimed', str(refusal))
        for read in servers.read_destination, servers.read_beside:
            self.assertRaises(exception.InvalidRecord, read, instance)

    def test_what_a_failed_move_left_behind(self):
        """The next one replaces it."""
        instance = server(OLD)
        servers.note_move(instance, NEW)
        servers.switch(instance)
        servers.note_move(instance, OLD)
        self.assertNotIn(servers.OLD, instance.system_metadata)
        self.assert_slots(instance, NEW, OLD)

    def test_what_a_stock_compute_left_behind(self):
        """The record of a flavor that the server no longer has."""
        instance = server(OLD)
        instance.flavor.extra_specs = {}
        servers.note_move(instance, NEW)
        self.assertIsNone(servers.read_source(instance))
        servers.switch(instance)
        self.assertIsNone(servers.read_source(instance))
        self.assertEqual(NEW, self.current(instance))

    def test_plain_server(self):
        instance = server(None)
        self.assertFalse(servers.switch(instance))
        self.assertFalse(servers.arrive(instance))
        self.assertFalse(servers.forget_move(instance))
        self.assertIsNone(servers.read_for(instance, 'there'))
        self.assertEqual({}, instance.system_metadata)

    def test_what_was_never_loaded(self):
        """Of a server that is gone, it cannot be loaded any more."""
        instance = objects.Instance(uuid=uuidutils.generate_uuid())
        self.assertFalse(servers.forget_move(instance))


class ChangeTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.server = server(OLD)
        self.server.uuid = uuidutils.generate_uuid()
        self.server.flavor.id = 7
        self.target = record.Record(Request(Reservation(600, 1000), 1), (1,))

    def test_a_wish(self):
        """It ends with the change, and with a move."""
        wanted = self.target.request.reservation
        for end in (
            lambda: servers.set_wish(self.server, None, 3),
            lambda: servers.end_change(self.server, self.target),
            lambda: servers.switch(self.server),
        ):
            servers.note_move(self.server, self.target)
            self.assertTrue(servers.set_wish(self.server, wanted, 3))
            self.assertFalse(servers.set_wish(self.server, wanted, 3))
            self.assertEqual(
                str(wanted), self.server.system_metadata[wish.KEY]
            )
            self.assertEqual(3, servers.read_generation(self.server))
            self.assertTrue(servers.is_changed(self.server))
            end()
            self.assertNotIn(wish.KEY, self.server.system_metadata)
            self.assertFalse(servers.set_wish(self.server, None, 3))

    def test_a_change(self):
        self.assertEqual(0, servers.read_generation(self.server))
        self.assertFalse(servers.is_changed(self.server))
        servers.begin_change(self.server, self.target, 3)
        self.assertTrue(servers.is_changing(self.server))
        self.assertEqual(self.target, servers.read_change(self.server))
        self.assertEqual(OLD, servers.read_claimed(self.server))
        servers.end_change(self.server, self.target)
        self.assertEqual(self.target, servers.read_claimed(self.server))
        self.assertFalse(servers.is_changing(self.server))
        self.assertEqual(3, servers.read_generation(self.server))
        self.assertTrue(servers.is_changed(self.server))
        # Another flavor.
        self.server.flavor.id = 8
        self.assertFalse(servers.is_changed(self.server))

    def test_a_resize(self):
        """It ends the change, also for a later resize to the same flavor."""
        servers.begin_change(self.server, self.target, 3)
        servers.end_change(self.server, self.target)
        kept = dict(self.server.system_metadata)
        for resized in False, True:
            servers.note_move(self.server, OLD)
            servers.switch(self.server, resized)
            self.assertEqual(3, servers.read_generation(self.server))
            self.assertIs(resized, not servers.is_changed(self.server))
            self.assertEqual(3 * resized, servers.read_ended(self.server))
            servers.switch_back(self.server)
            self.assertEqual(kept, self.server.system_metadata)
        servers.note_move(self.server, OLD)
        servers.switch(self.server, resized=True)
        servers.forget_move(self.server)
        self.assertEqual(
            {record.KEY: OLD.encode(), servers.CHANGED: '3 0'},
            self.server.system_metadata,
        )
        servers.begin_change(self.server, self.target, 4)
        self.assertEqual(0, servers.read_ended(self.server))

    def test_slots(self):
        """The lesser one is in force, whichever way it goes."""
        lesser = record.Record(Request(Reservation(300, 1000), 1), (1,))
        for target, slots in (
            (self.target, claims.Slots(OLD, changing=self.target)),
            (lesser, claims.Slots(lesser, changing=OLD)),
            (OLD, claims.Slots(OLD, changing=OLD)),
        ):
            servers.begin_change(self.server, target, 1)
            self.assertEqual(slots, claims.read_slots(self.server))
        self.server.system_metadata[servers.CHANGE] = 'nonsense'
        self.assertEqual(
            claims.Slots(OLD, changing=OLD), claims.read_slots(self.server)
        )

    def test_lesser(self):
        for one, other, expected in (
            (OLD, self.target, True),
            (self.target, OLD, False),
            (OLD, OLD, True),
            (OLD, self.target.claimed_on((2,)), False),
        ):
            self.assertIs(expected, servers.is_lesser(one, other))

    def test_evacuated(self):
        servers.begin_change(self.server, self.target, 1)
        servers.note_move(self.server, OLD.claimed_on((3,)))
        servers.arrive(self.server)
        self.assertEqual(
            OLD.claimed_on((3,)), servers.read_claimed(self.server)
        )
        self.assertFalse(servers.is_changing(self.server))

    def test_broken_number(self):
        for text in '', '1', 'x 7', '1 7 2':
            self.server.system_metadata[servers.CHANGED] = text
            self.assertEqual(0, servers.read_generation(self.server))
            self.assertFalse(servers.is_changed(self.server))

    def test_when(self):
        for vm_state, task_state, changeable in (
            (vm_states.ACTIVE, None, True),
            (vm_states.STOPPED, None, True),
            (vm_states.PAUSED, None, False),
            (vm_states.RESIZED, None, False),
            (vm_states.ERROR, None, False),
            (vm_states.ACTIVE, task_states.REBOOTING, False),
        ):
            self.server.vm_state = vm_state
            self.server.task_state = task_state
            found = servers.find_unchangeable(self.server)
            self.assertIs(changeable, found is None)

    def test_not_after_an_unfinished_move(self):
        """An operator has reset the state; its start ends the move."""
        self.server.vm_state = vm_states.ACTIVE
        self.server.task_state = None
        for target in NEW, None:
            servers.note_move(self.server, target)
            self.assertIsNone(servers.find_unchangeable(self.server))
            self.server.host = 'there'
            self.assertIn(
                'not finished', servers.find_unchangeable(self.server)
            )
            self.server.host = 'here'

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.formats.history."""

import random

from oslotest import base

from nova_rt import events, exception
from nova_rt.compute import notifications
from nova_rt.formats import history
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures.history import (
    MINUTE,
    NOW,
    UUID,
    event,
    make_uuid,
    payload,
)

TYPE = 'nova_rt.reservation.claimed'
ID = make_uuid(7)
RECORD = Record.decode('v=1;q=1400;p=2000;n=2;e=limit;s=rr;r=1;c=3-4')


def read(**changes):
    return history.read(ID, TYPE, payload(**changes))


class ReadTest(base.BaseTestCase):
    def test_as_a_compute_service_writes_it(self):
        made = notifications.RTReservationPayload(
            'one', events.Claimed(UUID, RECORD), 1_800_000_000_000_001
        ).obj_to_primitive()
        found = history.read(ID, TYPE, made)
        self.assertEqual(
            (ID, 'one', UUID, 'claimed', '1400/2000', (3, 4), 1),
            (found.id, found.host, found.server, found.kind,
             found.reservation, found.cpus, found.at.microsecond),
        )  # fmt: skip

    def test_without_a_reservation(self):
        found = read(runtime_us=None, period_us=None, cpus=None)
        self.assertEqual((None, ''), (found.cpus, found.reservation))

    def test_a_refusal_names_its_action(self):
        found = read(action='rescue', details='no disk\x1b\U0001f4a9')
        self.assertEqual('rescue: no disk  ', found.details)

    def test_origin(self):
        """It keeps no event from its history."""
        found = read(request_id='r' * 99, user_id=3, project_id='p')
        self.assertEqual(history.Origin('r' * 64, '', 'p'), found.origin)

    def test_fields_of_later_versions(self):
        made = payload(more=[1])
        made['nova_object.version'] = '1.9'
        self.assertEqual('one', history.read(ID, TYPE, made).host)

    def test_anything_else_is_refused(self):
        for name, bad in (
            ('uuid', 'x'), ('uuid', None), ('host', 'a b'),
            ('host', 'h' * 256),
            ('at_us', -1), ('at_us', 10**17), ('at_us', True),
            ('runtime_us', '1'), ('period_us', None), ('cpus', 3),
            ('cpus', [-1]), ('cpus', ['1']), ('cpus', [1] * 9000),
            ('cpus', [100_000]),
            ('details', 7), ('action', {}),
        ):  # fmt: skip
            self.assertRaises(exception.InvalidReport, read, **{name: bad})
        newer = payload()
        newer['nova_object.version'] = '2.0'
        for made in (None, [], 'x', {}, newer, {**payload(),
                     'nova_object.data': 3}):  # fmt: skip
            self.assertRaises(
                exception.InvalidReport, history.read, ID, TYPE, made
            )
        for bad in None, 3, 'x', 'é' * 36:
            self.assertRaises(
                exception.InvalidReport, history.read, bad, TYPE, payload()
            )
            self.assertRaises(
                exception.InvalidReport, history.read, ID, bad, payload()
            )


SMALL = (100, 1000, (1,))
LARGE = (500, 1000, (2,))


def spans(*made):
    """Tell each interval in short: host, runtime, begin and end."""
    return [
        (
            each.host, each.reservation.split('/')[0],
            (each.since - NOW) // MINUTE,
            each.until and (each.until - NOW) // MINUTE,
        )
        for each in history.find_intervals(list(made))
    ]  # fmt: skip


class IntervalsTest(base.BaseTestCase):
    def test_a_life(self):
        life = [
            event(1, 'claimed', SMALL), event(2, 'applied', SMALL),
            event(3, 'drifted', SMALL), event(4, 'repaired', SMALL),
            event(5, 'refused'),
        ]  # fmt: skip
        self.assertEqual([('one', '100', 1, None)], spans(*life))
        self.assertEqual(
            [('one', '100', 1, 6)], spans(*life, event(6, 'released', SMALL))
        )

    def test_resize_on_its_host(self):
        resize = [
            event(1, 'claimed', SMALL), event(2, 'added', LARGE),
            event(3, 'applied', LARGE),
        ]  # fmt: skip
        self.assertEqual(
            [('one', '100', 1, 4), ('one', '500', 2, None)],
            spans(*resize, event(4, 'dropped', SMALL)),
        )
        self.assertEqual(
            [('one', '100', 1, None), ('one', '500', 2, 4)],
            spans(*resize, event(4, 'dropped', LARGE)),
        )
        self.assertEqual(
            [('one', '100', 1, 5), ('one', '500', 2, 5)],
            spans(*resize, event(5, 'released', LARGE)),
        )

    def test_move(self):
        self.assertEqual(
            [('one', '100', 1, 4), ('two', '500', 2, None)],
            spans(
                event(1, 'claimed', SMALL),
                event(2, 'claimed', LARGE, host='two'),
                event(3, 'applied', LARGE, host='two'),
                event(4, 'released', SMALL),
            ),
        )

    def test_begin_that_is_missing(self):
        """It was purged, or could not be sent."""
        self.assertEqual(
            [('one', '100', 2, 3)],
            spans(event(2, 'applied', SMALL), event(3, 'released', SMALL)),
        )
        self.assertEqual([], spans(event(3, 'released', SMALL)))

    def test_claimed_again_without_a_release(self):
        self.assertEqual(
            [('one', '100', 1, 2), ('one', '500', 2, None)],
            spans(event(1, 'claimed', SMALL), event(2, 'claimed', LARGE)),
        )

    def test_changed_while_it_runs(self):
        self.assertEqual(
            [('one', '100', 1, 2), ('one', '500', 2, 3)],
            spans(event(1, 'claimed', SMALL), event(2, 'changed', LARGE),
                  event(3, 'released', LARGE)),
        )  # fmt: skip

    def test_no_order_breaks_it(self):
        """Whatever is missing or odd, an interval does not end early."""
        rand = random.Random(55)
        kinds = [each.__name__.lower() for each in events.TYPES]
        for _ in range(300):
            made = [
                event(number, rand.choice(kinds), rand.choice([SMALL, LARGE]),
                      host=rand.choice(['one', 'two']))
                for number in range(rand.randrange(12))
            ]  # fmt: skip
            for each in history.find_intervals(made):
                self.assertIn(each.since, [e.at for e in made])
                if each.until is not None:
                    self.assertLess(each.since, each.until)


class BoostTest(base.BaseTestCase):
    """A server that is boosted for ten minutes after its start."""

    def find(self, *made, now=5):
        return history.find_boost(made, 'one', 10 * MINUTE, NOW + now * MINUTE)

    def test_boosted(self):
        began = event(1, 'applied', SMALL), event(2, 'boosted', LARGE)
        expected = history.Boost(Reservation(*LARGE[:2]), NOW + 11 * MINUTE)
        self.assertEqual(expected, self.find(*began))
        for kind in ('claimed', 'refused', 'drifted', 'repaired', 'added'):
            self.assertEqual(expected, self.find(*began, event(3, kind)))
        for kind in ('unboosted', 'changed', 'stopped', 'released', 'applied'):
            self.assertIsNone(self.find(*began, event(3, kind)))
        elsewhere = event(3, 'applied', host='two')
        self.assertEqual(expected, self.find(*began, elsewhere))

    def test_over_in_time(self):
        """No event says that its host has died."""
        began = event(1, 'applied', SMALL), event(2, 'boosted', LARGE)
        self.assertIsNotNone(self.find(*began, now=10))
        self.assertIsNone(self.find(*began, now=11))

    def test_unknown_start(self):
        self.assertEqual(
            NOW + 12 * MINUTE, self.find(event(2, 'boosted', LARGE)).until
        )

    def test_none(self):
        self.assertIsNone(self.find())
        self.assertIsNone(self.find(event(1, 'applied')))
        self.assertIsNone(self.find(event(1, 'boosted', host='two')))
        for nonsense in (None, None, None), (9, 5, (1,)), (0, 500, (1,)):
            self.assertIsNone(self.find(event(1, 'boosted', nonsense)))

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.request."""

import dataclasses

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation.extra_specs import Enforcement, TaskPolicy
from nova_rt.reservation.request import HintRule, Request, choose_hints
from nova_rt.reservation.reservation import Reservation

FLAVOR = {'rt:reservation': '1400/2000'}


def asks_for(value):
    """Hints as Nova keeps them, with those of others."""
    return {'same_host': ['x'], 'rt_reservation': value}


class FlavorTest(base.BaseTestCase):
    def test_plain(self):
        for specs in {}, {'hw:cpu_policy': 'shared', 'rtx:reservation': 'abc'}:
            self.assertIsNone(Request.from_flavor(specs, 2))

    def test_defaults(self):
        request = Request.from_flavor(FLAVOR, 2)
        self.assertEqual(
            Request(
                Reservation(1400, 2000),
                2,
                enforcement=Enforcement.GUARANTEE,
                policy=TaskPolicy.RR,
                priority=1,
            ),
            request,
        )
        self.assertEqual(1_400_000, request.total_ppm)

    def test_all_keys(self):
        request = Request.from_flavor(
            {
                'rt:reservation': '500/1000',
                'rt:enforcement': 'limit',
                'rt:policy': 'fifo',
                'rt:priority': '99',
            },
            1,
        )
        self.assertEqual(
            Request(
                Reservation(500, 1000),
                1,
                enforcement=Enforcement.LIMIT,
                policy=TaskPolicy.FIFO,
                priority=99,
            ),
            request,
        )

    def test_bad(self):
        for specs, text in (
            ({'rt:reservation': 'abc'}, 'abc'),
            ({'rt:priority': '5'}, 'needs rt:reservation'),
            (FLAVOR | {'rt:runtime_us': '1400'}, 'rt:runtime_us'),
            (FLAVOR | {'rt:Reservation': '1400/2000'}, 'rt:Reservation'),
            (FLAVOR | {'rt:': '1'}, 'rt:'),
            (FLAVOR | {'rt:policy': 'RR'}, 'rt:policy'),
            (FLAVOR | {'rt:policy': ''}, 'rt:policy'),
            (FLAVOR | {'rt:enforcement': 'guarantee '}, 'rt:enforcement'),
            (FLAVOR | {'rt:priority': '0'}, 'rt:priority'),
            (FLAVOR | {'rt:priority': '100'}, 'rt:priority'),
        ):
            err = self.assertRaises(
                exception.InvalidRequest, Request.from_flavor, specs, 1
            )
            self.assertIn(text, str(err))


@ddt.ddt
class ChangeTest(base.BaseTestCase):
    """The bounds on changes by the owner of a server."""

    def read(self, hints=None, **bounds):
        specs = {f'rt:runtime_{name}': text for name, text in bounds.items()}
        return Request.from_flavor(FLAVOR | specs, 2, hints)

    @ddt.data(
        ({'min': '200'}, 200, 1400),
        ({'max': '1800'}, 1400, 1800),
        ({'min': '200', 'max': '2000'}, 200, 2000),
    )
    @ddt.unpack
    def test_bounds(self, given, low, high):
        request = self.read(**given)
        self.assertEqual(
            (low, high), (request.runtime_min, request.runtime_max)
        )
        for runtime_us in (low, high):
            request.check_change(Reservation(runtime_us, 2000))
        refused = {max(2, low - 1), min(2000, high + 1)} - {low, high}
        for runtime_us in refused:
            self.assert_refused(
                request, Reservation(runtime_us, 2000), runtime_us, low, high
            )
        # Within the bounds, in another period.
        self.assert_refused(request, Reservation(1400, 1900), 1900, 2000)

    def assert_refused(self, request, wish, *texts):
        err = self.assertRaises(
            exception.ChangeRefused, request.check_change, wish
        )
        for text in texts:
            self.assertIn(str(text), str(err))

    def test_none(self):
        request = self.read()
        self.assertIsNone(request.runtime_min)
        self.assert_refused(request, request.reservation, 'rt:runtime_max')

    def test_hint(self):
        """The bounds are those of the flavor."""
        request = self.read({'rt_reservation': '100/2000'}, max='1500')
        self.assertEqual(
            (100, 1400, 1500),
            (
                request.reservation.runtime_us,
                request.runtime_min,
                request.runtime_max,
            ),
        )

    def test_adapts(self):
        """Within the bounds; any other runtime stays."""
        self.assertFalse(self.read(min='200').adapts)
        specs = FLAVOR | {'rt:adapt': 'throttled', 'rt:runtime_max': '1800'}
        request = Request.from_flavor(specs, 2)
        for runtime_us, clamped, follows in (
            (1300, 1400, False), (1400, 1400, True), (1800, 1800, True),
            (1900, 1800, False),
        ):  # fmt: skip
            changed = dataclasses.replace(
                request, reservation=Reservation(runtime_us, 2000)
            )
            self.assertEqual(clamped, request.clamp(runtime_us))
            self.assertEqual(
                (follows, follows), (changed.follows_load, changed.adapts)
            )
        short = dataclasses.replace(
            request, reservation=Reservation(1400, 1500)
        )
        self.assertEqual(1500, short.clamp(1800))

    def boost(self, startup_us, reservation=None, **others):
        specs = FLAVOR | {
            'rt:startup_runtime': str(startup_us), 'rt:startup_s': '60',
            **{f'rt:{key}': text for key, text in others.items()},
        }  # fmt: skip
        request = Request.from_flavor(specs, 2)
        return dataclasses.replace(
            request, reservation=reservation or request.reservation
        )

    @ddt.data(
        (1400, None, None, 1400),
        (2000, None, 2000, 2000),
        (1800, Reservation(1700, 2000), 1800, 1800),
        (1800, Reservation(1900, 2000), None, 1900),
        # A change by an operator, to another period.
        (1800, Reservation(500, 1000), 1000, 1000),
    )
    @ddt.unpack
    def test_startup(self, startup_us, reservation, boosted_us, most_us):
        request = self.boost(startup_us, reservation)
        self.assertEqual(boosted_us, request.boosted_us)
        self.assertEqual(boosted_us is not None, request.adapts)
        self.assertFalse(request.follows_load)
        self.assertEqual(
            (request.reservation.runtime_us, most_us),
            (request.clamp(2), request.clamp(4000)),
        )

    def test_startup_of_a_server_that_follows_its_load(self):
        request = self.boost(1800, adapt='quantile', runtime_max='1800')
        self.assertEqual((1800, True), (
            request.boosted_us, request.follows_load))  # fmt: skip
        # A runtime below its bounds stays but for the boost.
        low = dataclasses.replace(request, reservation=Reservation(900, 2000))
        self.assertEqual(
            (900, 1000, 1800), tuple(map(low.clamp, (800, 1000, 1900)))
        )

    def test_wrong(self):
        def startup(runtime_us, seconds):
            return {
                'rt:startup_runtime': str(runtime_us),
                'rt:startup_s': str(seconds),
            }

        for given, text in (
            ({'rt:adapt': 'quantile'}, 'rt:runtime_min'),
            ({'rt:runtime_min': '1401'}, '1400/2000'),
            ({'rt:runtime_max': '1399'}, '1400/2000'),
            ({'rt:runtime_max': '2001'}, '1400/2000'),
            ({'rt:runtime_min': '9', 'rt:runtime_max': '1399'}, '1400/2000'),
            ({'rt:startup_runtime': '1800'}, 'rt:startup_s'),
            ({'rt:startup_s': '60'}, 'rt:startup_runtime'),
            (startup(1399, 60), '1400/2000'),
            (startup(2001, 60), '1400/2000'),
            (startup(1800, 0), '1 to 3600'),
            (startup(1800, 3601), '1 to 3600'),
            (startup('all', 60), 'number'),
            (
                startup(1801, 60)
                | {'rt:adapt': 'quantile', 'rt:runtime_max': '1800'},
                'rt:runtime_max',
            ),
        ):
            err = self.assertRaises(
                exception.InvalidRequest,
                Request.from_flavor,
                FLAVOR | given,
                2,
            )
            self.assertIn(text, str(err))


class HintTest(base.BaseTestCase):
    def read(self, hint, rule=HintRule.LOWER, **specs):
        flavor = FLAVOR | {f'rt:{key}': text for key, text in specs.items()}
        return Request.from_flavor(flavor, 3, asks_for(hint), rule)

    def test_good(self):
        for hint, rule, expected in (
            ('1000/2000', HintRule.LOWER, Reservation(1000, 2000)),
            (['1000/2000'], HintRule.LOWER, Reservation(1000, 2000)),
            # The same bandwidth.
            ('2800/4000', HintRule.LOWER, Reservation(2800, 4000)),
            ('700/1000', HintRule.ANY, Reservation(700, 1000)),
            ('1500/2000', HintRule.ANY, Reservation(1500, 2000)),
            (None, HintRule.DENY, Reservation(1400, 2000)),
        ):
            request = self.read(hint, rule, policy='fifo')
            self.assertEqual(expected, request.reservation)
            # The rest is the flavor's.
            self.assertIs(TaskPolicy.FIFO, request.policy)
            self.assertEqual(3, request.vcpus)

    def test_refused(self):
        for hint, *numbers in (
            ('700/1000', '1000 us', '2000 us'),
            ('1399/1999', '1999 us', '2000 us'),
            ('1500/2000', '1500/2000', '750000', '1400/2000', '700000'),
        ):
            err = self.assertRaises(exception.HintRefused, self.read, hint)
            for number in numbers:
                self.assertIn(number, str(err))
        # Larger, and both round up to 333334 ppm.
        self.assertRaises(
            exception.HintRefused,
            self.read, '1333334/4000000', reservation='1000/3000',
        )  # fmt: skip
        err = self.assertRaises(
            exception.HintRefused, self.read, '1000/2000', HintRule.DENY
        )
        self.assertIn('1400/2000', str(err))

    def test_plain_flavor(self):
        for hints in None, {}, {'group': 'x', 'rt_other': '5'}, asks_for(None):
            self.assertIsNone(Request.from_flavor({}, 1, hints))
        for rule in HintRule:
            self.assertRaises(
                exception.HintRefused,
                Request.from_flavor, {}, 1, asks_for('1000/2000'), rule,
            )  # fmt: skip

    def test_bad(self):
        """Whatever the rule, with the name of the hint."""
        for hint in (
            'abc',
            ['abc'],
            ['1000/2000', '500/2000'],
            [],
            [None],
            [['1000/2000']],
            {'runtime': 1000, 'period': 2000},
            1000,
            True,
        ):
            for rule in HintRule:
                err = self.assertRaises(
                    exception.InvalidReservation, self.read, hint, rule
                )
                self.assertIn('rt_reservation', str(err))


class ChooseHintsTest(base.BaseTestCase):
    """A hint applies to the flavor that it was given with."""

    def test_choose(self):
        hints = asks_for(['1000/2000'])
        noted = {'rt_flavor': ['rt']}
        for given, flavor, chosen in (
            (hints | noted, 'rt', hints | noted),
            (hints | noted, 'other', {'same_host': ['x']} | noted),
            # The flavor was not noted.
            (hints, 'other', hints),
            (hints | {'rt_flavor': []}, 'x', hints | {'rt_flavor': []}),
            (None, 'rt', {}),
            ({}, 'rt', {}),
        ):
            self.assertEqual(chosen, choose_hints(given, flavor))

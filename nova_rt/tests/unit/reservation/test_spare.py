# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.spare."""

import math

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import admission, resources, spare
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import specs

FLAVOR = {'rt:reservation': '40000/100000'}
SPARE = FLAVOR | {'rt:spare': '1000/10000'}


def _parse(**values):
    return specs.parse(
        FLAVOR | {f'rt:{name}': text for name, text in values.items()}, 1
    )


@ddt.ddt
class RequestTest(base.BaseTestCase):
    @ddt.data(
        ({}, 2), ({'priority': '50'}, 51), ({'spare_priority': '1'}, 1),
        ({'priority': '99', 'spare_priority': '99'}, 99),
    )  # fmt: skip
    @ddt.unpack
    def test_priority(self, others, expected):
        """The first above that of the batch work, unless it is given."""
        request = _parse(spare='1000/10000', **others)
        self.assertEqual(Reservation(1000, 10_000), request.spare)
        self.assertEqual(expected, request.spare_priority)
        plain = specs.parse(FLAVOR)
        self.assertEqual((None, None), (plain.spare, plain.spare_priority))

    @ddt.data(
        {'spare_priority': '5'},
        {'spare': '1000/10000', 'priority': '99'},
        {'spare': '1000/10000', 'spare_priority': '0'},
        {'spare': '1000/10000', 'spare_priority': '100'},
        {'spare': '1000'},
        {'spare': '11000/10000'},
        # A period that this cloud does not offer.
        {'spare': '1000/2000000'},
    )
    def test_refused(self, values):
        self.assertRaises(exception.InvalidRequest, _parse, **values)

    def test_demand(self):
        """A trait that is required, and surplus in any other flavor."""
        trait = 'trait:CUSTOM_RT_SPARE'
        self.assertEqual('required', resources.ask(specs.parse(SPARE))[trait])
        plain = specs.parse(FLAVOR)
        self.assertNotIn(trait, resources.ask(plain))
        self.assertIn(trait, resources.surplus(plain))
        self.assertNotIn(
            trait, resources.replace(FLAVOR | {trait: 'required'}, plain)
        )

    def test_record(self):
        """An older version refuses it, instead of running it without."""
        rec = Record(specs.parse(SPARE, 1), (3,))
        text = rec.encode()
        self.assertIn('v=3;', text)
        self.assertIn(';b=1000/10000;k=2;', text)
        self.assertEqual(rec, Record.decode(text))
        plain = Record(specs.parse(FLAVOR, 1), (3,)).encode()
        self.assertIn('v=1;', plain)
        self.assertIsNone(Record.decode(plain).request.spare)


@ddt.ddt
class PoolTest(base.BaseTestCase):
    @ddt.data(
        ('4000/10000', '4000/10000', True),
        ('4000/10000', '4000/9999', False),
        ('4001/10000', '4000/10000', True),
        ('3999/10000', '4000/10000', False),
        ('2000/5000', '4000/10000', True),
        # More bandwidth, and still late: two periods have 14 ms.
        ('2100/7000', '3000/10000', False),
        ('1000/1000', '3000/10000', True),
    )
    @ddt.unpack
    def test_covers(self, pool, wish, expected):
        pool, wish = map(Reservation.parse, (pool, wish))
        self.assertIs(expected, spare.covers(pool, wish))
        # The bound of a pool at rest, for one.
        served_us = pool.period_us * math.ceil(
            wish.runtime_us / pool.runtime_us
        )
        self.assertIs(expected, served_us <= wish.period_us)

    def test_nothing(self):
        wish = Reservation(1000, 10_000)
        for pool, asked, expected in (
            (None, None, True), (wish, None, True), (None, wish, False)
        ):  # fmt: skip
            self.assertIs(expected, spare.covers(pool, asked))


class AdmissionTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.request = specs.parse(SPARE, 1)

    def _place(self, pool, held=None):
        pool = pool and Reservation.parse(pool)
        return admission.place(
            Capacity({0: 900_000}, spare=pool), self.request, held
        )

    def test_place(self):
        self.assertEqual((0,), self._place('1000/10000'))
        # Those who use none do not care.
        self.request = specs.parse(FLAVOR, 1)
        self.assertEqual((0,), self._place(None))

    def test_refused(self):
        for pool, free in ((None, 'none'), ('500/10000', '50000')):
            err = self.assertRaises(
                exception.InsufficientBandwidth, self._place, pool
            )
            self.assertIn('rt:spare=1000/10000 needs a pool', str(err))
            self.assertIn(f'asked 100000 ppm on each of 1 CPU(s), free {free}',
                          str(err))  # fmt: skip

    def test_change(self):
        """A server that is here may grow, also when its pool is gone."""
        held = Record(self.request, (0,))
        self.assertEqual((0,), self._place(None, held))

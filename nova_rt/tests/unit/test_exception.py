# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.exception."""

import errno

from oslotest import base

from nova_rt import exception


class InsufficientBandwidthTest(base.BaseTestCase):
    def test_carries_the_numbers(self):
        err = exception.InsufficientBandwidth(
            600_000, 2, (500_000, 400_000), 'the rule'
        )
        self.assertEqual(600_000, err.asked_ppm)
        self.assertEqual(2, err.cpus)
        self.assertEqual((500_000, 400_000), err.free_ppm)
        self.assertEqual('the rule', err.rule)
        self.assertEqual(
            'RT bandwidth: asked 600000 ppm on each of 2 CPU(s), '
            'free 500000, 400000 ppm; the rule',
            str(err),
        )

    def test_many_cpus_leave_room_for_the_rule(self):
        # A fault holds 255 characters.
        free = tuple(range(900_064, 900_000, -1))
        err = exception.InsufficientBandwidth(950_000, 64, free, 'the rule')
        self.assertEqual(free, err.free_ppm)
        self.assertLess(len(str(err)), 150)
        self.assertIn('900064', str(err))
        # The last one decides.
        self.assertIn('900001 ppm; the rule', str(err))


class ReservationNotAppliedTest(base.BaseTestCase):
    def test_names_the_errno(self):
        err = exception.ReservationNotApplied(
            'writing 1400', errno.EINVAL, 'the parent has too little'
        )
        self.assertEqual(errno.EINVAL, err.errno)
        self.assertEqual(
            'writing 1400 (EINVAL): the parent has too little', str(err)
        )

    def test_read_back_otherwise(self):
        err = exception.ReservationNotApplied('asked 1400, found 0')
        self.assertEqual(0, err.errno)
        self.assertEqual('asked 1400, found 0', str(err))

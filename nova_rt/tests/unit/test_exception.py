# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.exception."""

import errno

from oslotest import base

from nova_rt import exception

FULL = exception.RefusalDetails.FULL
MODEST = exception.RefusalDetails.MODEST


class TellTest(base.BaseTestCase):
    def test_bandwidth(self):
        err = exception.InsufficientBandwidth(600_000, 2, (1, 0), 'the rule')
        self.assertEqual(str(err), exception.tell(err, FULL))
        self.assertEqual(
            'RT bandwidth: asked 600000 ppm on each of 2 CPU(s), which is '
            'not free',
            exception.tell(err, MODEST),
        )

    def test_what_users_wrote_is_theirs(self):
        for kind in (
            exception.InvalidRequest,
            exception.InvalidReservation,
            exception.HintRefused,
            exception.InvalidQuantity,
        ):
            for details in exception.RefusalDetails:
                self.assertEqual('abc', exception.tell(kind('abc'), details))

    def test_hosts_and_records_are_not(self):
        for err in (
            exception.HostError('/sys/fs/cgroup'),
            exception.NoRTInterface('/sys/fs/cgroup'),
            exception.HostNotPrepared('/sys/fs/cgroup'),
            exception.ReservationNotApplied('/sys', errno.EBUSY, 'advice'),
            exception.InvalidRecord('/sys/fs/cgroup'),
            exception.NovaRTError('/sys/fs/cgroup'),
            OSError(errno.EPERM, '/sys/fs/cgroup'),
        ):
            self.assertIn('/sys', exception.tell(err, FULL))
            text = exception.tell(err, MODEST)
            self.assertNotIn('/', text)
            self.assertNotRegex(text, 'E[A-Z]+|advice')
            self.assertRegex(text, 'cannot|is not available')

    def test_no_host(self):
        err = exception.NoHost('free on 12 hosts', 'asked')
        self.assertEqual('free on 12 hosts', exception.tell(err, FULL))
        self.assertEqual('asked', exception.tell(err, MODEST))

    def test_anything_else_is_modest(self):
        err = exception.HostError('7 hosts')
        self.assertEqual(err.user_message, exception.tell(err, 'ful'))


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

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.interface."""

from oslotest import base

from nova_rt.host import interface
from nova_rt.host.interface import Share
from nova_rt.reservation.reservation import Reservation


class ShareTest(base.BaseTestCase):
    def test_text(self):
        self.assertEqual('20000/50000 us', str(Share(20000, 50000)))
        self.assertEqual('max/50000 us', str(Share(None, 50000)))

    def test_of_a_reservation(self):
        share = Share.from_reservation(Reservation(600, 1000))
        self.assertEqual(Share(600, 1000), share)

    def test_promised_is_rounded_down_and_taken_up(self):
        share = Share(1, 3)
        self.assertEqual((333_333, 333_334), (share.ppm, share.cost_ppm))

    def test_no_bound(self):
        """It has the whole CPU, and takes nothing from the groups beside."""
        share = Share(None, 0)
        self.assertTrue(share.unbounded)
        self.assertEqual((1_000_000, 0), (share.ppm, share.cost_ppm))
        self.assertEqual(0, share.kernel_bw)

    def test_no_period(self):
        share = Share(0, 0)
        self.assertFalse(share.unbounded)
        self.assertEqual((0, 0), (share.ppm, share.cost_ppm))


class ConversionTest(base.BaseTestCase):
    def test_ppm_and_back(self):
        """Rounded so that nothing is promised that is not there."""
        for ppm in (0, 1, 50_000, 599_999, 900_000, 1_000_000):
            bandwidth = interface.to_kernel_bw(ppm)
            self.assertEqual(ppm, interface.to_ppm(bandwidth))
        self.assertEqual(599_999, interface.to_ppm(Share(3, 5).kernel_bw))
        self.assertEqual(600_000, interface.to_cost_ppm(Share(3, 5).kernel_bw))

    def test_runtime(self):
        for word, runtime in (('600', 600), ('max', None), ('-1', None)):
            self.assertEqual(runtime, interface.parse_us(word))
        for word in ('', 'x', '1.5'):
            self.assertRaises(ValueError, interface.parse_us, word)

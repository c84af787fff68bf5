# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.admission."""

import random

from oslotest import base

from nova_rt import admission, exception
from nova_rt.admission import Capacity, Claim


def equal_cpus(count, ppm=950_000, host=None):
    return Capacity(dict.fromkeys(range(count), ppm), host)


class CapacityTest(base.BaseTestCase):
    def test_total(self):
        self.assertEqual(3_800_000, equal_cpus(4).total_ppm)
        self.assertEqual(950_000, equal_cpus(4, host=950_000).total_ppm)
        self.assertEqual(950_000, equal_cpus(1, host=9_000_000).total_ppm)
        self.assertEqual(0, Capacity({}).total_ppm)

    def test_free(self):
        free = equal_cpus(3).free(
            [Claim((0, 1), 300_000), Claim((1,), 50_000)]
        )
        self.assertEqual({0: 650_000, 1: 600_000, 2: 950_000}, free.cpus)
        self.assertIsNone(free.host_ppm)

    def test_free_of_host_scope(self):
        free = equal_cpus(2, host=950_000).free([Claim((0, 1), 300_000)])
        self.assertEqual({0: 650_000, 1: 650_000}, free.cpus)
        self.assertEqual(350_000, free.host_ppm)

    def test_free_is_never_negative(self):
        # The operator has taken capacity away under claims that exist.
        free = equal_cpus(1, ppm=100_000, host=50_000).free(
            [Claim((0,), 300_000)]
        )
        self.assertEqual({0: 0}, free.cpus)
        self.assertEqual(0, free.host_ppm)

    def test_claim_on_a_cpu_that_is_gone(self):
        free = equal_cpus(2, host=950_000).free([Claim((7,), 300_000)])
        self.assertEqual({0: 950_000, 1: 950_000}, free.cpus)
        self.assertEqual(650_000, free.host_ppm)

    def test_capacity_is_left_alone(self):
        capacity = equal_cpus(1)
        capacity.free([Claim((0,), 1)])
        self.assertEqual({0: 950_000}, capacity.cpus)

    def test_emptiest_first(self):
        free = Capacity({4: 100, 3: 900, 0: 500, 9: 900, 1: 500})
        self.assertEqual((3, 9, 0, 1, 4), free.emptiest_first)


class PlaceTest(base.BaseTestCase):
    def test_emptiest_first(self):
        free = Capacity({0: 100, 1: 900, 2: 500, 3: 700})
        self.assertEqual((1,), admission.place(free, 1, 50))
        self.assertEqual((1, 3), admission.place(free, 2, 50))
        self.assertEqual((1, 2, 3), admission.place(free, 3, 50))

    def test_lowest_number_among_equals(self):
        free = Capacity({5: 900, 3: 900, 4: 900})
        self.assertEqual((3,), admission.place(free, 1, 50))

    def test_order_of_servers(self):
        free = equal_cpus(3)
        order = []
        for ppm in (300_000, 300_000, 300_000, 100_000, 400_000, 400_000):
            cpus = admission.place(free, 1, ppm)
            free = free.free([Claim(cpus, ppm)])
            order += cpus
        self.assertEqual([0, 1, 2, 0, 1, 2], order)

    def test_exact_fit(self):
        self.assertEqual((0,), admission.place(equal_cpus(1), 1, 950_000))

    def test_one_ppm_too_much(self):
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place,
            equal_cpus(1),
            1,
            950_001,
        )
        self.assertEqual(950_001, err.asked_ppm)
        self.assertEqual((950_000,), err.free_ppm)
        self.assertIn('950001', str(err))
        self.assertIn('950000', str(err))

    def test_sum_is_enough_but_no_cpu_is(self):
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place,
            equal_cpus(4, ppm=500_000),
            1,
            600_000,
        )
        self.assertEqual((500_000,), err.free_ppm)

    def test_vcpus_need_distinct_cpus(self):
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place,
            equal_cpus(2),
            3,
            10,
        )
        self.assertEqual((950_000, 950_000), err.free_ppm)
        self.assertIn('2 offered', str(err))

    def test_last_vcpu_decides(self):
        free = Capacity({0: 900, 1: 900, 2: 100})
        err = self.assertRaises(
            exception.InsufficientBandwidth, admission.place, free, 3, 200
        )
        self.assertEqual((900, 900, 100), err.free_ppm)

    def test_no_cpu(self):
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place,
            Capacity({}),
            1,
            10,
        )
        self.assertIn('free none', str(err))

    def test_host_sum(self):
        free = equal_cpus(4, host=950_000)
        self.assertEqual((0, 1), admission.place(free, 2, 475_000))
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place,
            free,
            2,
            475_001,
        )
        self.assertEqual((950_000,), err.free_ppm)
        self.assertIn('950002', str(err))

    def test_many(self):
        left = admission.place_many(equal_cpus(2), 1, 400_000, 4)
        self.assertEqual({0: 150_000, 1: 150_000}, left.cpus)
        self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place_many,
            equal_cpus(2),
            1,
            400_000,
            5,
        )

    def test_none_of_many(self):
        free = equal_cpus(2)
        self.assertEqual(free, admission.place_many(free, 1, 1, 0))

    def test_never_over_committed(self):
        rand = random.Random(1)
        for _ in range(200):
            host = rand.choice([None, rand.randrange(1, 4_000_000)])
            capacity = equal_cpus(rand.randrange(1, 6), host=host)
            claims = []
            for _ in range(30):
                vcpus = rand.randrange(1, 4)
                ppm = rand.randrange(1, 700_000)
                try:
                    cpus = admission.place(capacity.free(claims), vcpus, ppm)
                except exception.InsufficientBandwidth:
                    continue
                self.assertEqual(vcpus, len(set(cpus)))
                claims.append(Claim(cpus, ppm))
            for cpu, ceiling in capacity.cpus.items():
                self.assertLessEqual(
                    sum(c.ppm for c in claims if cpu in c.cpus), ceiling
                )
            self.assertLessEqual(
                sum(c.total_ppm for c in claims), capacity.total_ppm
            )

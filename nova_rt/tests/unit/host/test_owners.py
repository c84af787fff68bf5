# SPDX-License-Identifier: Apache-2.0
"""Which hosts show the files of a container with the right owners."""

from oslotest import base

from nova_rt.host import idmaps
from nova_rt.host.owners import Owners


def of(*maps, groups=None):
    return Owners.of(idmaps.IDMaps(maps, groups or maps))


SMALL = of((0, 100000, 65536))


class OwnersTest(base.BaseTestCase):
    def test_text(self):
        self.assertEqual('0-65535;0-65535', SMALL.render())
        gaps = of((0, 1000, 10), (20, 3000, 5), (10, 5000, 1))
        self.assertEqual('0-10,20-24;0-10,20-24', gaps.render())
        for owners in (SMALL, gaps, Owners.of(None)):
            self.assertEqual(owners, Owners.parse(owners.render()))
            # Nova keeps 255 characters.
            self.assertLess(len(owners.render()), 256)

    def test_no_text(self):
        for text in ('', '0-1', '0-1;', '0;0', 'a-b;0-1', '0-1;0-1;0-1'):
            self.assertRaises(ValueError, Owners.parse, text)

    def test_whose_they_are_on_the_host_is_of_no_account(self):
        self.assertEqual(SMALL, of((0, 700000, 65536)))
        self.assertEqual(SMALL, of((0, 1 << 20, 5), (5, 1 << 24, 65531)))

    def test_includes(self):
        large = of((0, 100000, 65537))
        everybody = Owners.of(None)
        self.assertTrue(SMALL.includes(SMALL))
        self.assertTrue(large.includes(SMALL))
        self.assertTrue(everybody.includes(large))
        self.assertFalse(SMALL.includes(large))
        self.assertFalse(large.includes(everybody))

    def test_groups_count(self):
        fewer = of((0, 100000, 65536), groups=((0, 100000, 65535),))
        self.assertFalse(fewer.includes(SMALL))
        self.assertTrue(SMALL.includes(fewer))

    def test_gaps_count(self):
        gap = of((0, 100000, 1000), (2000, 102000, 1000))
        self.assertFalse(gap.includes(of((0, 100000, 1001))))
        self.assertTrue(gap.includes(of((2000, 0, 5))))

    def test_joined(self):
        self.assertEqual(
            '0-65535,70000-70009;0-65535,70000-70009',
            SMALL.joined(of((70000, 1, 10))).render(),
        )

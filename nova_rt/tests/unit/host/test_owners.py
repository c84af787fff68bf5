# SPDX-License-Identifier: Apache-2.0
"""The hosts that show the files of a container with the right owners."""

from oslotest import base

from nova_rt.host.owners import Owners

RANGE = Owners.of(mapped=True)
EVERYBODY = Owners.of(mapped=False)


class OwnersTest(base.BaseTestCase):
    def test_text(self):
        self.assertEqual('0-65535;0-65535', RANGE.render())
        gaps = '0-10,20-24;0-10,20-24'
        self.assertEqual(gaps, Owners.parse(gaps).render())
        for owners in (RANGE, EVERYBODY):
            self.assertEqual(owners, Owners.parse(owners.render()))
            # Nova keeps 255 characters.
            self.assertLess(len(owners.render()), 256)

    def test_no_text(self):
        for text in ('', '0-1', '0-1;', '0;0', 'a-b;0-1', '0-1;0-1;0-1'):
            self.assertRaises(ValueError, Owners.parse, text)

    def test_includes(self):
        larger = Owners.parse('0-65536;0-65536')
        self.assertTrue(RANGE.includes(RANGE))
        self.assertTrue(larger.includes(RANGE))
        self.assertTrue(EVERYBODY.includes(larger))
        self.assertFalse(RANGE.includes(larger))
        self.assertFalse(larger.includes(EVERYBODY))

    def test_groups_count(self):
        fewer = Owners.parse('0-65535;0-65534')
        self.assertFalse(fewer.includes(RANGE))
        self.assertTrue(RANGE.includes(fewer))

    def test_gaps_count(self):
        gap = Owners.parse('0-999,2000-2999;0-999,2000-2999')
        self.assertFalse(gap.includes(Owners.parse('0-1000;0-1000')))
        self.assertTrue(gap.includes(Owners.parse('2000-2004;2000-2004')))

    def test_joined(self):
        other = Owners.parse('60000-65999,70000-70009;5-5')
        self.assertEqual(
            '0-65999,70000-70009;0-65535', RANGE.joined(other).render()
        )

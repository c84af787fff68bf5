# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.hcbs_files: texts are as the kernel prints them."""

from oslotest import base

from nova_rt.host import hcbs_files
from nova_rt.host.interface import Share, Usage


class ParseTest(base.BaseTestCase):
    def test_cpu_reports(self):
        self.assertEqual(
            {0: hcbs_files.CPUReport(900_000, 0),
             3: hcbs_files.CPUReport(900_000, 599_999)},
            hcbs_files.parse_cpu_reports(
                '0 ceiling_ppm=900000 reserved_ppm=0\n'
                '3 ceiling_ppm=900000 reserved_ppm=599999\n'
            ),
        )  # fmt: skip

    def test_effective_shares(self):
        found = hcbs_files.parse_effective(
            '1 runtime_ns=600000 period_ns=1000000\n'
        )
        self.assertEqual(
            {1: hcbs_files.EffectiveShare(600_000, 1_000_000)}, found
        )
        self.assertEqual('600000/1000000 ns', str(found[1]))
        self.assertEqual(Share(600, 1000).kernel_bw, found[1].kernel_bw)
        self.assertEqual({}, hcbs_files.parse_effective(''))

    def test_usage(self):
        self.assertEqual(
            {2: Usage(10, 4, 5500)},
            hcbs_files.parse_usage('2 periods=10 throttled=4 used_usec=5500'),
        )

    def test_more_than_is_known(self):
        self.assertEqual(
            {2: Usage(10, 4, 5500)},
            hcbs_files.parse_usage(
                '2 periods=10 throttled=4 late=7 used_usec=5500'
            ),
        )

    def test_what_is_no_report(self):
        for text in ('', '0', '0 ceiling_ppm=1', 'a ceiling_ppm=1 '
                     'reserved_ppm=1', '0 ceiling_ppm=x reserved_ppm=1',
                     '0 ceiling_ppm 1 reserved_ppm 1'):  # fmt: skip
            self.assertRaises(ValueError, hcbs_files.parse_cpu_reports, text)

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
        """A group may have a pool and no reservation of its own."""
        text = (
            '0 spare_runtime_ns=1000 spare_period_ns=9000\n'
            '1 runtime_ns=600000 period_ns=1000000 spare_runtime_ns=1000 '
            'spare_period_ns=9000\n2 runtime_ns=5 period_ns=8 spare=1\n'
        )
        found = hcbs_files.parse_effective(text)
        self.assertEqual(
            {1: hcbs_files.EffectiveShare(600_000, 1_000_000),
             2: hcbs_files.EffectiveShare(5, 8)},
            found,
        )  # fmt: skip
        self.assertEqual('600000/1000000 ns', str(found[1]))
        self.assertEqual(Share(600, 1000).kernel_bw, found[1].kernel_bw)
        self.assertEqual(
            dict.fromkeys((0, 1), hcbs_files.EffectiveShare(1000, 9000)),
            hcbs_files.parse_pool(text),
        )
        for text in ('0', '0 runtime_ns=5', '0 runtime_ns=x period_ns=5'):
            self.assertRaises(ValueError, hcbs_files.parse_effective, text)

    def test_usage(self):
        """A later kernel may print more than is known."""
        for late in ('', 'late=7 '):
            self.assertEqual(
                {2: Usage(10, 4, 5500)},
                hcbs_files.parse_usage(
                    f'2 periods=10 throttled=4 {late}used_usec=5500'
                ),
            )

    def test_what_is_no_report(self):
        for text in ('', '0', '0 ceiling_ppm=1', 'a ceiling_ppm=1 '
                     'reserved_ppm=1', '0 ceiling_ppm=x reserved_ppm=1',
                     '0 ceiling_ppm 1 reserved_ppm 1'):  # fmt: skip
            self.assertRaises(ValueError, hcbs_files.parse_cpu_reports, text)

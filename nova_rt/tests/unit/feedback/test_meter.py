# SPDX-License-Identifier: Apache-2.0
"""Counters become samples."""

from oslotest import base

from nova_rt.feedback import law, meter
from nova_rt.host.interface import Usage


class MeterTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.meter = meter.Meter()

    def read(self, now_s, limit=0.5, **cpus):
        """Read; cpu0=(throttled, used_us)."""
        counters = {
            int(cpu[3:]): Usage(None, throttled, used_us)
            for cpu, (throttled, used_us) in cpus.items()
        }
        return self.meter.read(counters, now_s, limit, 0.01)

    def test_use(self):
        self.assertIsNone(self.read(10.0, cpu0=(5, 1_000_000)))
        self.assertEqual(
            law.Sample(0.2, False), self.rounded(10.1, cpu0=(5, 1_020_000))
        )

    def rounded(self, now_s, **others):
        found = self.read(now_s, **others)
        return found._replace(used=round(found.used, 6))

    def test_exhausted(self):
        """All that it was given, and a budget was used up."""
        self.read(10.0, cpu0=(5, 0))
        self.assertEqual(
            law.Sample(0.5, True), self.rounded(10.1, cpu0=(6, 50_000))
        )
        self.assertFalse(self.read(10.2, cpu0=(6, 100_000)).exhausted)
        self.assertFalse(self.read(10.3, cpu0=(7, 130_000)).exhausted)

    def test_not_counted(self):
        """A kernel that counts no budgets: the time alone decides."""
        self.read(10.0, cpu0=(None, 0))
        self.assertTrue(self.read(10.1, cpu0=(None, 49_000)).exhausted)
        self.assertFalse(self.read(10.2, cpu0=(None, 80_000)).exhausted)

    def test_the_busiest_cpu(self):
        self.read(10.0, cpu0=(0, 0), cpu1=(0, 0))
        self.assertEqual(
            law.Sample(0.5, True),
            self.rounded(10.1, cpu0=(0, 10_000), cpu1=(1, 50_000)),
        )

    def test_any_period(self):
        """A server that wants more has used all, at each sample."""
        for period_ms in (1, 30, 75, 80, 90, 100, 120, 250, 1000, 4000):
            period_us, samples = 1_000 * period_ms, []
            runtime_us = period_us // 10
            for number in range(100):
                # It runs at the start of each period.
                whole, part_us = divmod(100_000 * number, period_us)
                counters = Usage(
                    None, whole + (part_us >= runtime_us),
                    whole * runtime_us + min(part_us, runtime_us),
                )  # fmt: skip
                samples.append(
                    self.meter.read(
                        {0: counters}, 10 + number / 10, 0.1, period_us / 1e6
                    )
                )
            found = [each for each in samples if each is not None]
            self.assertLessEqual(50, len(found), period_ms)
            self.assertEqual({True}, {each.exhausted for each in found})
            self.meter = meter.Meter()

    def test_gaps(self):
        """No sample over a longer time, of another CPU, or backwards."""
        self.read(10.0, cpu0=(0, 0))
        self.assertIsNone(self.read(11.0, cpu0=(0, 100)))
        self.assertIsNone(self.read(11.1, cpu1=(0, 200)))
        self.assertIsNotNone(self.read(11.2, cpu1=(0, 300)))
        self.assertIsNone(self.read(11.3, cpu1=(0, 100)))
        self.assertIsNone(self.read(11.4))
        self.assertIsNone(self.read(11.4, cpu1=(0, 100)))

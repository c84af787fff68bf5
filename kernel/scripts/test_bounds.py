# SPDX-License-Identifier: Apache-2.0
"""Tests of the guest's bounds, compiled for this machine."""

import ctypes
import pathlib
import subprocess
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1] / 'tests'


class Verdict(ctypes.Structure):
    """struct verdict of guest.h; times in ns."""

    _fields_ = [
        ('periods', ctypes.c_int),
        ('shorts', ctypes.c_int),
        ('overs', ctypes.c_int),
        ('min', ctypes.c_uint64),
        ('max', ctypes.c_uint64),
        ('gap', ctypes.c_uint64),
        ('shortest', ctypes.c_uint64),
        ('acct_ppm', ctypes.c_int64),
    ]


class BoundsTest(unittest.TestCase):
    """Runs that keep a promise, and runs that break it."""

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as directory:
            library = f'{directory}/bounds.so'
            options = ['-shared', '-fPIC', '-Wall', '-Wextra', '-Werror']
            subprocess.run(
                ['gcc', *options, '-o', library, TESTS / 'bounds.c'],
                check=True,
            )
            bounds = ctypes.CDLL(library)
        cls.kept = bounds.kept
        cls.kept.restype = ctypes.c_bool
        cls.tolerance = bounds.tolerance
        cls.task_tolerance = bounds.task_tolerance
        cls.task_tolerance.restype = ctypes.c_uint64
        cls.tolerance.restype = ctypes.c_uint64

    def verdict(self, paid: int = 0, **changes: int) -> bool:
        """Whether (3, 10) ms is kept, with changes to a good run."""
        good = {'periods': 40, 'gap': 7_005_000, 'acct_ppm': -17}
        found = Verdict(**{**good, **changes})
        return self.kept(3000, 10000, paid, ctypes.byref(found))

    def test_kept(self) -> None:
        self.assertTrue(self.verdict())
        self.assertTrue(self.verdict(gap=14_015_000, acct_ppm=999))
        self.assertTrue(self.verdict(acct_ppm=-999))
        self.assertTrue(self.verdict(paid=6_000, acct_ppm=2_999))

    def test_broken(self) -> None:
        self.assertFalse(self.verdict(shorts=1))
        self.assertFalse(self.verdict(overs=1))
        self.assertFalse(self.verdict(gap=14_015_001))
        self.assertFalse(self.verdict(acct_ppm=1000))
        self.assertFalse(self.verdict(acct_ppm=-1000))
        self.assertFalse(self.verdict(periods=0))
        self.assertFalse(self.verdict(paid=6_000, acct_ppm=3_000))

    def test_tolerance(self) -> None:
        self.assertEqual(45_000, self.tolerance(3000, 10000, 0))
        self.assertEqual(45_000, self.tolerance(3000, 10000, 40))
        self.assertEqual(15_000, self.tolerance(1000, 2000, 0))
        self.assertEqual(15_000, self.tolerance(100, 500, 2))

    def test_tolerance_often_interrupted(self) -> None:
        self.assertEqual(75_000, self.tolerance(3000, 10000, 42))
        self.assertEqual(16_500, self.tolerance(100, 500, 3))
        self.assertEqual(30_000, self.tolerance(100, 500, 100))

    def test_tolerance_of_a_deadline_task(self) -> None:
        self.assertEqual(37_500, self.task_tolerance(2500, 50000, 5))
        self.assertEqual(126_000, self.task_tolerance(1000, 20000, 42))


if __name__ == '__main__':
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Tests of the faults that are put into the series by hand."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import check
import faults

PATCH = """\
A server pays for nothing
that its tasks use.

Caught-by: supply1 sets

--- a/kernel/sched/rt.c
+++ b/kernel/sched/rt.c
@@ -1 +1 @@
-Caught-by: the old
+Caught-by: the new
"""


class ReadTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.patch = pathlib.Path(directory.name) / 'no-charge.patch'

    def read(self, text):
        self.patch.write_text(text)
        return faults.read(self.patch)

    def test_read(self):
        fault = self.read(PATCH)
        self.assertEqual('no-charge', fault.name)
        self.assertEqual(
            'A server pays for nothing that its tasks use.', fault.text
        )
        self.assertEqual(['supply1', 'sets'], [r.log for r in fault.runs])
        self.assertEqual('brief', fault.runs[1].when)

    def test_wrong(self):
        for old, new in (
            ('Caught-by: supply1 sets\n', ''),
            ('A server pays for nothing\nthat its tasks use.\n', ''),
            ('supply1', 'supply9'),
            # No guest.
            ('supply1', 'suite'),
        ):
            with (
                self.subTest(old),
                self.assertRaises(faults.Refused),
            ):
                self.read(PATCH.replace(old, new, 1))

    def test_report(self):
        fault = self.read(PATCH)
        text = faults.report(
            [
                faults.Found(fault, 'supply1', 'FAIL: 5 of 3 ms', 1.0),
                faults.Found(fault, '', '', 1.0),
            ]
        )
        self.assertIn('     - supply1\n     - ``FAIL: 5 of 3 ms``\n', text)
        self.assertIn('     - **none**\n', text)


class SeriesTest(unittest.TestCase):
    """The faults that there are."""

    def test_read(self):
        self.assertGreater(len(faults.chosen([])), 30)
        with self.assertRaises(faults.Refused):
            faults.chosen(['no-such-fault'])

    def test_apply(self):
        """A fault that does not apply any more tests nothing."""
        fetch = subprocess.run(
            [check.SCRIPTS / 'fetch.sh'], check=False, capture_output=True
        )
        if fetch.returncode:
            self.skipTest('no source')
        base = pathlib.Path(fetch.stdout.decode().strip())
        series = sorted((check.KERNEL / 'patches').glob('*.patch'))
        with tempfile.TemporaryDirectory() as tree:
            for name in {
                line.split()[1].removeprefix('a/')
                for patch in series
                for line in patch.read_text().splitlines()
                if line.startswith('--- a/')
            }:
                path = pathlib.Path(tree, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                # Some are made by one patch, and changed by another.
                if (base / name).exists():
                    shutil.copy(base / name, path)
            words = ['patch', '-p1', '--quiet', '--force', '--fuzz=0', '-d']
            for patch in series:
                subprocess.run([*words, tree, '-i', patch], check=True)
            for fault in faults.chosen([]):
                with self.subTest(fault.name):
                    done = subprocess.run(
                        [*words, tree, '--dry-run', '-i', fault.patch],
                        check=False,
                    )
                    self.assertEqual(0, done.returncode)

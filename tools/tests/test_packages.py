# SPDX-License-Identifier: Apache-2.0
"""kernel/scripts/packages.sh beside another apt that is at work."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from lab import paths

SCRIPT = paths.CHECKOUT / 'kernel' / 'scripts' / 'packages.sh'
_APT_GET = """#!/bin/sh
echo "$*" >>"$CALLS"
[ "$(wc -l <"$CALLS")" -gt "$BUSY" ] || {{
    echo '{error}' >&2
    exit 100
}}
"""


class LockTest(unittest.TestCase):
    """Programs of the test's own in the place of apt-get's."""

    def _run(self, busy, error):
        top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        for name, text in {
            'apt-get': _APT_GET.format(error=error),
            'dpkg-query': '#!/bin/sh\nexit 1\n',
            'sleep': '#!/bin/sh\n',
        }.items():
            (top / name).write_text(text)
            (top / name).chmod(0o755)
        calls = top / 'calls'
        calls.touch()
        answer = subprocess.run(
            [SCRIPT],
            env={
                'PATH': f'{top}:{os.defpath}',
                'CALLS': str(calls),
                'BUSY': str(busy),
                'QEMU': 'no matter which',
                'NOVA_RT_KERNEL': str(top),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return answer, calls.read_text().splitlines()

    def test_waits_for_the_lock_of_the_lists(self):
        lock = 'E: Could not get lock /var/lib/apt/lists/lock. It is held by 1'
        answer, calls = self._run(3, lock)
        self.assertEqual(0, answer.returncode, answer.stderr)
        self.assertEqual(5, len(calls))
        self.assertEqual(
            1, answer.stderr.count('waiting for another apt'), answer.stderr
        )

    def test_has_apt_wait_for_that_of_dpkg(self):
        _, calls = self._run(0, '')
        self.assertEqual(2, len(calls))
        for call in calls:
            self.assertIn('-o DPkg::Lock::Timeout=', call)

    def test_another_error_ends_it(self):
        answer, calls = self._run(1, 'E: Unable to fetch some archives')
        self.assertNotEqual(0, answer.returncode)
        self.assertIn('Unable to fetch', answer.stderr)
        self.assertEqual(1, len(calls))

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.lxc.ages."""

import os
import subprocess

from oslotest import base

from nova_rt.lxc import ages


class AgesTest(base.BaseTestCase):
    def test_age(self):
        """A process is younger than the one that has started it."""
        with subprocess.Popen(['cat'], stdin=subprocess.PIPE) as child:
            mine_s = ages.read_age_s(os.getpid())
            its_s = ages.read_age_s(child.pid)
        self.assertLessEqual(0, its_s)
        self.assertLess(its_s, mine_s)

    def test_ended(self):
        with subprocess.Popen(['true']) as child:
            pass
        self.assertRaises(OSError, ages.read_age_s, child.pid)

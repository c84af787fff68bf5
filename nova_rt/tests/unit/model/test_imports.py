# SPDX-License-Identifier: Apache-2.0
"""The price that a program pays for the model."""

import subprocess
import sys

from oslotest import base


class ImportsTest(base.BaseTestCase):
    def test_formulas_are_quick_to_load(self):
        """A command answers in 0.3 s; numpy and Nova take that to load."""
        names = 'guarantee, many, planner, questions, services, single'
        names += ', sizing, split, supply, tandem, units'
        code = f'import sys; from nova_rt.model import {names}; '
        code += "print({'numpy', 'nova'} & {*sys.modules})"
        out = subprocess.run(
            [sys.executable, '-c', code], capture_output=True, text=True
        )
        self.assertEqual('set()\n', out.stdout, out.stderr)

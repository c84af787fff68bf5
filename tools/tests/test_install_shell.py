# SPDX-License-Identifier: Apache-2.0
"""Commands of a page are typed where they should be."""

import pathlib
import tempfile
import unittest

from tools.install import blocks, shell


class ShellTest(unittest.TestCase):
    def test_run(self):
        with tempfile.TemporaryDirectory() as top:
            log = pathlib.Path(top) / 'log'
            log.write_text('before\n')
            place = shell.Shell(
                'env', 'A=1', cwd=pathlib.Path(top), environment={'B': '2'}
            )
            script = 'echo "$A $B" "${HOME-no home}"; pwd; cat; exit 3'
            self.assertEqual(3, place.run(script, log))
            self.assertEqual(f'before\n1 2 no home\n{top}\n', log.read_text())

    def test_files_are_refused(self):
        with self.assertRaisesRegex(blocks.Wrong, '/etc/x is no matter'):
            shell.Shell().path('/etc/x')

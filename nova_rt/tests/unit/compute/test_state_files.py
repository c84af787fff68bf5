# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.state_files."""

import os
import pathlib

import fixtures
from oslotest import base

from nova_rt.compute import state_files


class ReplaceTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        top = self.useFixture(fixtures.TempDir()).path
        self.path = pathlib.Path(top) / 'nova_rt' / 'epoch-host'
        self.done = []
        for name in ('fsync', 'replace'):
            self._note(name, getattr(os, name))

    def _note(self, name, call):
        def noted(what, *args):
            if isinstance(what, int):
                what = os.readlink(f'/proc/self/fd/{what}')
            self.done.append((name, pathlib.Path(what).name))
            return call(what if name == 'replace' else self._open(what), *args)

        self.useFixture(fixtures.MonkeyPatch(f'os.{name}', noted))

    @staticmethod
    def _open(path):
        return os.open(path, os.O_RDONLY)

    def test_survives_a_power_cut(self):
        """The text is on the disk before its name is, and then the name."""
        state_files.replace(self.path, 'old', 0o600)
        self.done.clear()
        state_files.replace(self.path, 'new', 0o640)
        self.assertEqual(
            [('fsync', 'epoch-host.new'), ('replace', 'epoch-host.new'),
             ('fsync', 'nova_rt')],
            self.done,
        )  # fmt: skip
        self.assertEqual('new', self.path.read_text())
        self.assertEqual(0o640, self.path.stat().st_mode & 0o777)
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

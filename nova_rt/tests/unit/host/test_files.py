# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.files: the way to the privileged helper."""

import errno
import pathlib
from unittest import mock

import fixtures
from oslo_privsep import daemon
from oslotest import base

from nova_rt.host import files
import nova_rt.privsep


class HelperTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.calls = []
        self.context = nova_rt.privsep.rt_pctxt
        for name, value in (('client_mode', True), ('channel', None)):
            patch = mock.patch.object(self.context, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        for name in ('write', 'write_aside', 'make_group', 'remove_probe',
                     'set_policy'):  # fmt: skip
            self.useFixture(
                fixtures.MockPatch(
                    f'nova_rt.privsep.cgroup.{name}',
                    lambda *args, name=name: self.calls.append((name, *args)),
                )
            )

    def _start(self, error=None):
        def start():
            self.calls.append('start')
            if error is not None:
                raise error

        self.useFixture(fixtures.MockPatchObject(self.context, 'start', start))

    def test_started_before_the_call(self):
        self._start()
        path = pathlib.Path('/a')
        files.Files().write(path, '1')
        files.Files().write_aside(path, '2')
        files.Files().make_group(path)
        files.Files().remove_probe(path)
        files.Files().set_policy(path, 5, 2, 1)
        files.Files().set_policy(path, 5, 2, 1, True)
        self.assertEqual(
            [('write', '/a', '1'), ('write_aside', '/a', '2'),
             ('make_group', '/a'), ('remove_probe', '/a'),
             ('set_policy', '/a', 5, 2, 1, False),
             ('set_policy', '/a', 5, 2, 1, True)],
            [call for call in self.calls if call != 'start'],
        )  # fmt: skip
        self.assertEqual('start', self.calls[0])

    def test_runs_already(self):
        self._start()
        with fixtures.MockPatchObject(self.context, 'channel', object()):
            files.Files().write(pathlib.Path('/a'), '1')
        self.assertNotIn('start', self.calls)

    def test_does_not_start(self):
        """A missing sudo is not a missing control group."""
        for error in (
            FileNotFoundError(errno.ENOENT, 'No such file', 'sudo'),
            daemon.FailedToDropPrivileges('helper exited'),
        ):
            self._start(error)
            err = self.assertRaises(
                PermissionError, files.Files().write, pathlib.Path('/a'), '1'
            )
            self.assertEqual(errno.EPERM, err.errno)
            self.assertIn('helper does not start', str(err))
            self.assertEqual(['start'], self.calls)
            self.calls.clear()

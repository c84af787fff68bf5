# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.helpers, and of the way there."""

import errno
import pathlib
import threading
from unittest import mock

import fixtures
from oslo_privsep import daemon
from oslotest import base

from nova_rt import exception
from nova_rt.host import files, helpers
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
        self.useFixture(
            fixtures.MockPatch(
                'nova_rt.privsep.cgroup.write',
                lambda *args: self.calls.append(args),
            )
        )

    def _start(self, error=None):
        def start():
            self.calls.append('start')
            if error is not None:
                raise error

        self.useFixture(fixtures.MockPatchObject(self.context, 'start', start))

    def test_started_before_the_call(self):
        """Unless it runs already."""
        self._start()
        path = pathlib.Path('/a')
        files.Files().write(path, '1')
        self.assertEqual(['start', ('/a', '1')], self.calls)
        with fixtures.MockPatchObject(self.context, 'channel', object()):
            files.Files().write(path, '2')
        self.assertEqual(['start', ('/a', '1'), ('/a', '2')], self.calls)

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

    def test_answers(self):
        """A configuration that differs is no missing rule of sudo."""
        self._start()
        helpers.GROUPS.check(self.calls.append, 'a')
        self.assertEqual(['a'], self.calls)
        for error, text in (
            (OSError(errno.EINVAL, 'id_pool is another'), '^id_pool is ano'),
            (OSError(errno.EIO, 'no'), 'for control groups does not answer'),
            (NameError('not exported'), 'must be allowed to run "sudo pri'),
        ):
            self.assertRaisesRegex(
                exception.HostNotPrepared, text, helpers.GROUPS.check,
                mock.Mock(side_effect=error),
            )  # fmt: skip


class IdleTest(base.BaseTestCase):
    """A helper that nothing calls is ended, and only such a one."""

    def setUp(self):
        super().setUp()
        self.now_s = 1000.0
        self.useFixture(
            fixtures.MockPatchObject(helpers, 'monotonic', lambda: self.now_s)
        )
        # As PrivContext, whose methods take no lock against each other.
        self.context = mock.Mock(client_mode=True, channel=None)
        self.context.start.side_effect = self._begin
        self.context.stop.side_effect = self._end
        self.helper = helpers.Helper(self.context, 'of a test')
        self.running = []

    def _begin(self):
        self.context.channel = object()
        self.running.append(True)

    def _end(self):
        self.context.channel = None
        self.running.pop()

    def test_ended_and_started_again(self):
        self.helper.call(lambda: None)
        self.now_s += helpers.IDLE_S - 0.1
        self.helper.end_if_idle()
        self.assertTrue(self.running)
        self.now_s += 0.1
        self.helper.end_if_idle()
        self.assertFalse(self.running)
        self.helper.end_if_idle()
        self.context.stop.assert_called_once()
        self.helper.call(self.assertTrue, self.running)
        self.assertEqual(2, self.context.start.call_count)

    def test_a_call_begins_the_time_again(self):
        for _ in range(3):
            self.helper.call(lambda: None)
            self.now_s += helpers.IDLE_S - 1
            self.helper.end_if_idle()
            self.assertTrue(self.running)

    def test_not_during_a_call(self):
        """However long it takes, and if another one has ended meanwhile."""

        def call():
            self.helper.call(lambda: None)
            self.now_s += 2 * helpers.IDLE_S
            self.helper.end_if_idle()
            self.assertTrue(self.running)

        self.helper.call(call)

    def test_after_a_call_that_failed(self):
        self.assertRaises(
            OSError, self.helper.call, mock.Mock(side_effect=OSError)
        )
        self.now_s += helpers.IDLE_S
        self.helper.end_if_idle()
        self.assertFalse(self.running)

    def test_not_a_process(self):
        """Root needs no helper: its calls are made here."""
        self.context.client_mode = False
        self.helper.call(lambda: None)
        self.now_s += helpers.IDLE_S
        self.helper.end_if_idle()
        self.context.start.assert_not_called()
        self.context.stop.assert_not_called()

    def test_calls_from_everywhere(self):
        """None finds the helper gone, though it is always idle."""
        self.useFixture(fixtures.MockPatchObject(helpers, 'IDLE_S', 0))
        self.context.start.side_effect = self._begin_once
        lost = []

        def use():
            if self.context.channel is None:
                lost.append(True)

        def work():
            for _ in range(300):
                self.helper.call(use)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.helper.end_if_idle()
        self.assertEqual([], lost)

    def _begin_once(self):
        # Two may find none at the same time; PrivContext has a lock for that.
        self.context.channel = self.context.channel or object()
        self.running[:] = [True]

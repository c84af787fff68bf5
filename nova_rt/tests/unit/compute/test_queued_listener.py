# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.queued_listener."""

import threading

import fixtures
from oslotest import base

from nova_rt import events
from nova_rt.compute import queued_listener


class AsideTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.threads = []
        self.seen = []
        self.go = threading.Event()
        self.useFixture(
            fixtures.MonkeyPatch('nova.thread_pool_factory.spawn', self._spawn)
        )
        # So that no thread outlives a test that fails.
        self.addCleanup(self._join)
        self.addCleanup(self.go.set)

    def _spawn(self, work):
        thread = threading.Thread(target=work)
        self.threads.append(thread)
        thread.start()

    def _join(self):
        for thread in self.threads:
            thread.join(10)
            self.assertFalse(thread.is_alive())

    def _slow(self, event):
        assert self.go.wait(10)
        self.seen.append(event.uuid)

    def _emit(self, listener, *uuids):
        for uuid in uuids:
            listener(events.Event(uuid))

    def _finish(self):
        self.go.set()
        self._join()

    def test_does_not_wait_and_keeps_the_order(self):
        listener = queued_listener.QueuedListener(self._slow)
        self._emit(listener, *map(str, range(20)))
        self.assertEqual([], self.seen)
        self._finish()
        self.assertEqual([str(number) for number in range(20)], self.seen)
        self.assertEqual(1, len(self.threads))

    def test_no_thread_without_events(self):
        self.go.set()
        listener = queued_listener.QueuedListener(self._slow)
        for number in range(3):
            self._emit(listener, str(number))
            self._join()
            self.assertEqual(number + 1, len(self.threads))

    def test_too_many(self):
        """One is with the listener or about to be, two wait, others go."""
        listener = queued_listener.QueuedListener(self._slow, most=2)
        self._emit(listener, *map(str, range(10)))
        self._finish()
        self.assertIn(len(self.seen), (2, 3))
        self._emit(listener, 'next')
        self._join()
        self.assertEqual('next', self.seen[-1])
        lost = 10 - len(self.seen[:-1])
        self.assertIn(f'{lost} events were lost', self.log.output)

    def test_a_listener_that_fails(self):
        def fail(event):
            self.seen.append(event.uuid)
            raise ValueError('no')

        listener = queued_listener.QueuedListener(fail)
        self._emit(listener, '1', '2')
        self._finish()
        self.assertEqual(['1', '2'], self.seen)
        self.assertEqual(2, self.log.output.count('ValueError: no'))

    def test_no_thread_to_be_had(self):
        """The next event tries again; none is lost."""

        def refuse(work):
            raise RuntimeError("can't start new thread")

        self.go.set()
        listener = queued_listener.QueuedListener(self._slow)
        with fixtures.MonkeyPatch('nova.thread_pool_factory.spawn', refuse):
            self.assertRaises(RuntimeError, self._emit, listener, '1')
        self._emit(listener, '2')
        self._join()
        self.assertEqual(['1', '2'], self.seen)

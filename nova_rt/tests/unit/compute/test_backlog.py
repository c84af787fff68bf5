# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.backlog."""

import threading

import fixtures
from oslo_context import context, fixture
from oslotest import base

from nova_rt import events
from nova_rt.compute import backlog
from nova_rt.formats.reports import Origin
from nova_rt.tests.fixtures.reports import NOW, RECORD, UUID


class BacklogTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.backlog = backlog.Backlog(lambda: NOW)

    def test_every_event_has_a_kind_and_a_sentence(self):
        for number, event in enumerate((
            events.Claimed(UUID, RECORD),
            events.Applied(UUID, RECORD),
            events.Drifted(UUID, RECORD, 'less'),
            events.Repaired(UUID, RECORD, 'less'),
            events.Stopped(UUID, 'gone'),
            events.Refused(UUID, events.Action.CLAIM, 'too much'),
            events.Released(UUID, RECORD),
            events.Added(UUID, RECORD),
            events.Dropped(UUID, RECORD),
            events.Unverified(UUID, 'no descriptors'),
        ), 1):  # fmt: skip
            self.backlog(event)
            (new,) = self.backlog.list_after(number - 1)
            self.assertEqual(event.kind, new.kind)
            self.assertNotEqual('', new.details)
            self.assertEqual((number, NOW), (new.seq, new.at))
        self.assertEqual(
            {each.kind for each in self.backlog.list_after(0)},
            {each.__name__.lower() for each in events.TYPES} - {'promoted'},
        )
        found = self.backlog.list_after(0)
        self.assertIn('1400/2000 us (700000 ppm) on CPU 3-4', found[0].details)
        self.assertIsNone(found[5].state)
        self.assertEqual('claim: too much', found[5].details)

    def test_who_asked(self):
        """The request on which the thread works that emits."""
        self.useFixture(fixture.ClearRequestContext())
        self.backlog(events.Stopped(UUID, 'x'))
        context.RequestContext(
            user_id='someone', project_id='theirs', request_id='req-1'
        )
        self.backlog(events.Stopped(UUID, 'x'))
        context.RequestContext(request_id='req-2')
        self.backlog(events.Stopped(UUID, 'x'))
        self.backlog.renumber()
        self.assertEqual(
            [
                Origin(),
                Origin('req-1', 'someone', 'theirs'),
                Origin('req-2'),
            ],
            [each.origin for each in self.backlog.list_after(0)],
        )

    def test_what_goes_on_is_kept_once(self):
        for event in (
            events.Drifted(UUID, RECORD, 'less', again=True),
            events.Unverified(UUID, 'no descriptors', again=True),
            events.Promoted(UUID),
        ):
            self.backlog(event)
        self.assertEqual([], self.backlog.list_after(0))
        self.assertEqual(0, self.backlog.seq)

    def test_is_bounded(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.compute.backlog.BACKLOG', 3)
        )
        for _ in range(10):
            self.backlog(events.Stopped(UUID, 'x'))
        kept = [each.seq for each in self.backlog.list_after(0)]
        self.assertEqual([8, 9, 10], kept)
        self.assertEqual(7, self.backlog.dropped_seq)
        self.assertEqual(1, log.output.count('dropped'))

    def test_numbers_of_many_threads(self):
        def emit():
            for _ in range(200):
                self.backlog(events.Stopped(UUID, 'x'))

        threads = [threading.Thread(target=emit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [each.seq for each in self.backlog.list_after(0)]
        self.assertEqual(list(range(1, 1601)), found)

    def test_forgets_what_has_come(self):
        for _ in range(5):
            self.backlog(events.Claimed(UUID, RECORD))
        self.backlog.acknowledge(3)
        self.assertEqual([4, 5], [e.seq for e in self.backlog.list_after(0)])
        self.assertIn(UUID, self.backlog.find_changes())
        self.backlog(events.Released(UUID, RECORD))
        self.assertEqual({}, self.backlog.find_changes())

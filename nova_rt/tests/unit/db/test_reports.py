# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.reports and of what nova_rt.db.api reads of them."""

import dataclasses
import datetime
import itertools

from nova_rt import exception
from nova_rt.db import api
from nova_rt.formats import reports
from nova_rt.formats.reports import HostCPU, Origin
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures.reports import (
    MINUTE,
    NOW,
    RECORD,
    UUID,
    event,
    held,
    make_uuid,
    state,
)
from nova_rt.tests.unit.db import base

OTHER = make_uuid(2)
LATER = NOW + MINUTE


class StateTest(base.DatabaseTest):
    def test_is_read_as_it_came(self):
        self.assertTrue(api.record_state('one', state(held()), NOW))
        host = api.get_host('one')
        self.assertEqual([host], api.list_hosts())
        self.assertEqual('v2-rt-max-cpu', host.interface)
        self.assertEqual(('limit', 'cpu'), (host.enforcement, host.scope))
        self.assertEqual(HostCPU(950_000, 700_000), host.cpus[3])
        self.assertIsNone(host.host_ppm)
        self.assertEqual(NOW, host.last_report_at)
        server = api.get_server(UUID)
        self.assertEqual([server], api.list_servers('one'))
        self.assertEqual(
            ('one', RECORD.request.plain(), 700_000, 2, (3, 4), 'applied',
             NOW),
            dataclasses.astuple(server)[1:],
        )  # fmt: skip

    def test_a_sum_over_the_host(self):
        new = state(host_cpu=HostCPU(900_000, 5), scope='host')
        api.record_state('one', new, NOW)
        host = api.get_host('one')
        self.assertEqual((900_000, 5), (host.host_ppm, host.host_reserved_ppm))

    def test_repeated_or_late_does_nothing(self):
        api.record_state('one', state(held(), epoch=2, seq=3), NOW)
        for epoch, seq in (2, 3), (2, 2), (1, 9):
            old = state(epoch=epoch, seq=seq, version='old')
            self.assertFalse(api.record_state('one', old, LATER))
        self.assertEqual('applied', api.get_server(UUID).state)
        self.assertEqual(NOW, api.get_host('one').last_report_at)
        self.assertTrue(api.record_state('one', state(epoch=3), LATER))

    def test_a_server_that_is_missing_is_released(self):
        api.record_state('one', state(held(), held(uuid=OTHER)), NOW)
        api.record_state('one', state(held(), seq=2), LATER)
        self.assertEqual([UUID], [each.uuid for each in api.list_servers()])
        gone = api.get_server(OTHER)
        self.assertEqual(('released', LATER), (gone.state, gone.since))
        self.assertIn(gone, api.list_servers(include_released=True))

    def test_since_stays_while_the_state_does(self):
        api.record_state('one', state(held()), NOW)
        api.record_state('one', state(held(since=LATER), seq=2), LATER)
        self.assertEqual(NOW, api.get_server(UUID).since)
        api.record_state('one', state(held('drifted', since=LATER), seq=3),
                         LATER)  # fmt: skip
        self.assertEqual(LATER, api.get_server(UUID).since)

    def test_a_clock_that_is_ahead_is_not_believed(self):
        ahead = NOW + datetime.timedelta(days=400)
        api.record_state('one', state(held(since=ahead)), NOW)
        self.assertEqual(NOW, api.get_server(UUID).since)

    def test_cpus_come_and_go(self):
        api.record_state('one', state(), NOW)
        cpus = {4: HostCPU(1, 2), 5: HostCPU(3, 4)}
        api.record_state('one', state(seq=2, cpus=cpus), NOW)
        self.assertEqual(cpus, api.get_host('one').cpus)

    def test_two_hosts_have_no_common_order(self):
        """While it moves, a server holds bandwidth on both."""
        api.record_state('one', state(held(), epoch=9), NOW)
        api.record_state('two', state(held('claimed', since=LATER)), LATER)
        self.assertEqual(2, len(api.list_servers()))
        self.assertEqual('two', api.get_server(UUID).host)
        api.record_state('two', state(seq=2), LATER)
        self.assertEqual('one', api.get_server(UUID).host)

    def test_nothing_is_known_of_others(self):
        self.assertEqual([], api.list_hosts())
        self.assertEqual([], api.list_servers('one'))
        for error, get in (
            (exception.HostNotFound, api.get_host),
            (exception.ServerNotFound, api.get_server),
            (exception.ServerNotFound, api.get_history),
        ):
            self.assertRaises(error, get, "one' OR '1'='1")

    def test_a_host_is_unknown_until_it_reports_its_state(self):
        api.record_events('one', 1, [event(1, 'claimed')], NOW)
        self.assertEqual([], api.list_hosts())
        self.assertEqual('claimed', api.get_server(UUID).state)


class EventTest(base.DatabaseTest):
    def _kinds(self):
        return [each.kind for each in reversed(api.get_history(UUID))]

    def test_a_story(self):
        kinds = ['claimed', 'applied', 'drifted', 'repaired', 'drifted',
                 'stopped', 'released']  # fmt: skip
        states = ['claimed', 'applied', 'drifted', 'applied', 'drifted',
                  'stopped', 'released']  # fmt: skip
        for seq, (kind, now) in enumerate(zip(kinds, states, strict=True), 1):
            new = event(seq, kind, origin=Origin(f'req-{seq}', 'u', 'p'))
            news = api.record_events('one', 1, [new], NOW)
            self.assertEqual(1, news)
            self.assertEqual(now, api.get_server(UUID).state)
        self.assertEqual(kinds, self._kinds())
        entry = api.get_history(UUID)[-1]
        self.assertEqual(
            (
                NOW,
                'one',
                'claimed',
                'claimed 1',
                'nova-rt-compute',
                ('req-1', 'u', 'p'),
            ),
            dataclasses.astuple(entry)[1:],
        )

    def test_repeated_does_nothing(self):
        events = [event(1, 'claimed'), event(2, 'applied')]
        self.assertEqual(2, api.record_events('one', 1, events, NOW))
        self.assertEqual(0, api.record_events('one', 1, events, NOW))
        events.append(event(3, 'refused'))
        self.assertEqual(1, api.record_events('one', 1, events, NOW))
        self.assertEqual(['claimed', 'applied', 'refused'], self._kinds())

    def test_waits_behind_a_gap(self):
        api.record_events('one', 1, [event(1, 'claimed')], NOW)
        late = [event(3, 'released')]
        self.assertEqual(0, api.record_events('one', 1, late, NOW))
        self.assertEqual(reports.Position(1, 1), api.get_position('one', 1))
        both = [event(3, 'released'), event(2, 'applied')]
        self.assertEqual(2, api.record_events('one', 1, both, NOW))
        self.assertEqual(['claimed', 'applied', 'released'], self._kinds())
        self.assertEqual(reports.Position(1, 3), api.get_position('one', 1))

    def test_what_was_dropped_is_counted(self):
        api.record_state('one', state(), NOW)
        api.record_events('one', 1, [event(1, 'claimed')], NOW)
        for _ in range(2):
            api.record_events(
                'one', 1, [event(5, 'applied')], NOW, dropped_seq=4
            )
        self.assertEqual(3, api.get_host('one').lost_events)
        self.assertEqual(reports.Position(1, 5), api.get_position('one', 1))
        self.assertEqual(['claimed', 'applied'], self._kinds())

    def test_of_an_epoch_that_is_over_is_history(self):
        api.record_events('one', 1, [event(1, 'claimed')], NOW)
        api.record_state('one', state(held(), epoch=2), NOW)
        api.record_events('one', 2, [event(1, 'drifted')], NOW)
        late = [event(1, 'claimed'), event(2, 'released')]
        self.assertEqual(1, api.record_events('one', 1, late, NOW))
        self.assertEqual(0, api.record_events('one', 1, late, NOW))
        self.assertEqual('drifted', api.get_server(UUID).state)
        self.assertEqual(reports.Position(2, 1), api.get_position('one', 2))
        self.assertEqual(['claimed', 'drifted', 'released'], self._kinds())

    def test_a_state_that_has_it_already_wins(self):
        new = state(held('drifted'), event_seq=2)
        api.record_state('one', new, NOW)
        events = [event(1, 'claimed'), event(2, 'drifted')]
        api.record_events('one', 1, events, NOW)
        self.assertEqual('drifted', api.get_server(UUID).state)
        self.assertEqual(['claimed', 'drifted'], self._kinds())

    def test_a_state_that_lacks_it_leaves_servers_alone(self):
        events = [event(1, 'claimed'), event(2, 'released')]
        api.record_events('one', 1, events, NOW)
        old = state(held(), event_seq=1)
        self.assertTrue(api.record_state('one', old, NOW))
        self.assertEqual('released', api.get_server(UUID).state)

    def test_a_state_of_before_the_last_start_leaves_servers_alone(self):
        """However many events that start has had."""
        api.record_events('one', 2, [event(1, 'claimed')], NOW)
        late = state(epoch=1, event_seq=99)
        self.assertTrue(api.record_state('one', late, NOW))
        self.assertEqual('claimed', api.get_server(UUID).state)

    def test_every_order_ends_in_the_same_picture(self):
        """Whatever is late, lost or repeated, the next full report mends."""
        reports = [
            lambda host: api.record_events(
                host, 1, [event(1, 'claimed'), event(2, 'applied')], NOW
            ),
            lambda host: api.record_state(
                host, state(held(), event_seq=2), NOW
            ),
            lambda host: api.record_events(
                host, 1, [event(3, 'released')], NOW
            ),
            lambda host: api.record_events(
                host, 1, [event(4, 'claimed', OTHER)], NOW
            ),
        ]
        for number, order in enumerate(itertools.permutations(range(4))):
            host = f'host{number}'
            for each in (*order, order[0], order[-1]):
                reports[each](host)
            # What the compute does each minute: ask, send again, and say all.
            done = api.get_position(host, 1).event_seq
            events = [
                event(1, 'claimed'),
                event(2, 'applied'),
                event(3, 'released'),
                event(4, 'claimed', OTHER),
            ]
            api.record_events(host, 1, events[done:], NOW)
            last = state(held('claimed', uuid=OTHER), seq=2, event_seq=4)
            api.record_state(host, last, LATER)
            found = api.list_servers(host, include_released=True)
            self.assertEqual(
                {(UUID, 'released'), (OTHER, 'claimed')},
                {(each.uuid, each.state) for each in found},
                order,
            )
            kinds = [
                each.kind
                for each in api.get_history(UUID)
                if each.host == host
            ]
            self.assertEqual(['released', 'applied', 'claimed'], kinds, order)

    def test_repairs_and_refusals_are_counted_once(self):
        api.record_state('one', state(), NOW)
        events = [event(1, 'repaired'), event(2, 'refused', OTHER),
                  event(3, 'repaired')]  # fmt: skip
        for _ in range(2):
            api.record_events('one', 1, events, NOW)
        host = api.get_host('one')
        self.assertEqual((2, 1), (host.repairs, host.refusals))
        # A server that was refused has a history and nothing else.
        self.assertEqual(1, len(api.get_history(OTHER)))
        self.assertRaises(exception.ServerNotFound, api.get_server, OTHER)

    def test_a_new_claim_replaces_the_old(self):
        api.record_events('one', 1, [event(1, 'released')], NOW)
        other = Record.decode('v=1;q=100;p=200;n=1;e=guarantee;s=fifo;r=9;c=7')
        api.record_events('one', 1, [event(2, 'claimed', record=other)], NOW)
        server = api.get_server(UUID)
        self.assertEqual(
            ((7,), other.request.plain(), 'claimed'),
            (server.cpus, server.specs, server.state),
        )

    def test_no_entry_is_later_than_now(self):
        ahead = NOW + datetime.timedelta(days=4000)
        api.record_events('one', 1, [event(1, 'claimed', at=ahead)], NOW)
        self.assertEqual(NOW, api.get_history(UUID)[0].at)
        self.assertEqual(NOW, api.get_server(UUID).since)

    def test_history_page_by_page(self):
        events = [event(seq, 'applied') for seq in range(1, 8)]
        api.record_events('one', 1, events, NOW)
        found = []
        marker = None
        while page := api.get_history(UUID, limit=3, marker=marker):
            self.assertLessEqual(len(page), 3)
            found += page
            marker = page[-1].id
        self.assertEqual(api.get_history(UUID), found)
        self.assertEqual(7, len(found))

    def test_position_before_anything(self):
        self.assertEqual(reports.Position(0, 0), api.get_position('one', 4))
        api.record_events('one', 5, [event(1, 'claimed')], NOW)
        self.assertEqual(reports.Position(5, 0), api.get_position('one', 4))

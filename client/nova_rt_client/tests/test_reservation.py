# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt_client.reservation."""

from unittest import mock

from osc_lib import exceptions
import requests

from nova_rt_client import reservation
from nova_rt_client.tests import base
from nova_rt_client.tests.base import PATH, URL, UUID, make_state


class ShowTest(base.CommandTestCase):
    def test_show(self):
        self.answer(make_state('Deferred', reason='no room'))
        found = self.run_command(reservation.ShowReservation, UUID)
        expected = {
            'server_id': UUID, 'desired': '600/1000',
            'allocated': '400/1000', 'actual': None,
            'condition': 'Deferred', 'reason': 'no room', 'generation': 3,
            'cpus': '3,7', 'enforcement': 'guarantee',
        }  # fmt: skip
        self.assertEqual(expected, {name: found[name] for name in expected})
        sent = self.service.last_request.headers
        self.assertEqual('rt 1.0', sent['OpenStack-API-Version'])
        self.assertEqual('token', sent['X-Auth-Token'])
        self.cloud.compute.find_server.assert_not_called()

    def test_boost(self):
        state = make_state()
        self.answer(state)
        found = self.run_command(reservation.ShowReservation, UUID)
        self.assertEqual((None, None), (found['boost'], found['boost_until']))
        until = '2027-03-01T12:00:07Z'
        state['reservation']['boost'] = {
            'runtime_us': 800, 'period_us': 1000, 'until': until,
        }  # fmt: skip
        self.answer(state)
        found = self.run_command(reservation.ShowReservation, UUID)
        self.assertEqual(
            ('800/1000', until), (found['boost'], found['boost_until'])
        )

    def test_name(self):
        self.cloud.compute.find_server.return_value.id = UUID
        self.answer(make_state())
        self.run_command(reservation.ShowReservation, 'web')
        self.cloud.compute.find_server.assert_called_once_with(
            'web', ignore_missing=False
        )

    def test_errors(self):
        errors = [{'detail': 'asked 5, free 4', 'status': 409, 'code': 'rt.x'}]
        for answer, text in (
            ({'json': {'errors': errors}}, 'asked 5, free 4 (HTTP 409, rt.x)'),
            ({'text': 'oops', 'reason': 'Bad Gateway'}, 'Bad Gateway'),
            ({'json': []}, 'HTTP 409'),
        ):
            self.service.get(PATH, status_code=409, **answer)
            err = self.assertRaises(
                exceptions.CommandError,
                self.run_command,
                reservation.ShowReservation,
                UUID,
            )
            self.assertIn(text, str(err))


class SetTest(base.CommandTestCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(reservation, '_POLL_S', 0)
        patch.start()
        self.addCleanup(patch.stop)
        self.answer(make_state('InProgress'), method='PUT', status_code=202)

    def set(self, *words):
        return self.run_command(
            reservation.SetReservation, UUID, '600/1000', *words
        )

    def follow(self, *states):
        self.service.get(PATH, [{'json': state} for state in states])

    def assert_ends(self, text, *words):
        err = self.assertRaises(exceptions.CommandError, self.set, *words)
        self.assertIn(text, str(err))

    def test_request(self):
        found = self.set('--on-no-room', 'defer', '--generation', '2')
        self.assertEqual('InProgress', found['condition'])
        sent = self.service.last_request
        self.assertEqual(
            {'reservation': {'runtime_us': 600, 'period_us': 1000,
                             'on_no_room': 'defer'}},
            sent.json(),
        )  # fmt: skip
        self.assertEqual('"2"', sent.headers['If-Match'])
        self.set()
        self.assertNotIn('If-Match', self.service.last_request.headers)

    def test_wait(self):
        deferred = make_state(
            'Deferred', reason='no room', asked_ppm=600, free_ppm=5
        )
        self.follow(make_state('InProgress'), deferred, deferred, make_state())
        self.assertEqual('Applied', self.set('--wait')['condition'])
        self.assertEqual(
            'InProgress\n'
            'Deferred: no room: asked 600 ppm, free 5 ppm\n'
            'Applied\n',
            self.app.stderr.getvalue(),
        )

    @mock.patch('time.sleep')
    def test_wait_while_the_service_restarts(self, sleep):
        away = {'exc': requests.exceptions.ConnectionError}
        full = {'status_code': 503, 'json': {}}
        self.service.get(PATH, [away, away, full, {'json': make_state()}])
        self.assertEqual('Applied', self.set('--wait')['condition'])
        self.service.get(PATH, [full])
        self.assert_ends('HTTP 503', '--wait')

    def test_wait_for_a_migration(self):
        self.follow(
            make_state('InProgress', reason='migrating from one'), make_state()
        )
        self.set('--on-no-room', 'migrate', '--wait')
        (sent,) = (
            each for each in self.service.request_history
            if each.method == 'PUT'
        )  # fmt: skip
        self.assertEqual('migrate', sent.json()['reservation']['on_no_room'])
        self.assertEqual(
            'InProgress\nInProgress: migrating from one\nApplied\n',
            self.app.stderr.getvalue(),
        )

    def test_wait_for_a_refusal(self):
        self.follow(make_state('Infeasible', reason='too large', asked_ppm=7))
        self.assert_ends('too large: asked 7 ppm', '--wait')

    def test_wait_for_too_long(self):
        self.follow(make_state('Deferred'))
        self.assert_ends(
            'not applied after 0 s: InProgress', '--wait', '--timeout', '0'
        )

    def test_another_change(self):
        self.follow(make_state(generation=4))
        self.assert_ends('replaced by change 4', '--wait')

    def test_no_reservation(self):
        for text in '600', '600/0', '6e2/1000', '600/1000/1', '٣/٤':
            err = self.assertRaises(
                exceptions.CommandError,
                self.run_command,
                reservation.SetReservation,
                UUID,
                text,
            )
            self.assertIn('is not a reservation', str(err))


class ListTest(base.CommandTestCase):
    URL = f'{URL}/v1/reservations'

    def test_pages(self):
        state = make_state()['reservation']
        link = {'rel': 'next', 'href': f'/v1/reservations?marker={UUID}'}
        self.answer(
            {'reservations': [state], 'reservations_links': [link]}, self.URL
        )
        self.answer(
            {'reservations': [state], 'reservations_links': []},
            f'{self.URL}?marker={UUID}',
        )
        first, second = self.run_command(reservation.ListReservation)
        self.assertEqual(
            {'Server': UUID, 'Host': 'one', 'Desired': '600/1000',
             'Allocated': '400/1000', 'vCPUs': 2, 'Condition': 'Applied',
             'State': 'held'},
            first,
        )  # fmt: skip
        self.assertEqual(first, second)

    def test_filters(self):
        self.cloud.identity.find_project.return_value.id = 'p'
        self.answer({'reservations': []}, self.URL)
        self.run_command(
            reservation.ListReservation,
            '--host', 'a b', '--project', 'demo', '--all-projects',
        )  # fmt: skip
        self.assertEqual(
            {'host': ['a b'], 'project_id': ['p'], 'all_projects': ['true']},
            self.service.last_request.qs,
        )


class HistoryTest(base.CommandTestCase):
    def test_events(self):
        event = {
            'at': '2027-03-01T12:00:07Z', 'event': 'claimed',
            'runtime_us': 1400, 'period_us': 2000, 'host': 'one',
            'cpus': '3-4', 'details': '', 'request_id': 'r', 'user_id': 'u',
            'project_id': 'p',
        }  # fmt: skip
        refused = event | {'runtime_us': None, 'period_us': None}
        self.answer({'events': [event, refused]}, f'{PATH}/history')
        first, second = self.run_command(
            reservation.ShowHistory, UUID, '--limit', '2'
        )
        self.assertEqual(
            ('1400/2000', '3-4', 'u'),
            (first['Reservation'], first['CPUs'], first['User']),
        )
        self.assertIsNone(second['Reservation'])
        self.assertEqual(['2'], self.service.last_request.qs['limit'])

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.rest.operations through the whole application."""

import dataclasses
from unittest import mock

from nova_rt import exception
from nova_rt.cloud.records import Holding, HostRecord
from nova_rt.formats.changes import Answer, Condition, OnNoRoom
from nova_rt.formats.history import Boost, Origin
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.reservation import Reservation
from nova_rt.rest.sources import OverLimit
from nova_rt.tests.fixtures.history import NOW, event, make_uuid
from nova_rt.tests.unit.rest import base
from nova_rt.tests.unit.rest.base import make_change, make_server, pick

UUID = make_uuid(1)
PATH = f'/v1/servers/{UUID}/reservation'
REFUSED = Answer(
    Condition.DEFERRED, 'asked 600000, free 5 on one', 600_000, 5, 'a rule'
)


def runtime(runtime_us, period_us=2000):
    return {'runtime_us': runtime_us, 'period_us': period_us}


def wish(*numbers, **more):
    return {'reservation': runtime(*numbers) | more}


class ShowTest(base.APITestCase):
    def test_without_a_change(self):
        self.sources.add(make_server(1))
        response, found = self.send('GET', PATH)
        self.assertEqual('"0"', response.headers['ETag'])
        shown = found['reservation']
        expected = {
            'server_id': UUID, 'project_id': base.OURS, 'state': 'held',
            'host': 'one', 'cpus': '3,7', 'vcpus': 2, 'generation': 0,
            'desired': runtime(1000), 'allocated': runtime(1000),
            'actual': None, 'on_no_room': None, 'enforcement': 'guarantee',
            'priority': 1, 'runtime_min': 500, 'runtime_max': 1500,
        }  # fmt: skip
        self.assertEqual(expected, {name: shown[name] for name in expected})
        self.assertEqual('Applied', shown['condition']['type'])

    def test_change(self):
        server = make_server(1)
        self.sources.add(server, make_change(server, 7))
        response, found = self.send('GET', PATH)
        self.assertEqual('"7"', response.headers['ETag'])
        shown = found['reservation']
        self.assertEqual(
            (runtime(1200), runtime(1000), runtime(1200), 'defer'),
            pick(shown, 'desired', 'allocated', 'actual', 'on_no_room'),
        )

    def test_nonsense_of_a_host(self):
        """A stored answer does not keep servers from being shown."""
        server = make_server(1)
        answer = Answer(Condition.APPLIED, actual='x')
        self.sources.add(server, make_change(server, 1, answer))
        self.assertIsNone(self.read(PATH)['reservation']['actual'])
        (listed,) = self.read('/v1/reservations', 'reader')['reservations']
        self.assertEqual(runtime(1200), listed['desired'])

    def test_boost(self):
        self.sources.add(make_server(1))
        self.assertIsNone(self.read(PATH, 'reader')['reservation']['boost'])
        self.sources.boosts[UUID] = Boost(Reservation(1800, 2000), NOW)
        expected = runtime(1800) | {'until': '2027-03-01T12:00:07Z'}
        shown = self.read(PATH, 'reader')['reservation']
        self.assertEqual(expected, shown['boost'])
        self.assertEqual(runtime(1000), shown['allocated'])
        self.assertEqual('Applied', shown['condition']['type'])
        (listed,) = self.read('/v1/reservations', 'reader')['reservations']
        self.assertEqual(expected, listed['boost'])
        _, found = self.send('PUT', PATH, body=wish(1200), status=202)
        self.assertEqual(expected, found['reservation']['boost'])

    def test_change_of_an_earlier_flavor(self):
        for ended, flavor in (0, 4), (7, 5), (8, 5):
            server = make_server(1, ended=ended)
            self.sources.add(server, make_change(server, 7, flavor=flavor))
            shown = self.read(PATH)['reservation']
            self.assertEqual(
                (runtime(1000), 7), (shown['desired'], shown['generation'])
            )

    def test_users_see_no_hosts(self):
        server = make_server(1)
        self.sources.add(server, make_change(server, 1, REFUSED))
        shown = self.read(PATH, 'reader')['reservation']
        self.assertEqual((None, None), (shown['host'], shown['cpus']))
        self.assertEqual(
            {'type': 'Deferred', 'since': '2027-03-01T12:00:07Z',
             'reason': 'the host has no room now', 'asked_ppm': 600_000,
             'free_ppm': None, 'rule': None},
            shown['condition'],
        )  # fmt: skip
        self.flags(group='nova_rt', refusal_details='full')
        for user in ('reader', base.ADMIN):
            shown = self.read(PATH, user)['reservation']['condition']
            self.assertEqual(
                ('asked 600000, free 5 on one', 5, 'a rule'),
                (shown['reason'], shown['free_ppm'], shown['rule']),
            )

    def test_users_see_moves(self):
        server = make_server(1)
        for condition, text in (
            (Condition.IN_PROGRESS, 'is being migrated'),
            (Condition.INFEASIBLE, 'was not migrated'),
        ):
            change = make_change(server, 1, Answer(condition, 'to one'))
            self.sources.add(
                server, dataclasses.replace(change, moved_after='req-1')
            )
            shown = self.read(PATH, 'reader')['reservation']['condition']
            self.assertIn(text, shown['reason'])

    def test_not_to_be_seen(self):
        for user in base.ADMIN, 'stranger':
            self.assert_error(404, 'not_found', UUID, path=PATH, user=user)
        self.sources.add(make_server(1))
        self.assert_error(404, 'not_found', UUID, path=PATH, user='stranger')
        self.read(PATH)

    def test_nowhere_and_unreadable(self):
        self.sources.add(make_server(1, host='', state='released'))
        self.sources.add(make_server(2, record=None, state='unreadable'))
        shown = self.read(PATH)['reservation']
        self.assertEqual(
            (None, runtime(1000), None),
            (shown['host'], shown['desired'], shown['allocated']),
        )
        other = PATH.replace(UUID, make_uuid(2))
        shown = self.read(other)['reservation']
        self.assertEqual((None, None), (shown['desired'], shown['vcpus']))


class ChangeTest(base.APITestCase):
    def setUp(self):
        super().setUp()
        self.server = self.sources.add(make_server(1))

    def put(self, body, user='member', status=202, **headers):
        return self.send('PUT', PATH, user, body, status, **headers)

    def assert_refused(self, status, code, *texts, body, **more):
        response = self.assert_error(
            status, code, *texts, path=PATH, method='PUT', body=body, **more
        )
        self.assertEqual([], self.sources.asked)
        return response

    def test_owner(self):
        response, found = self.put(wish(1500))
        self.assertEqual('"1"', response.headers['ETag'])
        shown = found['reservation']
        self.assertEqual('InProgress', shown['condition']['type'])
        self.assertEqual(
            (runtime(1500), runtime(1000), 'fail'),
            pick(shown, 'desired', 'allocated', 'on_no_room'),
        )
        self.assertEqual(
            [(UUID, '1500/2000', OnNoRoom.FAIL)], self.sources.asked
        )

    def test_owner_beyond_the_flavor(self):
        for body, *texts in (
            (wish(1501), '1501', '500 to 1500'), (wish(600, 1000), '1000')
        ):  # fmt: skip
            self.assert_refused(
                403, 'out_of_bounds', *texts, body=body, user='member'
            )

    def test_operator(self):
        self.put(wish(1900, 5000, on_no_room='defer'), base.ADMIN)
        self.assertEqual(
            [(UUID, '1900/5000', OnNoRoom.DEFER)], self.sources.asked
        )

    def test_rights(self):
        for user, status, code in (
            ('reader', 403, 'forbidden'),
            ('stranger', 404, 'not_found'),
            (None, 401, 'unauthorized'),
        ):
            self.assert_refused(status, code, body=wish(600), user=user)

    def test_whole_number_with_a_point(self):
        self.put(wish(600.0))
        self.assertEqual('600/2000', self.sources.asked[0][1])

    def test_policy_file(self):
        self.policy.write_text('"rt:reservation:set": "!"\n')
        self.assert_refused(
            403, 'forbidden', 'rt:reservation:set', body=wish(600)
        )

    def test_generations(self):
        self.put(wish(600), If_Match='"0"')
        self.put(wish(700), If_Match='"1"')
        self.put(wish(800), If_Match='*')
        self.put(wish(900))
        self.sources.asked.clear()
        self.assert_refused(
            409, 'generation_conflict', '2', '4',
            body=wish(600), If_Match='"2"',
        )  # fmt: skip
        self.assert_refused(
            400, 'invalid_request', 'If-Match', body=wish(600), If_Match='2'
        )

    def test_bad_body(self):
        for body, text in (
            (b'{', 'no JSON'),
            (b'[' * 60000, 'no JSON'),
            ({}, 'reservation'),
            (wish('600'), 'runtime_us'),
            (wish(600.5), 'runtime_us'),
            (wish(1, 2000), 'runtime_us'),
            (wish(600, 99), 'period_us'),
            (wish(2001, 2000), 'exceeds'),
            (wish(600, 500), 'exceeds'),
            (wish(600, 2_000_000), '1000000'),
            (wish(600, on_no_room='maybe'), 'on_no_room'),
            (wish(600, more=1), 'more'),
        ):
            self.assert_refused(400, 'invalid_request', text, body=body)
        self.assert_refused(413, 'request_entity_too_large', body=b' ' * 65537)

    def test_locked(self):
        """Its owner can change a server as little as resize it."""
        self.sources.add(make_server(1, locked=True))
        self.assert_refused(
            409, 'server_busy', 'locked', body=wish(600), user='member'
        )
        self.put(wish(600), base.ADMIN)

    def test_bounds_of_today(self):
        """They are for other periods than that of the server."""
        self.flags(group='nova_rt', min_period_us=3000)
        self.put(wish(600), 'member')
        self.put(wish(1900, 4000), base.ADMIN)
        self.sources.asked.clear()
        self.assert_refused(400, 'invalid_request', '3000', body=wish(5, 2500))

    def test_present_reservation(self):
        """It withdraws a change, whatever the flavor allows."""
        flavor = base.FLAVOR | {'rt:runtime_min': '1000'}
        server = make_server(1, flavor=flavor)
        request = dataclasses.replace(
            server.record.request, reservation=Reservation(700, 2000)
        )
        record = dataclasses.replace(server.record, request=request)
        self.sources.add(dataclasses.replace(server, record=record))
        self.assert_refused(
            403, 'out_of_bounds', '701', body=wish(701), user='member'
        )
        self.put(wish(700), 'member')

    def test_conflicts(self):
        self.sources.add(make_server(1, obstacle='the server is shelved'))
        self.assert_refused(409, 'server_busy', 'shelved', body=wish(600))
        self.sources.add(make_server(1, record=None, state='unreadable'))
        self.assert_refused(409, 'server_busy', 'read', body=wish(600))
        self.sources.add(self.server)
        with mock.patch.object(
            self.sources, 'ask', side_effect=exception.BeingMoved
        ):
            self.assert_refused(
                409, 'server_busy', 'being migrated', body=wish(600)
            )

    def test_migrate(self):
        body = wish(1500, on_no_room='migrate')
        self.assert_refused(
            403, 'forbidden', 'rt:reservation:set_migrate', body=body,
            user='member',
        )  # fmt: skip
        # Nobody could carry it out.
        self.assert_refused(
            400, 'invalid_request', '[nova_rt_nova] auth_type', body=body
        )
        self.flags(group='nova_rt_nova', auth_type='password')
        _, found = self.put(body, base.ADMIN)
        self.assertEqual('migrate', found['reservation']['on_no_room'])
        self.assertEqual(
            [(UUID, '1500/2000', OnNoRoom.MIGRATE)], self.sources.asked
        )

    def test_limit(self):
        self.sources.over = OverLimit('asked for 5, limit 4')
        self.assert_refused(
            403, 'over_limit', 'asked for 5', body=wish(1500), user='member'
        )


class HistoryTest(base.APITestCase):
    def setUp(self):
        super().setUp()
        self.sources.events = [
            event(2, 'refused', server=UUID, details='on one'),
            event(1, 'claimed', server=UUID, origin=Origin('req-1', 'u', 'p')),
        ]

    def test_events(self):
        self.sources.add(make_server(1))
        refused, claimed = self.read(f'{PATH}/history')['events']
        self.assertEqual(
            ('refused', None, 'on one'),
            (refused['event'], refused['runtime_us'], refused['details']),
        )
        self.assertEqual(
            ('2027-03-01T12:01:07Z', 1400, 2000, 'one', '3-4', 'u'),
            pick(
                claimed, 'at', 'runtime_us', 'period_us', 'host', 'cpus',
                'user_id',
            ),
        )  # fmt: skip
        (shown,) = self.read(f'{PATH}/history?limit=1', 'reader')['events']
        self.assertEqual(
            (None, None, None), pick(shown, 'host', 'cpus', 'details')
        )

    def test_deleted(self):
        self.assertEqual(2, len(self.read(f'{PATH}/history')['events']))
        self.assert_error(
            404, 'not_found', path=f'{PATH}/history', user='reader'
        )


class ListTest(base.APITestCase):
    def setUp(self):
        super().setUp()
        for number in 1, 2, 3:
            self.sources.add(make_server(number))
        self.sources.add(make_server(4, base.THEIRS, host='two'))

    def list(self, query='', user=base.ADMIN):
        found = self.read(f'/v1/reservations{query}', user)
        return [
            int(each['server_id'][-2:]) for each in found['reservations']
        ], found['reservations_links']

    def test_projects(self):
        self.assertEqual([1, 2, 3], self.list(user='reader')[0])
        self.assertEqual([4], self.list()[0])
        self.assertEqual([1, 2, 3, 4], self.list('?all_projects=true')[0])
        self.assertEqual(
            [1, 2, 3], self.list('?all_projects=true&host=one')[0]
        )
        other = f'?project_id={base.OURS}'
        self.assertEqual([1, 2, 3], self.list(other)[0])
        for query in other, '?all_projects=true', '?host=one':
            self.assert_error(
                403, 'forbidden', 'rt:reservation:',
                path=f'/v1/reservations{query}', user='stranger',
            )  # fmt: skip

    def test_token_without_a_project(self):
        self.flags(group='oslo_policy', enforce_new_defaults=False)
        for query in '', '?all_projects=false':
            self.assert_error(
                403, 'forbidden', path=f'/v1/reservations{query}',
                user='unscoped',
            )  # fmt: skip

    def read_pages(self):
        path, seen = '?limit=2&all_projects=true', []
        while path:
            numbers, links = self.list(path)
            self.assertLessEqual(len(numbers), 2)
            seen.append(numbers)
            path = ''
            for link in links:
                path = '?' + link['href'].partition('?')[2]
        return seen

    def test_pages(self):
        self.assertEqual([[1, 2], [3, 4], []], self.read_pages())
        self.sources.gone = {make_uuid(1), make_uuid(2)}
        self.assertEqual([[], [3, 4], []], self.read_pages())

    def test_bad_query(self):
        for query, text in (
            ('limit=0', 'limit'),
            ('limit=1001', 'limit'),
            ('limit=99999999999999', 'limit'),
            ('limit=x', 'limit'),
            ('limit=', 'limit'),
            ('marker=x', 'marker'),
            ('all_projects=1', 'all_projects'),
            ('project_id=%F2%9D%80%B9', 'project_id'),
            ('project_id=', 'project_id'),
            (f'host={"x" * 256}', 'host'),
            ('name=x', 'name'),
        ):
            self.assert_error(
                400, 'invalid_request', text,
                path=f'/v1/reservations?{query}',
            )  # fmt: skip


class HostsTest(base.APITestCase):
    def setUp(self):
        super().setUp()
        record = make_server(1).record
        holdings = (
            Holding(UUID, 'one', record, 'held'),
            Holding(make_uuid(2), 'one', None, 'unreadable'),
        )
        stats = {'rt_interface': 'x', 'rt_enforcement': 'guarantee'}
        free = Capacity({3: 400_000, 4: 900_000})
        self.sources.hosts = [
            HostRecord('one', stats, free, 1_900_000, 1_000_000, holdings,
                       NOW),
            HostRecord('two', {}, None, None, 0, (), None),
        ]  # fmt: skip

    def test_list(self):
        one, two = self.read('/v1/hosts')['hosts']
        self.assertEqual(
            {'name': 'one', 'interface': 'x', 'enforcement': 'guarantee',
             'capacity_ppm': 1_900_000, 'reserved_ppm': 1_000_000,
             'free_ppm': 1_300_000, 'servers': 2,
             'seen_at': '2027-03-01T12:00:07Z'},
            one,
        )  # fmt: skip
        self.assertEqual((None, None), (two['free_ppm'], two['seen_at']))
        found = self.read('/v1/hosts?limit=1')
        (link,) = found['hosts_links']
        self.assertEqual('/v1/hosts?limit=1&marker=one', link['href'])
        (two,) = self.read(link['href'])['hosts']
        self.assertEqual('two', two['name'])

    def test_show(self):
        host = self.read('/v1/hosts/one')['host']
        self.assertEqual(
            [
                (3, 900_000, 500_000, 400_000, [UUID]),
                (4, 900_000, 0, 900_000, []),
                # Claimed, and not offered any more.
                (7, None, 500_000, None, [UUID]),
            ],
            [
                pick(
                    cpu, 'cpu', 'capacity_ppm', 'reserved_ppm', 'free_ppm',
                    'servers',
                )
                for cpu in host['cpus']
            ],
        )  # fmt: skip

    def test_refused(self):
        self.assert_error(404, 'not_found', 'three', path='/v1/hosts/three')
        for path in '/v1/hosts', '/v1/hosts/one', '/v1/hosts/three':
            self.assert_error(
                403, 'forbidden', 'rt:host', path=path, user='member'
            )

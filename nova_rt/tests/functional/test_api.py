# SPDX-License-Identifier: Apache-2.0
"""nova-rt-api on a cloud in this process, down to the kernel."""

import fixtures
from keystoneauth1 import exceptions as ks_exc
from nova import exception as nova_exception
from nova import objects
from nova.scheduler.client import report
from oslo_limit import fixture as limit_fixture
from oslo_messaging import exceptions as bus_exception
from werkzeug import test

from nova_rt.db import changes as db
from nova_rt.rest import app, policies, sources
from nova_rt.tests.fixtures.history import make_uuid
from nova_rt.tests.functional import changes


class APITestBase(changes.AskedTestBase):
    def setUp(self):
        super().setUp()
        self.client = test.Client(
            app.make_app(
                self.conf,
                sources.Sources(self.conf),
                policies.make_enforcer(self.conf),
            )
        )
        self.path = f'/v1/servers/{self.server["id"]}/reservation'

    def send(self, method, path, status=200, **more):
        """Send a request, as keystonemiddleware passes it on."""
        response = self.client.open(
            path,
            method=method,
            headers={
                'X-Identity-Status': 'Confirmed',
                'X-Roles': 'admin,member,reader',
                'X-Project-Id': self.api.project_id,
            }
            | more.pop('headers', {}),
            **more,
        )
        self.assertEqual(status, response.status_code, response.text)
        return response.json

    def show(self):
        return self.send('GET', self.path)['reservation']

    def put(self, runtime_us, status=202, **more):
        wish = {'runtime_us': runtime_us, 'period_us': 1000}
        return self.send(
            'PUT', self.path, status, json={'reservation': wish}, **more
        )

    def list(self, query):
        found = self.send('GET', f'/v1/reservations?{query}')
        return [each['server_id'] for each in found['reservations']]


class APITest(APITestBase):
    def test_change(self):
        self.bus.start()
        found = self.put(600, headers={'If-Match': '"0"'})['reservation']
        self.assertEqual(
            (1, 'InProgress'),
            (found['generation'], found['condition']['type']),
        )

        def check():
            found = self.show()
            self.assertEqual('Applied', found['condition']['type'])
            for name in 'desired', 'allocated', 'actual':
                self.assertEqual(600, found[name]['runtime_us'])

        self._wait_for_assert(check)
        self.assert_changed('600/1000')
        self.put(700, 409, headers={'If-Match': '"0"'})
        self._wait_for_assert(
            lambda: self.assertIn(
                'changed',
                [
                    each['event']
                    for each in self.send('GET', f'{self.path}/history')[
                        'events'
                    ]
                ],
            )
        )

    def test_bus_that_is_away(self):
        """The change is kept, and made when a conductor looks for it."""

        gone = bus_exception.MessageDeliveryFailure('gone')
        with fixtures.MockPatch(
            'nova_rt.conductor.queue.Sender.send', side_effect=gone
        ):
            self.put(600)
        self.bus.start()
        self._wait_for_assert(
            lambda: self.assertEqual(
                'Applied', db.get(self.server['id']).answer.condition
            )
        )
        self.assert_changed('600/1000')

    def test_task(self):
        instance = self.instance(self.server)
        instance.task_state = 'rebooting'
        instance.save()
        self.put(600, 409)
        self.assertIsNone(db.get(self.server['id']))
        self.assertEqual('busy', self.show()['state'])

    def limit(self):
        """Let the project have half a CPU."""
        self.flags(driver='nova.quota.UnifiedLimitsDriver', group='quota')
        self.useFixture(
            limit_fixture.LimitFixture(
                {'class:CUSTOM_RT_BANDWIDTH': 500_000}, {}
            )
        )

    def test_limit(self):
        self.limit()
        found = self.put(501, 403)
        self.assertIn('500000', found['errors'][0]['detail'])
        self.put(500)
        self.put(300)

        failure = nova_exception.UsagesRetrievalFailed(
            project_id='p', user_id='u'
        )
        self.useFixture(
            fixtures.MockPatch(
                'nova.scheduler.client.report.SchedulerReportClient.'
                'get_usages_counts_for_limits',
                side_effect=failure,
            )
        )
        self.put(450, 503)
        self.put(300)

    def test_limit_with_changes_that_wait(self):
        other = self.create(self.rt_flavor('50/1000'))
        self.limit()
        self.put(450)
        self.put(451, 403)
        self.put(440)
        self.path = f'/v1/servers/{other["id"]}/reservation'
        self.put(61, 403)
        self.put(60)

    def test_lists(self):
        self.create(self.plain_flavor())
        other = self.create(self.rt_flavor('100/1000'))
        moved = self.create(self.rt_flavor('50/1000'))
        self.resize(moved, self.rt_flavor('60/1000'))
        self._delete_server(self.create(self.rt_flavor('50/1000')))
        ours = sorted(each['id'] for each in (self.server, other, moved))
        self.assertEqual(ours, self.list('all_projects=true'))
        self.assertEqual(ours[:2], self.list('all_projects=true&limit=2'))
        self.assertEqual(
            ours[2:], self.list(f'all_projects=true&marker={ours[1]}')
        )
        self.assertEqual(ours, self.list(f'project_id={self.api.project_id}'))
        self.assertEqual([], self.list(f'project_id={"a" * 32}'))
        for host in self.computes:
            self.assertEqual(
                [uuid for uuid in ours
                 if self.host_of({'id': uuid}) == host],
                self.list(f'all_projects=true&host={host}'),
            )  # fmt: skip

    def test_cell_that_is_down(self):
        """It concerns the projects that have servers there."""
        other = self.create(self.rt_flavor('50/1000'))
        objects.CellMapping(
            self.ctxt,
            uuid=make_uuid(7),
            name='down',
            database_connection='sqlite:////no/such/directory/file',
            transport_url='none://',
        ).create()
        self.assertEqual(
            sorted(each['id'] for each in (self.server, other)), self.list('')
        )
        self.send('GET', '/v1/reservations?all_projects=true', 503)
        self.limit()
        self.put(420)
        self.path = f'/v1/servers/{other["id"]}/reservation'
        self.put(60)
        self.put(81, 403)

    def test_pages(self):
        """Servers that are not listed do not end the list."""
        servers = [self.server, *self.fill('100/1000', 2)]
        first, second, third = sorted(each['id'] for each in servers)
        self.flags(reclaim_instance_interval=3600)
        self.api.delete_server(first)
        self._wait_for_state_change({'id': first}, 'SOFT_DELETED')
        query = '/v1/reservations?limit=1'
        found = self.send('GET', query)
        (shown,) = found['reservations']
        self.assertEqual(second, shown['server_id'])
        # It is deleted between two queries.
        with fixtures.MonkeyPatch(
            'nova.objects.InstanceList.get_by_filters',
            lambda *args, **kwargs: [],
        ):
            found = self.send('GET', query)
        self.assertEqual([], found['reservations'])
        (link,) = found['reservations_links']
        (shown,) = self.send('GET', link['href'])['reservations']
        self.assertEqual(third, shown['server_id'])

    def test_hosts(self):
        names = sorted(self.computes)
        hosts = self.send('GET', '/v1/hosts')['hosts']
        self.assertEqual(names, [host['name'] for host in hosts])
        found = self.send('GET', f'/v1/hosts/{self.host}')['host']
        (cpu,) = self.record_of(self.server).cpus
        self.assertEqual(
            {cpu: ([self.server['id']], 400_000)},
            {
                each['cpu']: (each['servers'], each['reserved_ppm'])
                for each in found['cpus']
                if each['reserved_ppm']
            },
        )
        self.send('GET', '/v1/hosts/nowhere', 404)

    def assert_left_out(self, name):
        """There is one host, and not this one."""
        found = self.send('GET', '/v1/hosts')['hosts']
        self.assertEqual([self.host], [host['name'] for host in found])
        self.send('GET', f'/v1/hosts/{name}', 404)

    def test_hosts_that_are_left_out(self):
        """One is deleted meanwhile, or has no bandwidth: nobody asks."""
        left = self.other(self.host)
        read = objects.ComputeNode.get_by_uuid

        def get(cls, context, uuid):
            node = read(context, uuid)
            if node.host != left:
                return node
            raise nova_exception.ComputeHostNotFound(host=uuid)

        with fixtures.MonkeyPatch('nova.objects.ComputeNode.get_by_uuid', get):
            self.assert_left_out(left)
        node = objects.ComputeNode.get_by_host_and_nodename(
            self.ctxt, left, left
        )
        node.stats = {}
        node.save()
        asked, get = [], report.SchedulerReportClient.get

        def note(client, url, **words):
            asked.append(url)
            return get(client, url, **words)

        with fixtures.MockPatchObject(
            report.SchedulerReportClient, 'get', note
        ):
            self.assert_left_out(left)
        self.assertTrue(asked)
        self.assertFalse([url for url in asked if node.uuid in url])

    def test_not_found(self):
        plain = self.create(self.plain_flavor())
        for uuid in plain['id'], make_uuid(7):
            self.send('GET', f'/v1/servers/{uuid}/reservation', 404)

    def test_sources_that_are_away(self):
        with fixtures.MockPatchObject(
            report.SchedulerReportClient, 'get',
            side_effect=ks_exc.ConnectFailure('gone'),
        ):  # fmt: skip
            self.send('GET', '/v1/hosts', 503)
        self.flags(connection=None, group='api_database')
        self.send('GET', self.path, 503)


class BoostAPITest(APITestBase):
    """A boost as users see it: by its events, over bus and database."""

    def setUp(self):
        super().setUp()
        self.bus.start()
        flavor = self.rt_flavor(
            '400/1000', startup_runtime='700', startup_s='600'
        )
        self._delete_server(self.server)
        self.server = self.create(flavor)
        self.path = f'/v1/servers/{self.server["id"]}/reservation'

    def wait_for_boost(self, runtime_us):
        def check():
            found = self.show()
            boost = found['boost'] and found['boost']['runtime_us']
            self.assertEqual(
                (runtime_us, 400), (boost, found['allocated']['runtime_us'])
            )

        self._wait_for_assert(check)

    def test_stop_and_start(self):
        self.wait_for_boost(700)
        (listed,) = self.send('GET', '/v1/reservations')['reservations']
        self.assertEqual(self.show()['boost'], listed['boost'])
        self._stop_server(self.server)
        self.wait_for_boost(None)
        self._start_server(self.server)
        self.wait_for_boost(700)

    def test_change(self):
        self.wait_for_boost(700)
        self.put(500)

        def check():
            found = self.show()
            # The host's events may come before its answer.
            actual = found['actual'] and found['actual']['runtime_us']
            self.assertEqual((None, 500), (found['boost'], actual))

        self._wait_for_assert(check)

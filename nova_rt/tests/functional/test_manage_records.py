# SPDX-License-Identifier: Apache-2.0
"""nova-rt-manage server and host, on a cloud in this process.

They need no report of any service: the database of nova_rt is not there.
"""

from nova.tests.functional.libvirt import base as nova_base

from nova_rt.db import api as history
from nova_rt.reservation import cpulist, record
from nova_rt.tests.fixtures import database, manage
from nova_rt.tests.fixtures.history import NOW, event, make_uuid
from nova_rt.tests.functional import moves


class RecordsTest(manage.CommandsMixin, moves.MovesTestBase):
    conf = nova_base.CONF

    def setUp(self):
        super().setUp()
        self.prepare_commands()

    def rows(self):
        """The rows of "server list", in short."""
        return [
            (row['Server'], row['Host'], row['Reservation'], row['CPUs'],
             row['Total ppm'], row['State'])
            for row in self.read('server', 'list')
        ]  # fmt: skip

    def test_a_life(self):
        self.assertEqual([], self.rows())
        self.create(self.plain_flavor())
        server = self.create(
            self.rt_flavor('600/1000', vcpus=2, priority='7'), host='compute1'
        )
        uuid = server['id']
        cpus = cpulist.render(self.record_of(server).cpus)
        row = (uuid, 'compute1', '600/1000', cpus, 1_200_000, 'held')
        self.assertEqual([row], self.rows())
        self.assertEqual(
            [uuid],
            [
                each['Server']
                for each in self.read('server', 'list', '--host', 'compute1')
            ],
        )
        self.assertEqual([], self.read('server', 'list', '--host', 'compute2'))
        shown = self.read('server', 'show', uuid)
        expected = {
            'Server': uuid, 'Host': 'compute1', 'Reservation': '600/1000',
            'ppm': 600_000, 'vCPUs': 2, 'CPUs': cpus, 'Total ppm': 1_200_000,
            'Enforcement': 'guarantee', 'Policy': 'rr', 'Priority': 7,
            'Numa': 'prefer', 'State': 'held',
        }  # fmt: skip
        self.assertEqual(expected, {name: shown[name] for name in expected})
        self._stop_server(server)
        self.assertEqual([row], self.rows())
        instance = self.instance(server)
        kept = instance.system_metadata[record.KEY]
        for text, task, says in (
            (kept, 'rebooting', (*row[2:-1], 'busy')),
            ('v=9', None, (None, None, None, 'unreadable')),
            (kept, None, row[2:]),
        ):
            instance.system_metadata[record.KEY] = text
            instance.task_state = task
            instance.save()
            self.assertEqual(says, self.rows()[0][2:])
            self.assertEqual(
                says[-1], self.read('server', 'show', uuid)['State']
            )
        self._delete_server(server)
        self.assertEqual([], self.rows())
        self.assert_fails(1, 'holds no bandwidth', 'server', 'show', uuid)

    def test_resize(self):
        server = self.create(self.rt_flavor('400/1000'), host='compute1')
        self.resize(server, self.rt_flavor('600/1000'))
        self.assertEqual(
            {
                ('compute1', '400/1000', 'resized'),
                ('compute2', '600/1000', 'held'),
            },
            {(row[1], row[2], row[5]) for row in self.rows()},
        )
        shown = self.read('server', 'show', server['id'])
        self.assertEqual(
            ('compute2', '600/1000'), (shown['Host'], shown['Reservation'])
        )
        self.assertEqual(
            {'compute1': (400_000, 1), 'compute2': (600_000, 1)},
            {
                row['Host']: (row['Reserved ppm'], row['Servers'])
                for row in self.read('host', 'list')
            },
        )
        self.confirm(server)
        self.assertEqual(
            [('compute2', '600/1000', 'held')],
            [(row[1], row[2], row[5]) for row in self.rows()],
        )

    def test_hosts(self):
        server = self.create(
            self.rt_flavor('600/1000', vcpus=2), host='compute1'
        )
        first, second = self.read('host', 'list')
        capacity = self.capacity()
        self.assertIn(first.pop('Age s'), range(3600))
        self.assertTrue(first.pop('Last seen').endswith('Z'))
        self.assertEqual(
            {
                'Host': 'compute1',
                'Interface': 'v2-rt-max-cpu',
                'Enforcement': 'guarantee',
                'CPUs': len(capacity),
                'Capacity ppm': sum(capacity.values()),
                'Reserved ppm': 1_200_000,
                'Servers': 1,
            },
            first,
        )
        self.assertEqual(
            ('compute2', 0), (second['Host'], second['Reserved ppm'])
        )
        *cpus, whole = self.read('host', 'show', 'compute1')
        held = self.record_of(server).cpus
        self.assertEqual(
            [
                (cpu, 600_000 * (cpu in held), ppm - 600_000 * (cpu in held),
                 int(cpu in held))
                for cpu, ppm in sorted(capacity.items())
            ],
            [tuple(row.values()) for row in cpus],
        )  # fmt: skip
        self.assertEqual(
            ('host', 1_200_000, sum(capacity.values()) - 1_200_000, 1),
            tuple(whole.values()),
        )

    def test_unknown(self):
        nobody = make_uuid(77)
        self.assert_fails(1, "'x'", 'server', 'list', '--host', 'x')
        self.assert_fails(1, "'x'", 'host', 'show', 'x')
        self.assert_fails(1, nobody, 'server', 'show', nobody)
        self.assert_fails(1, 'no UUID', 'server', 'show', '\x1b[2J')
        plain = self.create(self.plain_flavor())
        self.assert_fails(1, 'not real-time', 'server', 'show', plain['id'])
        self.flags(connection=None, group='api_database')
        for words in (
            ('server', 'list'), ('server', 'show', make_uuid(1)),
            ('host', 'list'), ('host', 'show', 'compute1'),
        ):  # fmt: skip
            self.assert_fails(2, '[api_database] connection', *words)

    def test_the_last_of_a_server_that_is_gone(self):
        made = self.useFixture(database.Database())
        self.flags(connection=made.url, group='nova_rt_database')
        gone = make_uuid(5)
        history.add_event(event(1, 'claimed', server=gone), NOW)
        history.add_event(event(2, 'released', server=gone), NOW)
        shown = self.read('server', 'show', gone)
        self.assertEqual(
            ('one', '1400/2000', '3-4', 'released'),
            tuple(
                shown[name]
                for name in ('Host', 'Reservation', 'CPUs', 'State')
            ),
        )

# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cloud.buses."""

import fixtures
from nova import context, objects, test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_rt.cloud import buses, nova_db


class BusesTest(test.TestCase):
    """Two hosts in two cells."""

    def setUp(self):
        super().setUp()
        # The database fixture has configured it.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.db.api.api.context_manager.configure',
                lambda **options: None,
            )
        )
        self.flags(connection='sqlite://', group='api_database')
        self.context = context.get_admin_context()
        self.buses = buses.Buses()

    def add(self, host, url):
        cell = objects.CellMapping(
            self.context, uuid=getattr(uuids, host), name=host,
            transport_url=url, database_connection='sqlite://',
        )  # fmt: skip
        cell.create()
        objects.HostMapping(
            self.context, host=host, cell_mapping=cell
        ).create()

    def test_of_the_cell(self):
        self.add('a', 'rabbit://cell1/')
        # As nova-manage stores that of its own configuration.
        self.add('b', '{scheme}:/{path}?cell2')
        self.flags(transport_url='fake:/')
        self.assertEqual('rabbit://cell1/', self.buses.find('a'))
        self.assertEqual('fake:/?cell2', self.buses.find('b'))

    def test_another_cell(self):
        """A host that has moved is found after a minute."""
        self.add('a', 'rabbit://cell1/')
        clock = self.useFixture(
            fixtures.MockPatch('nova_rt.cloud.buses.time.monotonic')
        ).mock
        clock.return_value = 1000.0
        self.buses.find('a')
        cell = objects.CellMapping.get_by_uuid(self.context, uuids.a)
        cell.transport_url = 'rabbit://cell2/'
        cell.save()
        self.assertEqual('rabbit://cell1/', self.buses.find('a'))
        clock.return_value = 1060.0
        self.assertEqual('rabbit://cell2/', self.buses.find('a'))

    def test_unknown_host(self):
        err = self.assertRaises(nova_db.Unreadable, self.buses.find, 'c')
        self.assertEqual('host c is in no cell', str(err))

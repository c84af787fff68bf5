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
        self.assertEqual('rabbit://cell1/', buses.find('a'))
        self.assertEqual('fake:/?cell2', buses.find('b'))

    def test_unknown_host(self):
        err = self.assertRaises(nova_db.Unreadable, buses.find, 'c')
        self.assertEqual('host c is in no cell', str(err))

# SPDX-License-Identifier: Apache-2.0
"""Base of tests that need a database.

They run on SQLite here, and on real servers in ``tests/functional/db``.
"""

from oslotest import base

from nova_rt.tests.fixtures import database


class DatabaseTest(base.BaseTestCase):
    """Each test has a database of its own.

    :cvar server_class: a class of :mod:`nova_rt.tests.fixtures.database`
    """

    server_class = database.SQLite

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.server_class()
        cls.addClassCleanup(cls.server.cleanUp)
        cls.server.setUp()

    def setUp(self):
        super().setUp()
        self.database = self.useFixture(database.Database(self.server))

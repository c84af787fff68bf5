# SPDX-License-Identifier: Apache-2.0
"""The unit tests of the database layer, on real servers."""

from nova_rt.tests.fixtures import database
from nova_rt.tests.unit.db import test_changes, test_history, test_retention


class MariaDBChangesTest(test_changes.ChangesTest):
    server_class = database.MariaDB


class MariaDBHistoryTest(test_history.HistoryTest):
    server_class = database.MariaDB


class MariaDBPurgeTest(test_retention.PurgeTest):
    server_class = database.MariaDB


class PostgreSQLChangesTest(test_changes.ChangesTest):
    server_class = database.PostgreSQL


class PostgreSQLHistoryTest(test_history.HistoryTest):
    server_class = database.PostgreSQL


class PostgreSQLPurgeTest(test_retention.PurgeTest):
    server_class = database.PostgreSQL

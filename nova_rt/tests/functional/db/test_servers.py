# SPDX-License-Identifier: Apache-2.0
"""The unit tests of the database layer, on real servers."""

from nova_rt.tests.fixtures import database
from nova_rt.tests.unit.db import (
    test_reports,
    test_reservations,
    test_retention,
    test_usage,
)


class _OnMariaDB:
    server_class = database.MariaDB


class _OnPostgreSQL:
    server_class = database.PostgreSQL


class MariaDBStateTest(_OnMariaDB, test_reports.StateTest):
    pass


class MariaDBEventTest(_OnMariaDB, test_reports.EventTest):
    pass


class MariaDBReservationTest(_OnMariaDB, test_reservations.ReservationTest):
    pass


class MariaDBUsageTest(_OnMariaDB, test_usage.UsageTest):
    pass


class MariaDBPurgeTest(_OnMariaDB, test_retention.PurgeTest):
    pass


class PostgreSQLStateTest(_OnPostgreSQL, test_reports.StateTest):
    pass


class PostgreSQLEventTest(_OnPostgreSQL, test_reports.EventTest):
    pass


class PostgreSQLReservationTest(
    _OnPostgreSQL, test_reservations.ReservationTest
):
    pass


class PostgreSQLUsageTest(_OnPostgreSQL, test_usage.UsageTest):
    pass


class PostgreSQLPurgeTest(_OnPostgreSQL, test_retention.PurgeTest):
    pass
